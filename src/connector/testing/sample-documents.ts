/**
 * Sample documents for the conformance kit: of every kind, each with its own key, in three versions and withdrawn. They
 * contain what breaks a careless connector: many digits, currencies with no and with three decimals, many scripts, and
 * characters with a meaning in CSV, SQL, HTML and templates. Amounts were worked out by hand.
 */
import { randomUUID } from 'node:crypto';
import type { FileContent } from '#connector/connector.ts';
import type { AwardLine, Document, DocumentKind, EventHead, SupplierHead } from '#connector/documents.ts';

export interface Sample {
  readonly kind: DocumentKind;
  readonly key: string;
  /** In the order of time: the document is amended twice. */
  readonly versions: readonly [Document, Document, Document];
  /** The document of the cancellation; undefined for a supplier, which is never cancelled. */
  readonly withdrawn: Document | undefined;
  readonly file: FileContent | undefined;
  /** The bytes that `file` returns. */
  readonly bytes: Uint8Array | undefined;
}

const names = [
  'Zażółć gęślą jaźń Sp. z o.o.',
  '株式会社テスト・電子部品',
  'شركة التوريدات الحديثة',
  'Ame\u0301lie & Söhne "Werkzeug" 🔩👩🏽‍🔧',
  "=1+1; Robert'); drop table suppliers;--",
  '{{7*7}} ${x} </script><b>fett</b>, a;b\tc',
];
const texts = ['first line\nsecond line, "quoted"; \'single\'', '=HYPERLINK("x")', '<!-- -->\r\n%s %n \\0', '٣٫١٤ – ½'];

interface Price {
  readonly price: string;
  readonly cost: string;
}
/** Lot A is in each version, lot B in the first only, lot C in the second only. `totals` are those of the versions. */
interface Prices {
  readonly currency: string;
  readonly a: { readonly quantity: string; readonly versions: readonly [Price, Price, Price] };
  readonly b: Price & { readonly quantity: string };
  readonly c: Price & { readonly quantity: string };
  readonly totals: readonly [string, string, string];
}

const priced: readonly Prices[] = [
  {
    currency: 'EUR',
    a: {
      quantity: '3',
      versions: [
        { price: '1234567.8905', cost: '3703703.6715' },
        // A JavaScript number cannot represent either of them exactly.
        { price: '1234567890123.2501', cost: '3703703670369.7503' },
        { price: '1300000.05', cost: '3900000.15' },
      ],
    },
    b: { quantity: '25000', price: '0.0001', cost: '2.5' },
    c: { quantity: '40', price: '19.99', cost: '799.6' },
    totals: ['3703706.1715', '3703703671169.3503', '3900000.15'],
  },
  {
    currency: 'JPY',
    a: {
      quantity: '7',
      versions: [
        { price: '1250', cost: '8750' },
        { price: '1251', cost: '8757' },
        { price: '1300', cost: '9100' },
      ],
    },
    b: { quantity: '1000', price: '3', cost: '3000' },
    c: { quantity: '12', price: '480', cost: '5760' },
    totals: ['11750', '14517', '9100'],
  },
  {
    currency: 'KWD',
    a: {
      quantity: '16',
      versions: [
        { price: '12.345', cost: '197.52' },
        { price: '12.346', cost: '197.536' },
        { price: '13', cost: '208' },
      ],
    },
    b: { quantity: '9000', price: '0.001', cost: '9' },
    c: { quantity: '8', price: '7.5', cost: '60' },
    totals: ['206.52', '257.536', '208'],
  },
];

/** A new sample document. `n` selects its texts and currency. */
export function sampleOf(kind: DocumentKind, n = 0): Sample {
  const name = pick(names, n);
  const event: EventHead = {
    id: randomUUID(),
    name: `${pick(names, n + 1)} 2030`,
    reference_id: `PR-${randomUUID().slice(0, 8)}`,
    type: 'RFQ',
    category: pick(names, n + 2),
    is_test: false,
    tags: [{ name: 'Plant', value: '1000' }],
  };
  const supplier: SupplierHead = { id: randomUUID(), external_id: randomUUID(), name };
  const pair = { key: `${event.id}/${supplier.id}`, event, supplier };
  switch (kind) {
    case 'supplier':
      return supplierSample(name, n);
    case 'sourcing-event':
      return eventSample(event, supplier, n);
    case 'award':
    case 'quotation':
      return pricedSample(kind, pair, n);
    case 'rfi-answers':
      return answersSample(pair, n);
    case 'file':
      return fileSample(event, supplier, n);
  }
}

function supplierSample(name: string, n: number): Sample {
  const id = randomUUID();
  const key = randomUUID();
  const contact = { name: pick(names, n + 1), email: `einkauf+${n}@example.com` };
  const version = (name: string, archived: boolean, contacts: (typeof contact)[]): Document => ({
    kind: 'supplier',
    key,
    id,
    external_id: key,
    name,
    archived,
    attributes: [{ name: 'Note', value: pick(texts, n) }],
    contacts,
  });
  return {
    kind: 'supplier',
    key,
    versions: [
      version(name, false, [contact]),
      version(`${name} (2)`, false, [{ ...contact, name: 'Łucja' }]),
      version(name, true, [contact]),
    ],
    withdrawn: undefined,
    file: undefined,
    bytes: undefined,
  };
}

