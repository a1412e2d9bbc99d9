/**
 * The conformance of the http connector against a REST server of the tests (rest-erp.ts). Suppliers, events,
 * quotations, answers and files use the defaults, a URL for each document; awards are purchase orders that the ERP
 * numbers.
 */
import { randomUUID } from 'node:crypto';
import type { Document } from 'sourcing-bridge/connector';
import { conformance, type EditedField } from 'sourcing-bridge/connector/testing';
import { afterAll, beforeAll, test } from 'vitest';
import http from '../../../connectors/http/index.ts';
import { type Order, type RestErp, startRestErp, titleMax } from './rest-erp.ts';

const client = { id: 'bridge', secret: 'k7/Q ü"x+Zr:9' };
let erp: RestErp;
beforeAll(async () => {
  erp = await startRestErp(client);
});
afterAll(() => erp.close());

const absent = { exists: false };

const order = {
  externalKey: '{key}',
  hash: '{content_hash}',
  title: '{event.name}',
  vendor: { id: '{supplier.external_id}', name: '{supplier.name}' },
  currency: '{currency}',
  notes: 'Total {total_cost} {currency}',
  items: {
    each: 'lines',
    as: { lot: '{line.lot}', quantity: '{line.quantity as number}', price: '{line.unit_price as number}' },
  },
};

const settings = (address: string) => ({
  base_url: address,
  auth: { type: 'oauth', token_url: '/token', client_id: client.id, client_secret: client.secret },
  documents: {
    award: {
      create: { method: 'POST', path: '/purchase-orders', body: { json: order } },
      amend: { method: 'PATCH', path: '/purchase-orders/{reference}', body: { json: order } },
      cancel: { method: 'POST', path: '/purchase-orders/{reference}/cancel', body: 'none' },
      reference: 'location',
      lookup: {
        path: '/purchase-orders?externalKey={key}',
        list: 'items',
        where: { externalKey: '{key}' },
        reference: 'number',
        content_hash: { body: 'hash' },
        withdrawn: { path: 'status', is: ['cancelled'] },
      },
      read_back: { decimals: ['quantity', 'price'], names: ['lot'] },
    },
  },
  answers: [
    { status: 200, body: { success: false }, means: 'data' },
    // Every answer of this ERP has one of these members; an answer without them comes from a gateway.
    { status: 200, body: { success: absent, done: absent, items: absent, content_hash: absent }, means: 'unknown' },
  ],
  message: 'error.text',
  read: {
    supplier: {
      path: '/vendors?changed_since={since}',
      since: { overlap_seconds: 5 },
      list: 'data',
      next: { cursor: 'next.cursor', parameter: 'cursor' },
      record: {
        external_id: 'number',
        name: 'label',
        archived: { at: 'state', is: ['blocked'] },
        contacts: 'people',
        fields: { City: 'town' },
      },
    },
    requisition: {
      path: '/needs?changed_since={since}',
      since: { overlap_seconds: 5 },
      list: 'data',
      next: { cursor: 'next.cursor', parameter: 'cursor' },
      record: {
        reference_id: 'number',
        name: 'label',
        open: { at: 'state', is: ['released'] },
        tags: { Plant: 'plant.code' },
        items: { at: 'positions', line: 'no', name: 'article.text', quantity: 'amount' },
      },
      open_list: {
        path: '/needs/open',
        list: 'data',
        next: { cursor: 'next.cursor', parameter: 'cursor' },
        reference_id: 'no',
      },
      acknowledge: {
        method: 'PUT',
        path: '/needs/{requisition}/sourcing',
        body: {
          json: {
            progress: '{status}',
            project: { no: '{event.id}', title: '{event.name}', link: '{event.url}' },
            problem: '{reason}',
            remark: '{text}',
          },
        },
      },
    },
  },
});

