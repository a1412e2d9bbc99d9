/**
 * The conformance of the http connector against a REST server of the tests (rest-erp.ts). Suppliers, events,
 * quotations, answers and files use the defaults, a URL for each document; awards are purchase orders that the ERP
 * numbers.
 */
import { randomUUID } from 'node:crypto';
import type { Document } from 'sourcing-bridge/connector';
import { conformance } from 'sourcing-bridge/connector/testing';
import { afterAll, beforeAll, test } from 'vitest';
import http from './index.ts';
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
  changeRecord: async (_stream, name, archived) => {
    const number = randomUUID();
    const people = [{ name: 'Ann', email: 'ann@example.com' }];
    erp.saveVendor({ number, label: name, state: archived ? 'blocked' : 'active', town: 'Łódź', people });
    return { external_id: number, name, archived, fields: { City: 'Łódź' }, contacts: people } as never;
  },
  faultPoints: 3,
}))
  test(title, run);

function heldOrder({ number, title, vendor, currency, items }: Order) {
  const lines = items.map(({ lot, quantity, price }) => ({ lot, quantity, unit_price: price }));
  const supplier = { external_id: vendor.id, name: vendor.name };
  return { reference: number, document: { event: { name: title }, supplier, currency, lines } };
}

function withTitle(document: Document, title: string): Document {
  if (document.kind === 'supplier') return { ...document, name: title };
  if (document.kind === 'file') return { ...document, question: { ...document.question, text: title } };
  return { ...document, event: { ...document.event, name: title } };
}