function eventSample(event: EventHead, supplier: SupplierHead, n: number): Sample {
  const { currency } = pick(priced, n);
  const version = (status: string, name: string, ends: string): Document => ({
    kind: 'sourcing-event',
    key: event.id,
    event: { ...event, name },
    status,
    currency,
    exchange_rates: [{ code: 'GBP', exchange_rate: '1.17235' }],
    created: '2030-01-31T23:59:59.999999Z',
    published: '2030-02-28T00:00:00.000001Z',
    rounds: [{ status: 'ACTIVE', starts: '2030-02-28T00:00:00.000001Z', ends }],
    lot_count: 2,
    contact: { name: pick(names, n + 3), email: 'buyer@example.com' },
    columns: ['Price', 'Remark; "x"'],
    sourcing_requests: [],
    suppliers: [{ ...supplier, accepted: true }],
  });
  return {
    kind: 'sourcing-event',
    key: event.id,
    versions: [
      version('OPEN', event.name, '2030-03-01T12:00:00.123456Z'),
      version('OPEN', `${event.name} (2)`, '2030-03-02T12:00:00.654321Z'),
      version('CLOSED', event.name, '2030-03-02T12:00:00.654321Z'),
    ],
    withdrawn: version('DELETED', event.name, '2030-03-02T12:00:00.654321Z'),
    file: undefined,
    bytes: undefined,
  };
}

interface Pair {
  readonly key: string;
  readonly event: EventHead;
  readonly supplier: SupplierHead;
}

function pricedSample(kind: 'award' | 'quotation', pair: Pair, n: number): Sample {
  const { currency, a, b, c, totals } = pick(priced, n);
  const lotA = `Lot A: ${pick(names, n + 3)}`;
  const lotB = `Lot B: ${pick(names, n + 4)}`;
  const lotC = `Lot C: ${pick(names, n + 5)}`;
  const lines = (version: 0 | 1 | 2) => [
    { lot: lotA, quantity: a.quantity, ...a.versions[version] },
    ...(version === 0 ? [{ lot: lotB, ...b }] : version === 1 ? [{ lot: lotC, ...c }] : []),
  ];
  const head = { ...pair, currency, exchange_rates: [{ code: 'USD', exchange_rate: '0.92337' }] };
  const sheetOf = ({ price }: Price): AwardLine['values'] => [
    { column: 'Unit Price', value: price, currency },
    { column: 'Remark; "x"', value: pick(texts, n) },
  ];
  const version = (version: 0 | 1 | 2): Document =>
    kind === 'award'
      ? {
          kind,
          ...head,
          total_cost: totals[version],
          lines: lines(version).map(({ lot, quantity, ...line }) => ({
            lot,
            share: '1',
            quantity,
            unit_price: line.price,
            cost: line.cost,
            values: sheetOf(line),
          })),
        }
      : {
          kind,
          ...head,
          lines: lines(version).map(({ lot, quantity, ...line }) => ({
            lot,
            quantity,
            unit_price: line.price,
            bids: [{ value: line.cost }],
            values: sheetOf(line),
          })),
        };
  return {
    kind,
    key: pair.key,
    versions: [version(0), version(1), version(2)],
    withdrawn: kind === 'award' ? { kind, ...head, total_cost: '0', lines: [] } : { kind, ...head, lines: [] },
    file: undefined,
    bytes: undefined,
  };
}

function answersSample(pair: Pair, n: number): Sample {
  const question = (identifier: string, input_type: string) => ({
    id: randomUUID(),
    identifier,
    text: `${identifier} ${pick(names, n + 1)}?`,
    type: 'MANDATORY',
    input_type,
    categories: [],
  });
  const questions = [question('1.2', 'TEXT'), question('1.10', 'SINGLE_CHOICE'), question('2', 'CURRENCY')] as const;
  const [text, choice, amount] = [
    (value: string) => ({ question: questions[0], value, options: [], comment: pick(texts, n), files: [] }),
    (value: string) => ({ question: questions[1], options: [{ value }], files: [] }),
    (value: string) => ({ question: questions[2], value, currency: 'KWD', options: [], files: [] }),
  ];
  const head = { kind: 'rfi-answers' as const, ...pair };
  return {
    kind: 'rfi-answers',
    key: pair.key,
    versions: [
      { ...head, lines: [text(pick(names, n + 2)), choice('Yes, "always"')] },
      { ...head, lines: [text(pick(names, n + 2)), amount('1234567.891')] },
      { ...head, lines: [amount('0.001')] },
    ],
    withdrawn: { ...head, lines: [] },
    file: undefined,
    bytes: undefined,
  };
}

function fileSample(event: EventHead, supplier: SupplierHead, n: number): Sample {
  const key = randomUUID();
  const question = { id: randomUUID(), identifier: '1.2', type: 'OPTIONAL', input_type: 'FILE', categories: [] };
  const version = (text: string): Document => ({
    kind: 'file',
    key,
    event,
    supplier,
    question: { ...question, text },
  });
  // All 256 byte values: every wrong encoding changes some of them.
  const bytes = Uint8Array.from({ length: 1_000 }, (_, index) => (index * 7 + n) % 256);
  const versions = [version(pick(names, n)), version(pick(names, n + 1)), version(pick(names, n + 2))] as const;
  return {
    kind: 'file',
    key,
    versions,
    withdrawn: versions[2],
    file: { name: `Zeichnung ${pick(names, n).replaceAll(/[/\\\t]/g, ' ')}.pdf`, read: async () => bytes },
    bytes,
  };
}

function pick<T>(list: readonly [T, ...T[]] | readonly T[], n: number): T {
  return list[n % list.length] as T;
}
