/**
 * The conformance kit against a real Tryton. A client that does not belong to the connector reads what Tryton holds.
 */
import { randomUUID } from 'node:crypto';
import type { Document, RecordOf, RequisitionRecord, SupplierRecord } from 'sourcing-bridge/connector';
import { conformance, type EditedField, type HeldObject } from 'sourcing-bridge/connector/testing';
import { beforeAll, test } from 'vitest';
import tryton from '../../../connectors/tryton/index.ts';
import { answersIn } from '../../harness/answers-in-page.ts';
import { describeTryton, startTestTryton } from '../../tryton/tryton-in-tests.ts';
import { date, decimal, type TrytonClient, type TrytonValue } from '../../tryton/tryton-rpc.ts';
import { type TrytonDatabase, type TrytonServer, trytonUsers } from '../../tryton/tryton-server.ts';

const backend = process.env['TRYTON_BACKEND'];
const against = backend === 'postgresql' ? 'Tryton 6.0 on PostgreSQL' : 'Tryton 6.0 on SQLite';
/** With TRYTON_BACKEND, the kit runs every check and fault for every kind; without it, for the most important ones. */
const isFullRun = backend !== undefined;

describeTryton('the Tryton connector', () => {
  let server: TrytonServer;
  let database: TrytonDatabase;
  let admin: TrytonClient;

  beforeAll(async () => {
    server = await startTestTryton();
    database = await server.newDatabase();
    admin = await database.logIn('admin');
    // The seed has no currency for the kit's documents, and no rules that make Tryton refuse the poisoned ones.
    const kwd = { code: 'KWD', name: 'Kuwaiti Dinar', symbol: 'KD', digits: 3, rounding: decimal('0.001') };
    await admin.create('currency.currency', [kwd]);
    for (const [model, field] of [
      ['purchase.purchase', 'description'],
      ['purchase.request.quotation.line', 'description'],
      ['ir.attachment', 'name'],
    ])
      await forbidPoison(admin, model as string, field as string);
  });

  const target = {
    connector: tryton,
    verified: 'real server' as const,
    against,
    proxy: { protocol: 'http' as const, address: () => server.url },
    settings: (url: string) => ({
      url,
      database: database.name,
      user: trytonUsers.connector.login,
      password: trytonUsers.connector.password,
      product: 'LOT',
      batch_size: 5,
      read_page: 50,
    }),
    held: (document: Document) => heldIn(admin, document),
    adapt,
    poison,
    acknowledged: async (number: string) => notesOn(admin, number),
    deleteRequisition: async (number: string) => {
      // As a user withdraws an approved one.
      const domain = [['number', '=', number]];
      const [requisition] = await admin.search('purchase.requisition', domain, ['lines.purchase_requests']);
      const requests = requisition['lines.'].flatMap((line: TrytonValue) => line.purchase_requests);
      await admin.call('purchase.request', 'delete', [requests]);
    },
    edit: async (document: Document, n: number) => editIn(admin, document, n),
    remove: async (document: Document) => removeIn(admin, document),
    expireLogin: async () => database.expireSessions('connector'),
    changeRecord: async <Stream extends 'supplier' | 'requisition'>(
      stream: Stream,
      name: string,
      archived: boolean,
    ) => {
      const change = stream === 'supplier' ? changeSupplier(admin, name, archived) : changeRequisition(database, name);
      return (await change) as RecordOf<Stream>;
    },
  };

  const tests = conformance({
    ...target,
    ...(isFullRun ? { faultPoints: 6 } : { kinds: ['award'], faultPoints: 1 }),
  });
  for (const { title, run } of tests) test(title, run, checkTimeoutMs);
});

/** Long: the kit breaks the connection at each request of a write, and looks each time at what the server holds. */
const checkTimeoutMs = 300_000;

/** The document with blanks for tabs: Tryton refuses tabs in names, so the connector writes blanks. */
function adapt(document: Document): Document {
  return JSON.parse(JSON.stringify(document).replaceAll(String.raw`\t`, ' ')) as Document;
}

