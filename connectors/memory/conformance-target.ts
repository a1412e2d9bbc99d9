/**
 * What the conformance kit has to know about this connector and its ERP. `held` reads from the ERP itself, and converts
 * the objects into documents here, not with mapping.ts: a wrong mapping must not judge itself.
 */
import { randomUUID } from 'node:crypto';
import type { Document, DocumentKind, RecordOf, RequisitionRecord, SupplierRecord } from 'sourcing-bridge/connector';
import type { ConformanceTarget, EditedField } from 'sourcing-bridge/connector/testing';
import memory from './index.ts';
import type { ErpObject } from './mapping.ts';
import type { MemoryErp } from './memory-erp.ts';

export const credentials = { clientId: 'bridge', clientSecret: 'k7/Q ü"x+Zr' };

export function memoryTarget(erp: MemoryErp): ConformanceTarget {
  return {
    connector: memory,
    verified: 'real server',
    against: 'its own ERP, which lives in memory',
    proxy: { protocol: 'http', address: () => erp.address },
    settings: (address) => ({
      base_url: address,
      client_id: credentials.clientId,
      client_secret: credentials.clientSecret,
    }),
    held: async ({ kind, key }) =>
      erp.held(kind, key).map((object) => ({
        reference: object.number,
        document: heldDocument(kind, object),
        ...(object.content === undefined ? {} : { bytes: Buffer.from(object.content, 'base64') }),
      })),
    poison: (document) => withTitle(document, 'x'.repeat(201)),
    expireLogin: async () => erp.expireLogins(),
    deleteRequisition: async (requisition) => erp.deleteRecord('requisitions', requisition),
    edit: async (document, n) => {
      const [object] = erp.held(document.kind, document.key);
      const edit = object && editsOf(object)[n];
      if (!edit) return undefined;
      erp.edit(object.number, edit.changed);
      return edit.differs;
    },
    remove: async ({ kind, key }) => {
      const [object] = erp.held(kind, key);
      if (!object) return undefined;
      // An order is cancelled on the ERP's screens, everything else is deleted there.
      if (kind === 'award') erp.edit(object.number, { cancelled: true });
      else erp.remove(object.number);
      return kind === 'award' ? 'cancelled' : 'missing';
    },
    acknowledged: async (requisition) => {
      const shown = erp.sourcingOf(requisition);
      return shown ? [{ status: shown.status, event: shown.project, reason: shown.reason }] : [];
    },
    changeRecord: async (stream, name, archived) => {
      const number = randomUUID();
      erp.saveRecord(`${stream}s`, {
        number,
        name,
        closed: archived,
        items: [{ line: '10', name, quantity: '2.50', unit: 'kg' }],
      });
      const supplier: SupplierRecord = { external_id: number, name, archived, fields: {}, contacts: [] };
      const items = [{ line: '10', name, quantity: '2.50', unit: 'kg' }];
      const requisition: RequisitionRecord = { reference_id: number, name, tags: [], items, open: true };
      return { supplier, requisition }[stream] as RecordOf<typeof stream>;
    },
  };
}

/** What a person may change on the ERP's screens, and which fields differ then. */
function editsOf({ lines, contacts, state }: ErpObject) {
  const edits: { changed: Partial<ErpObject>; differs: EditedField[] }[] = [
    { changed: { title: 'Other "title"' }, differs: [{ name: 'title', held: 'Other "title"' }] },
  ];
  if (state !== undefined) edits.push({ changed: { state: 'lost' }, differs: [{ name: 'state', held: 'lost' }] });
  if (contacts) edits.push({ changed: { contacts: [] }, differs: contacts.flatMap(goneContact) });
  const [first, ...others] = lines ?? [];
  if (!first) return edits;
  const added = { item: 'Fracht', price: '9.90' };
  edits.push(
    {
      changed: { lines: [...(lines ?? []), added] },
      differs: [
        { name: 'lines[Fracht].item', held: 'Fracht' },
        { name: 'lines[Fracht].price', held: '9.9' },
      ],
    },
    { changed: { lines: others }, differs: goneLine(first) },
  );
  if (first.price !== undefined)
    edits.push(
      {
        changed: { lines: [{ ...first, price: '1234567.8904' }, ...others] },
        differs: [{ name: `lines[${first.item}].price`, held: '1234567.8904' }],
      },
      // The same number, typed in another way.
      {
        changed: { lines: [{ ...first, price: `${first.price}${first.price.includes('.') ? '' : '.'}00` }, ...others] },
        differs: [],
      },
    );
  return edits;
}

function goneContact({ email, name }: { email: string; name: string }): EditedField[] {
  return (name === '' ? ['email'] : ['name', 'email']).map((member) => ({
    name: `contacts[${email}].${member}`,
    held: undefined,
  }));
}

/** The values of a line that is not there any more. */
function goneLine({ item, choices = [], ...line }: NonNullable<ErpObject['lines']>[number]): EditedField[] {
  const members = Object.entries({ item, ...line }).filter(([, value]) => value !== undefined);
  return [
    ...members.map(([member]) => ({ name: `lines[${item}].${member}`, held: undefined })),
    ...choices.map((_, index) => ({ name: `lines[${item}].choices[${index + 1}]`, held: undefined })),
  ];
}

function heldDocument(kind: DocumentKind, object: ErpObject): unknown {
  const { title, state, contacts, currency, dates, total, partner, sheet, reference, made, lines = [] } = object;
  const head = { event: { name: title }, supplier: { external_id: partner?.number, name: partner?.name } };
  switch (kind) {
    case 'supplier':
      return { name: title, archived: state === 'blocked', contacts };
    case 'sourcing-event': {
      const rounds = dates?.map(({ from, to }) => ({ starts: from, ends: to }));
      return { event: { name: title }, status: state, currency, rounds };
    }
    case 'award':
      return {
        ...head,
        currency,
        total_cost: total,
        lines: lines.map(({ item, quantity, price, amount }) => ({
          lot: item,
          quantity,
          unit_price: price,
          cost: amount,
        })),
      };
    case 'event-awards':
      return {
        event: head.event,
        currency,
        total_cost: total,
        bid_sheet_csv: sheet,
        lines: lines.map(({ item, partner: number, quantity, price, amount }) => ({
          lot: item,
          supplier: { external_id: number },
          quantity,
          unit_price: price,
          cost: amount,
        })),
      };
    case 'quotation':
      return {
        ...head,
        currency,
        lines: lines.map(({ item, quantity, price, amount }) => ({
          lot: item,
          quantity,
          unit_price: price,
          bids: [{ value: amount }],
        })),
      };
    case 'rfi-answers':
      return {
        ...head,
        lines: lines.map(({ item, text, choices = [], remark }) => ({
          question: { id: item },
          value: text,
          options: choices.map((value) => ({ value })),
          comment: remark,
        })),
      };
    case 'file':
      return { question: { text: title } };
    case 'job':
      return {
        type: title,
        status: state,
        ...(made && { created_entity: made }),
        ...(reference && { reference_id: reference }),
        errors: lines.map(({ text, remark }) => ({ path: remark, message: text })),
      };
  }
}

/** This ERP refuses titles of more than 200 characters. */
function withTitle(document: Document, title: string): Document {
  if (document.kind === 'supplier') return { ...document, name: title };
  if (document.kind === 'file') return { ...document, question: { ...document.question, text: title } };
  if (document.kind === 'job') return { ...document, type: title };
  return { ...document, event: { ...document.event, name: title } };
}
