/** Documents as the bridge makes them, for tests of the http connector. */
import type { Operation } from '#connector/connector.ts';
import type { AwardDocument, FileDocument, RfiAnswersDocument, SupplierDocument } from '#connector/documents.ts';

const head = { id: 'ev-1', name: 'Chairs', reference_id: 'R/1', type: 'RFQ', category: 'Office', is_test: false };
const event = {
  ...head,
  tags: [
    { name: 'Cost Center', value: '4711' },
    { name: 'a[b]', value: 'x' },
  ],
};
const supplierHead = { id: 'su-1', external_id: "O'Neill & Söhne", name: 'Möbel' };

export const award: AwardDocument = {
  kind: 'award',
  key: 'ev-1/su-1',
  event,
  supplier: supplierHead,
  currency: 'EUR',
  exchange_rates: [{ code: 'USD', exchange_rate: '0.91' }],
  total_cost: '1234567890123456.10',
  lines: [
    {
      lot: 'A',
      share: '1',
      quantity: '2.50',
      unit_price: '493827156049382.44',
      cost: '1234567890123456.10',
      values: [{ column: 'Material No', value: 'M-1' }],
      fields: { Plant: '1000' },
    },
    { lot: 'B', share: '0', cost: '0', values: [] },
  ],
  fields: { 'Order Type': 'NB' },
};

export const supplier: SupplierDocument = {
  kind: 'supplier',
  key: 'V-1',
  name: 'Möbel',
  archived: true,
  attributes: [],
  contacts: [{ name: 'Anna', email: 'anna@moebel.example' }],
};

export const answers: RfiAnswersDocument = {
  kind: 'rfi-answers',
  key: 'ev-1/su-1',
  event,
  supplier: supplierHead,
  lines: [
    { question: { id: 'q-1', identifier: '1', categories: [] }, value: 'yes', options: [], files: [] },
    {
      question: { id: 'q-2', identifier: '1.2', categories: [] },
      value: 'no',
      comment: 'never',
      options: [],
      files: [],
    },
  ],
};

export const file: FileDocument = {
  kind: 'file',
  key: 'fi-1',
  event,
  question: { id: 'q-1', text: 'Why?', categories: [] },
};

export function operationOf(document: Operation['document'], given: Partial<Operation> = {}): Operation {
  return {
    action: 'create',
    document,
    contentHash: 'c0ffee'.padEnd(64, '0'),
    idempotencyKey: 'id-1',
    reference: undefined,
    ...given,
  };
}