const poisonWord = 'POISON';

/** Adds a rule for all users, as an administrator would: no record may have the poison word in this field. */
async function forbidPoison(admin: TrytonClient, model: string, field: string): Promise<void> {
  const [row] = await admin.search('ir.model', [['model', '=', model]], ['id']);
  const domain = JSON.stringify([['OR', [field, '=', null], [field, 'not like', `%${poisonWord}%`]]]);
  await admin.create('ir.rule.group', [
    {
      name: `No ${poisonWord}`,
      model: row.id,
      global_p: true,
      perm_read: false,
      perm_write: true,
      perm_create: true,
      rules: [['create', [{ domain }]]],
    },
  ]);
}

function poison(document: Document): Document {
  switch (document.kind) {
    case 'supplier':
      return { ...document, fields: { identifier_eu_vat: 'DE123' } };
    case 'quotation':
      return { ...document, lines: document.lines.map((line) => ({ ...line, fields: { description: poisonWord } })) };
    case 'file':
    case 'job':
      return document;
    default:
      return { ...document, event: { ...document.event, name: poisonWord } };
  }
}

async function heldIn(admin: TrytonClient, document: Document): Promise<HeldObject[]> {
  const code = codeOf(document);
  switch (document.kind) {
    case 'supplier': {
      const found = await admin.search(
        'party.party',
        [['code', '=', code]],
        ['name', 'active', 'contact_mechanisms.name', 'contact_mechanisms.value'],
        { active_test: false },
      );
      return found.map((party) => ({
        reference: `party.party,${party.id}`,
        document: {
          name: party.name,
          archived: !party.active,
          contacts: party['contact_mechanisms.'].map(({ name, value }: TrytonValue) => ({ name, email: value })),
        },
      }));
    }
    case 'award': {
      const domain = [
        ['party.code', '=', code],
        ['state', '!=', 'cancelled'],
      ];
      const lines = ['description', 'quantity', 'unit_price', 'note'].map((name) => `lines.${name}`);
      const fields = ['description', 'party.name', 'party.code', 'currency.code', ...lines];
      return (await admin.search('purchase.purchase', domain, fields)).map((purchase) => ({
        reference: `purchase.purchase,${purchase.id}`,
        document: {
          event: { name: purchase.description },
          supplier: { external_id: purchase['party.'].code, name: purchase['party.'].name },
          currency: purchase['currency.'].code,
          lines: purchase['lines.'].map(({ description, quantity, unit_price, note }: TrytonValue) => ({
            lot: description,
            quantity: String(quantity),
            unit_price,
            cost: /^Cost: (\S+)/mu.exec(note)?.[1],
          })),
        },
      }));
    }
    case 'quotation': {
      const domain = [
        ['supplier.code', '=', code],
        ['state', 'not in', ['cancelled', 'rejected']],
      ];
      const lines = ['description', 'quantity', 'unit_price', 'currency.code'].map((name) => `lines.${name}`);
      const found = await admin.search('purchase.request.quotation', domain, [
        'supplier.name',
        'supplier.code',
        ...lines,
      ]);
      return found.map((quotation) => ({
        reference: `purchase.request.quotation,${quotation.id}`,
        document: {
          supplier: { external_id: quotation['supplier.'].code, name: quotation['supplier.'].name },
          currency: quotation['lines.'][0]['currency.'].code,
          lines: quotation['lines.'].map(({ description, quantity, unit_price }: TrytonValue) => ({
            lot: description,
            quantity: String(quantity),
            unit_price,
          })),
        },
      }));
    }
    case 'rfi-answers':
    case 'file': {
      const [party] = await admin.search('party.party', [['code', '=', code]], ['id']);
      if (!party) return [];
      const domain = [['resource', '=', `party.party,${party.id}`]];
      const found = await admin.search('ir.attachment', domain, ['name', 'description', 'data']);
      return found.map(({ id, description, data }) => ({
        reference: `ir.attachment,${id}`,
        document:
          document.kind === 'file'
            ? { question: { text: description.split('\n')[1].replace(/^1\.2 /u, '') } }
            : { lines: answersIn(data.toString('utf8')) },
        ...(document.kind === 'file' ? { bytes: data } : {}),
      }));
    }
    default:
      throw new Error(`The connector does not take documents of the kind ${document.kind}.`);
  }
}

