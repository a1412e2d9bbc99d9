/**
 * What the conformance kit has to know about the Odoo connector. `held` reads from the stand-in's rows, and from a real
 * Odoo over its API, in both cases without the connector's code.
 */
import { randomUUID } from 'node:crypto';
import type { Document, RecordOf, RequisitionRecord, SupplierRecord } from 'sourcing-bridge/connector';
import type { ConformanceTarget, EditedField, HeldObject } from 'sourcing-bridge/connector/testing';
import odoo from '../../../connectors/odoo/index.ts';
import type { OdooReader, OdooRow } from './odoo-reader.ts';

/** A product of the tests; lines of awards need one where the order is confirmed. */
export const productCode = 'LOT';

export interface OdooTargetOptions {
  readonly reader: OdooReader;
  readonly settings: (address: string) => Readonly<Record<string, unknown>>;
  readonly address: () => string;
}

/** The members of the target that do not depend on which Odoo it is. */
export function odooTarget(options: OdooTargetOptions) {
  const { settings, address } = options;
  return {
    connector: odoo,
    proxy: { protocol: 'http' as const, address },
    settings,
    held: (document: Document) => heldIn(options.reader, document),
    adapt,
    poison,
    edit: (document: Document, n: number) => editIn(options.reader, document, n),
    remove: (document: Document) => removeIn(options.reader, document),
    acknowledged: (requisition: string) => notesOf(options.reader, requisition),
    deleteRequisition: (requisition: string) => deleteAgreement(options.reader, requisition),
    changeRecord: async <Stream extends 'supplier' | 'requisition'>(stream: Stream, name: string, archived: boolean) =>
      (await (stream === 'supplier'
        ? changeSupplier(options.reader, name, archived)
        : changeRequisition(options.reader, name))) as RecordOf<Stream>,
  } satisfies Partial<ConformanceTarget>;
}

/**
 * The document with what Odoo can hold: blanks for tabs in names, and amounts of at most 15 digits, because Odoo's
 * numbers are binary floating-point numbers. `values.test.ts` shows that the connector refuses longer ones.
 */
function adapt(document: Document): Document {
  return JSON.parse(
    JSON.stringify(document)
      .replaceAll(String.raw`\t`, ' ')
      .replaceAll('1234567890123.2501', '12345678.2501')
      .replaceAll('3703703670369.7503', '37037034.7503')
      .replaceAll('3703703671169.3503', '37037834.3503'),
  ) as Document;
}

/** What Odoo refuses: an award or bid for a product that it does not have, and a supplier without a name. */
function poison(document: Document): Document {
  switch (document.kind) {
    case 'supplier':
      return { ...document, name: '  ' };
    case 'award':
    case 'quotation':
      return {
        ...document,
        lines: document.lines.map((line) => ({ ...line, fields: { product: 'NO SUCH PRODUCT' } })),
      } as Document;
    default:
      return document;
  }
}

/** The live order of the document's supplier. */
async function orderOf(reader: OdooReader, document: Document) {
  const [partner] = await reader.search('res.partner', { ref: codeOf(document) }, ['name']);
  const orders = await reader.search('purchase.order', { partner_id: partner?.id }, ['state', 'order_line']);
  const order = orders.find(({ state }) => state !== 'cancel');
  if (!order) throw new Error(`Odoo has no order for ${document.key}.`);
  const names = ['name', 'product_qty', 'price_unit', 'order_id'];
  const [line] = await reader.read('purchase.order.line', order['order_line'] as number[], names);
  if (!line) throw new Error(`The order ${order.id} has no lines.`);
  return { order, line };
}

/** What a buyer may change in Odoo, and the fields that differ then. */
async function editIn(reader: OdooReader, document: Document, n: number): Promise<EditedField[] | undefined> {
  if (document.kind === 'supplier') return editSupplier(reader, document.key, n);
  const { order, line } = await orderOf(reader, document);
  const lot = String(line['name']);
  const edits = [
    async () => {
      await reader.write('purchase.order.line', line.id, { price_unit: 4567.8904 });
      return [{ name: `lines[${lot}].price`, held: '4567.8904' }];
    },
    async () => {
      await reader.write('purchase.order.line', line.id, { product_qty: 7654.5 });
      return [{ name: `lines[${lot}].quantity`, held: '7654.5' }];
    },
    async () => {
      await reader.write('purchase.order', order.id, { origin: 'Other "title"' });
      return [{ name: 'origin', held: 'Other "title"' }];
    },
    async () => {
      await reader.write('purchase.order.line', line.id, { name: 'Other text' });
      return [{ name: `lines[${lot}].text`, held: 'Other text' }];
    },
  ];
  return edits[n]?.();
}

async function partnerOf(reader: OdooReader, code: string): Promise<OdooRow> {
  const [partner] = await reader.search('res.partner', { ref: code }, ['name', 'child_ids']);
  if (!partner) throw new Error(`Odoo has no contact ${code}.`);
  return partner;
}