for (const { title, run } of conformance({
  connector: http,
  verified: 'real server',
  against: 'a REST server of the tests, on Node',
  proxy: { protocol: 'http', address: () => erp.address },
  settings,
  held: async ({ kind, key }) => {
    if (kind === 'award') return erp.orders(key).map(heldOrder);
    const held = erp.stored(kind, key);
    if (!held) return [];
    const { content_hash: _hash, ...document } = held.document;
    return [{ reference: key, document, ...(held.bytes ? { bytes: held.bytes } : {}) }];
  },
  poison: (document) => withTitle(document, 'x'.repeat(titleMax + 1)),
  expireLogin: async () => erp.expireLogins(),
  edit: async ({ kind, key }, n) => (kind === 'award' ? editOrder(key, n) : editStored(kind, key, n)),
  remove: async ({ kind, key }) => {
    const [held] = erp.orders(key);
    if (kind !== 'award') erp.editStored(kind, key, undefined);
    else if (held) erp.editOrder(held.number, { status: 'cancelled' });
    return kind === 'award' ? 'cancelled' : 'missing';
  },
  changeRecord: async (stream, name, archived) => {
    const number = randomUUID();
    if (stream === 'requisition') {
      const positions = [{ no: 10, article: { text: name }, amount: 2.5, unit: 'kg' }];
      erp.saveNeed({ number, label: name, state: 'released', plant: { code: 'Ł1' }, positions });
      const tags = [{ name: 'Plant', value: 'Ł1' }];
      const items = [{ line: '10', name, quantity: '2.5', unit: 'kg' }];
      return { reference_id: number, name, tags, items, open: true } as never;
    }
    const people = [{ name: 'Ann', email: 'ann@example.com' }];
    erp.saveVendor({ number, label: name, state: archived ? 'blocked' : 'active', town: 'Łódź', people });
    return { external_id: number, name, archived, fields: { City: 'Łódź' }, contacts: people } as never;
  },
  deleteRequisition: async (requisition) => erp.deleteNeed(requisition),
  acknowledged: async (requisition) => {
    const shown = erp.sourcingOf(requisition);
    if (!shown) return [];
    const { progress: status, project, problem: reason, remark: text } = shown;
    return [{ status, event: project?.no, reason, text }];
  },
  faultPoints: 1,
  // The kinds that are left out are sent as a supplier is.
  faultKinds: ['supplier', 'award', 'file'],
}))
  test(title, run);

/** What a buyer may change on the ERP's screens, and the fields that differ then. */
function editOrder(key: string, n: number): EditedField[] | undefined {
  const [held] = erp.orders(key);
  const [first, ...others] = held?.items ?? [];
  if (!held || !first) return undefined;
  const { lot, price, quantity } = first;
  const edits: [Partial<Order>, ...EditedField[]][] = [
    [{ title: 'Other "title"' }, { name: 'title', held: 'Other "title"' }],
    [{ vendor: { ...held.vendor, name: '' } }, { name: 'vendor.name', held: undefined }],
    [
      { items: [{ ...first, price: '1234567.8904' }, ...others] },
      { name: `items[${lot}].price`, held: '1234567.8904' },
    ],
    // The same number, typed in another way.
    [{ items: [price === undefined ? first : { ...first, price: zeroAdded(price) }, ...others] }],
    [
      { items: [...held.items, { lot: 'Fracht', price: '9.90' }] },
      { name: 'items[Fracht].lot', held: 'Fracht' },
      { name: 'items[Fracht].price', held: '9.9' },
    ],
    [
      { items: others },
      { name: `items[${lot}].lot`, held: undefined },
      ...(quantity === undefined ? [] : [{ name: `items[${lot}].quantity`, held: undefined }]),
      ...(price === undefined ? [] : [{ name: `items[${lot}].price`, held: undefined }]),
    ],
  ];
  const [changed, ...differs] = edits[n] ?? [];
  if (!changed) return undefined;
  erp.editOrder(held.number, changed);
  return differs;
}

function zeroAdded(decimal: string): string {
  return `${decimal}${decimal.includes('.') ? '' : '.'}00`;
}

/** The same for an object under the document's own URL. */
function editStored(kind: string, key: string, n: number): EditedField[] | undefined {
  const { document } = erp.stored(kind, key) ?? {};
  if (!document || n > 1) return undefined;
  const note = n === 1 ? 'checked' : undefined;
  const title = 'Other "title"';
  if (note !== undefined) erp.editStored(kind, key, { ...document, note });
  else if (kind === 'supplier') erp.editStored(kind, key, { ...document, name: title });
  else if (kind === 'job') erp.editStored(kind, key, { ...document, type: title });
  else erp.editStored(kind, key, { ...document, event: { ...(document['event'] as object), name: title } });
  const edited = kind === 'supplier' ? 'name' : kind === 'job' ? 'type' : 'event.name';
  return note === undefined ? [{ name: edited, held: title }] : [];
}

function heldOrder({ number, title, vendor, currency, items }: Order) {
  const lines = items.map(({ lot, quantity, price }) => ({ lot, quantity, unit_price: price }));
  const supplier = { external_id: vendor.id, name: vendor.name };
  return { reference: number, document: { event: { name: title }, supplier, currency, lines } };
}

function withTitle(document: Document, title: string): Document {
  if (document.kind === 'supplier') return { ...document, name: title };
  if (document.kind === 'file') return { ...document, question: { ...document.question, text: title } };
  if (document.kind === 'job') return { ...document, type: title };
  return { ...document, event: { ...document.event, name: title } };
}