/** What a buyer may change in Tryton's client, and the fields that differ then. */
async function editIn(admin: TrytonClient, document: Document, n: number): Promise<EditedField[] | undefined> {
  const code = codeOf(document);
  const name = 'Other "title"';
  const [object] = await admin.search(modelOf(document), domainOf(document), ['id', ...childrenOf(document)], {
    active_test: false,
  });
  const id = object?.id;
  if (document.kind === 'supplier') {
    const [contact] = object['contact_mechanisms.'];
    const edits = [
      async () => {
        await admin.call('party.party', 'write', [[id], { name }]);
        return [{ name: 'name', held: name }];
      },
      async () => {
        const added = [['create', [{ type: 'email', value: 'new@example.com' }]]];
        await admin.call('party.party', 'write', [[id], { contact_mechanisms: added }]);
        return [];
      },
      async () => {
        await admin.call('party.contact_mechanism', 'delete', [[contact.id]]);
        const gone = ['value', 'type', ...(contact.name ? ['name'] : [])];
        return gone.map((member) => ({ name: `contacts[${contact.value}].${member}`, held: undefined }));
      },
    ];
    return edits[n]?.();
  }
  const model = modelOf(document);
  const [line] = object['lines.'];
  const lot = line.description;
  const writeLine = (values: object) => admin.call(lineModelOf(document), 'write', [[line.id], values]);
  const edits = [
    async () => {
      await writeLine({ unit_price: decimal('1234567.8904') });
      return [{ name: `lines[${lot}].unit_price`, held: '1234567.8904' }];
    },
    async () => {
      await writeLine({ quantity: 7654 });
      return [{ name: `lines[${lot}].quantity`, held: '7654' }];
    },
    ...(document.kind === 'award'
      ? [
          async () => {
            await admin.call(model, 'write', [[id], { description: name }]);
            return [{ name: 'description', held: name }];
          },
          async () => {
            await writeLine({ note: `${line.note}\nAsk Ann.` });
            return [];
          },
          async () => {
            const added = { type: 'line', description: 'Fracht', quantity: 1, unit_price: decimal('9.90') };
            await admin.call(model, 'write', [[id], { lines: [['create', [added]]] }]);
            return [
              { name: 'lines[Fracht].lot', held: 'Fracht' },
              { name: 'lines[Fracht].quantity', held: '1' },
              { name: 'lines[Fracht].unit_price', held: '9.9' },
              { name: 'lines[Fracht].description', held: 'Fracht' },
            ];
          },
          async () => {
            await admin.call(model, 'write', [[id], { lines: [['delete', [line.id]]] }]);
            return ['lot', 'product', 'unit', 'quantity', 'unit_price', 'description', 'note'].map((member) => ({
              name: `lines[${lot}].${member}`,
              held: undefined,
            }));
          },
        ]
      : []),
  ];
  if (code === '') return undefined;
  return edits[n]?.();
}

async function removeIn(admin: TrytonClient, document: Document): Promise<'missing' | 'cancelled' | undefined> {
  // Bids that were received can only be rejected, which is a step of the workflow and no loss.
  if (document.kind === 'quotation') return undefined;
  const [object] = await admin.search(modelOf(document), domainOf(document), ['id'], { active_test: false });
  // Only a party that nothing names can be deleted; orders are cancelled.
  await admin.call(modelOf(document), document.kind === 'supplier' ? 'delete' : 'cancel', [[object.id]]);
  return document.kind === 'supplier' ? 'missing' : 'cancelled';
}