async function editSupplier(reader: OdooReader, code: string, n: number): Promise<EditedField[] | undefined> {
  const { id, child_ids } = await partnerOf(reader, code);
  const [child] = await reader.read('res.partner', child_ids as number[], ['name', 'email']);
  const write = (values: Readonly<Record<string, unknown>>) => reader.write('res.partner', id, values);
  const edits = [
    async () => {
      await write({ name: 'Other "name"' });
      return [{ name: 'name', held: 'Other "name"' }];
    },
    async () => {
      await write({ ref: `${code}-2` });
      return [{ name: 'ref', held: `${code}-2` }];
    },
    async () => {
      await write({ active: false });
      return [{ name: 'archived', held: 'true' }];
    },
    async () => {
      await reader.create('res.partner', { name: 'Ann', email: 'ann@example.com', parent_id: id, type: 'contact' });
      return [];
    },
    async () => {
      if (!child) return [];
      await reader.write('res.partner', child.id, { email: 'other@example.com' });
      return ['name', 'email'].map((member) => ({
        name: `contacts[${String(child['email'])}].${member}`,
        held: undefined,
      }));
    },
    async () => {
      await write({ supplier_rank: 0, phone: '+48 22 000 00 00' });
      return [{ name: 'vendor', held: 'false' }];
    },
  ];
  return edits[n]?.();
}

async function removeIn(reader: OdooReader, document: Document): Promise<'missing' | 'cancelled'> {
  if (document.kind === 'supplier') {
    const { id, child_ids } = await partnerOf(reader, document.key);
    await reader.call('res.partner', 'unlink', [...(child_ids as number[]), id]);
    return 'missing';
  }
  const { order } = await orderOf(reader, document);
  await reader.call('purchase.order', 'button_cancel', [order.id]);
  return 'cancelled';
}