function modelOf({ kind }: Document): string {
  const models: Partial<Record<Document['kind'], string>> = {
    supplier: 'party.party',
    award: 'purchase.purchase',
    quotation: 'purchase.request.quotation',
  };
  return models[kind] ?? '';
}

function lineModelOf(document: Document): string {
  return document.kind === 'award' ? 'purchase.line' : 'purchase.request.quotation.line';
}

function childrenOf({ kind }: Document): string[] {
  if (kind === 'supplier') return ['contact_mechanisms.value', 'contact_mechanisms.name'];
  return ['lines.description', ...(kind === 'award' ? ['lines.note'] : [])];
}

function domainOf(document: Document): unknown[] {
  if (document.kind === 'supplier') return [['code', '=', codeOf(document)]];
  const party = document.kind === 'award' ? 'party.code' : 'supplier.code';
  return [
    [party, '=', codeOf(document)],
    ['state', '!=', 'cancelled'],
  ];
}

function codeOf(document: Document): string {
  if (document.kind === 'supplier') return document.key;
  if (!('supplier' in document)) return '';
  return document.supplier?.external_id ?? document.supplier?.id ?? '';
}

async function changeSupplier(admin: TrytonClient, name: string, archived: boolean): Promise<SupplierRecord> {
  const code = `S-${randomUUID()}`;
  const mechanisms = [['create', [{ type: 'email', value: 'sales@example.com', name: 'Sales' }]]];
  const addresses = [['create', [{ street: 'ul. Długa 1', postal_code: '00-001', city: 'Warszawa' }]]];
  await admin.create('party.party', [{ name, code, active: !archived, contact_mechanisms: mechanisms, addresses }]);
  return {
    external_id: code,
    name,
    archived,
    fields: { street: 'ul. Długa 1', postal_code: '00-001', city: 'Warszawa' },
    contacts: [{ name: 'Sales', email: 'sales@example.com' }],
  };
}

/** The notes on a requisition, without the key at their end. */
async function notesOn(admin: TrytonClient, number: string): Promise<{ text: string }[]> {
  const [requisition] = await admin.search('purchase.requisition', [['number', '=', number]], ['id']);
  const notes = await admin.search(
    'ir.note',
    [['resource', '=', `purchase.requisition,${requisition.id}`]],
    ['message'],
  );
  return notes.map(({ message }) => ({
    text: message.replace(/\n\(Kept by the sourcing bridge: news [0-9a-f-]{36}\)$/, ''),
  }));
}

/** Creates a requisition and approves it, as an employee and her superior do it. */
async function changeRequisition(database: TrytonDatabase, name: string): Promise<RequisitionRecord> {
  const requester = await database.logIn('requester');
  const [product] = await requester.search('product.product', [['code', '=', 'STEEL']], ['default_uom']);
  const [employee] = await requester.search('company.employee', [], ['id']);
  const [requisition] = await requester.create('purchase.requisition', [
    {
      description: name,
      employee: employee.id,
      supply_date: date('2030-03-31'),
      lines: [
        ['create', [{ product: product.id, unit: product.default_uom, quantity: 2.5, unit_price: decimal('1.8750') }]],
      ],
    },
  ]);
  await requester.call('purchase.requisition', 'wait', [[requisition]]);
  await requester.call('purchase.requisition', 'approve', [[requisition]]);
  const [approved] = await requester.search('purchase.requisition', [['id', '=', requisition]], ['number', 'lines']);
  return {
    reference_id: approved.number,
    name,
    description: name,
    requested_by: 'Rita Requester',
    needed_by: '2030-03-31T00:00:00.000000Z',
    tags: [{ name: 'Warehouse', value: 'Warehouse' }],
    items: [
      {
        line: String(approved.lines[0]),
        name: '[STEEL] Sheet steel',
        quantity: '2.5',
        unit: 'kg',
        target_price: '1.875',
        currency: 'EUR',
      },
    ],
    open: true,
  };
}