async function heldIn(reader: OdooReader, document: Document): Promise<HeldObject[]> {
  const code = codeOf(document);
  switch (document.kind) {
    case 'supplier': {
      const partners = await reader.search('res.partner', { ref: code }, ['name', 'active', 'child_ids']);
      return Promise.all(
        partners.map(async ({ id, name, active, child_ids }) => ({
          reference: `res.partner,${id}`,
          document: {
            name,
            archived: !active,
            contacts: (await reader.read('res.partner', child_ids as number[], ['name', 'email'])).map((child) => ({
              name: child['name'],
              email: child['email'],
            })),
          },
        })),
      );
    }
    case 'award':
    case 'quotation': {
      const [partner] = await reader.search('res.partner', { ref: code }, ['name']);
      if (!partner) return [];
      const fields = ['state', 'origin', 'currency_id', 'order_line'];
      const orders = await reader.search('purchase.order', { partner_id: partner.id }, fields);
      const live = orders.filter(({ state }) => state !== 'cancel');
      return Promise.all(
        live.map(async ({ id, origin, currency_id, order_line }) => {
          const names = ['name', 'product_qty', 'price_unit'];
          const lines = await reader.read('purchase.order.line', order_line as number[], names);
          return {
            reference: `purchase.order,${id}`,
            document: {
              event: { name: String(origin).replace(/( SB-[0-9A-Z]{16})+( \(awarded .*)?$/, '') },
              supplier: { external_id: code, name: partner['name'] },
              currency: (currency_id as [number, string])[1],
              // A lot that was withdrawn from a confirmed order stays in it with a quantity of zero.
              lines: lines
                .filter(({ product_qty }) => product_qty !== 0)
                .map(({ name, product_qty, price_unit }) => ({
                  lot: name,
                  quantity: String(product_qty),
                  unit_price: String(price_unit),
                })),
            },
          };
        }),
      );
    }
    case 'rfi-answers':
    case 'file': {
      const [partner] = await reader.search('res.partner', { ref: code }, ['name']);
      if (!partner) return [];
      const on = { res_model: 'res.partner', res_id: partner.id };
      const found = await reader.search('ir.attachment', on, ['name', 'description', 'datas']);
      return found.map(({ id, description, datas }) => {
        const bytes = Buffer.from(typeof datas === 'string' ? datas : '', 'base64');
        const [, question = ''] = String(description).split('\n');
        return {
          reference: `ir.attachment,${id}`,
          document:
            document.kind === 'file'
              ? { question: { text: question.replace(/^1\.2 /u, '') } }
              : { lines: answersIn(bytes.toString('utf8'), document) },
          ...(document.kind === 'file' ? { bytes } : {}),
        };
      });
    }
    default:
      throw new Error(`The connector does not take documents of the kind ${document.kind}.`);
  }
}

/** The answers that the text shows, in the kit's form: a question's answers stand below it, indented. */
function answersIn(text: string, document: Document & { kind: 'rfi-answers' | 'file' }): unknown[] {
  if (document.kind !== 'rfi-answers') return [];
  const paragraphs = text.split(/\n\n(?=\S)/u);
  return document.lines.flatMap(({ question, currency = '' }) => {
    const title = [question.identifier, question.text].filter((part) => part !== undefined).join(' ');
    const paragraph = paragraphs.find((candidate) => candidate.startsWith(`${title}\n`));
    if (paragraph === undefined) return [];
    const answers = paragraph
      .slice(title.length + 1)
      .trimEnd()
      .split(/\n {4}(?! {4})|^ {4}/u)
      .filter((answer) => answer !== '')
      .map((answer) => answer.replaceAll('\n        ', '\n'));
    const comment = answers.find((answer) => answer.startsWith('Comment: '))?.slice('Comment: '.length);
    const value = answers.find((answer) => !/^(- |Comment: |Files: )/u.test(answer));
    return [
      {
        question,
        ...(value === undefined ? {} : { value: currency === '' ? value : value.replace(` ${currency}`, '') }),
        options: answers.flatMap((answer) => (answer.startsWith('- ') ? [{ value: answer.slice(2) }] : [])),
        ...(comment === undefined ? {} : { comment }),
      },
    ];
  });
}

function codeOf(document: Document): string {
  if (document.kind === 'supplier') return document.key;
  if (!('supplier' in document)) return '';
  return document.supplier?.external_id ?? document.supplier?.id ?? '';
}

async function changeSupplier(reader: OdooReader, name: string, archived: boolean): Promise<SupplierRecord> {
  const code = `S-${randomUUID()}`;
  const address = { street: 'ul. Długa 1', zip: '00-001', city: 'Warszawa' };
  const id = await reader.create('res.partner', { name, ref: code, supplier_rank: 1, is_company: true, ...address });
  await reader.create('res.partner', { name: 'Sales', email: 'sales@example.com', parent_id: id, type: 'contact' });
  if (archived) await reader.write('res.partner', id, { active: false });
  return {
    external_id: code,
    name,
    archived,
    fields: address,
    contacts: [{ name: 'Sales', email: 'sales@example.com' }],
  };
}

/** The notes in the log of an agreement, without the key at their end. */
async function notesOf(reader: OdooReader, requisition: string): Promise<{ text: string }[]> {
  const [agreement] = await reader.search('purchase.requisition', { name: requisition }, ['name']);
  if (!agreement) return [];
  const of = { model: 'purchase.requisition', res_id: agreement.id };
  const notes = await reader.search('mail.message', of, ['body']);
  return notes
    .map(({ body }) => String(body))
    .filter((body) => body.includes('Kept by the sourcing bridge'))
    .map((body) => ({
      text: body
        .replaceAll(/<[^>]*>/g, '')
        .replaceAll(/&#34;|&quot;/g, '"')
        .replaceAll('&#39;', "'")
        .replaceAll('&lt;', '<')
        .replaceAll('&gt;', '>')
        .replaceAll('&amp;', '&')
        .replace(/ \(Kept by the sourcing bridge: news [0-9a-f-]{36}\)$/, ''),
    }));
}

/** As a user who deletes the agreement; Odoo keeps no trace. */
async function deleteAgreement(reader: OdooReader, requisition: string): Promise<void> {
  const found = await reader.search('purchase.requisition', { name: requisition }, ['name']);
  for (const { id } of found)
    for (const method of ['action_cancel', 'unlink']) await reader.call('purchase.requisition', method, [id]);
}

async function changeRequisition(reader: OdooReader, name: string): Promise<RequisitionRecord> {
  const [product] = await reader.search('product.product', { default_code: productCode }, ['name']);
  const line = { product_id: product?.id, product_qty: 2.5, price_unit: 1.875 };
  const id = await reader.create('purchase.requisition', {
    reference: name,
    requisition_type: 'blanket_order',
    date_start: '2030-03-31',
    line_ids: [[0, 0, line]],
  });
  const shown = ['name', 'user_id', 'currency_id', 'line_ids'];
  const [agreement] = await reader.read('purchase.requisition', [id], shown);
  const fields = ['product_id', 'product_uom_id'];
  const [held] = await reader.read('purchase.requisition.line', agreement?.['line_ids'] as number[], fields);
  const textOf = (relation: unknown) => (relation as [number, string])[1];
  return {
    reference_id: String(agreement?.['name']),
    name,
    requested_by: textOf(agreement?.['user_id']),
    needed_by: '2030-03-31T00:00:00.000000Z',
    tags: [],
    items: [
      {
        line: String(held?.['id']),
        name: textOf(held?.['product_id']),
        quantity: '2.5',
        ...(held?.['product_uom_id'] ? { unit: textOf(held['product_uom_id']) } : {}),
        target_price: '1.875',
        currency: textOf(agreement?.['currency_id']),
      },
    ],
    open: true,
  };
}
