/**
 * Sample documents for the conformance kit: of every kind, each with its own key, in three versions and withdrawn. They
 * contain what breaks a careless connector: many digits, currencies with no and with three decimals, many scripts, and
 * characters with a meaning in CSV, SQL, HTML and templates. Amounts were worked out by hand.
 */
import { randomUUID } from 'node:crypto';
import type { FileContent } from '#connector/connector.ts';
import type { Document, DocumentKind, EventHead, JobDocument, SupplierHead } from '#connector/documents.ts';

export interface Sample {
  readonly kind: DocumentKind;
  readonly key: string;
  /** In the order of time: the document is amended twice. */
  readonly versions: readonly [Document, Document, Document];
  /** The document of the cancellation; undefined for a supplier and a job, which are never cancelled. */
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

/** The price of a unit, and the cost. */
type Price = readonly [string, string];

/** Lot A is in each version, lot B in the first only, lot C in the second only. `totals` are those of the versions. */
interface Prices {
  readonly currency: string;
  readonly quantities: { readonly a: string; readonly b: string; readonly c: string };
  readonly a: readonly [Price, Price, Price];
  readonly b: Price;
  readonly c: Price;
  readonly totals: readonly [string, string, string];
}

const priced: readonly Prices[] = [
  {
    currency: 'EUR',
    quantities: { a: '3', b: '25000', c: '40' },
    a: [
      ['1234567.8905', '3703703.6715'],
      // A JavaScript number cannot represent either of them exactly.
      ['1234567890123.2501', '3703703670369.7503'],
      ['1300000.05', '3900000.15'],
    ],
    b: ['0.0001', '2.5'],
    c: ['19.99', '799.6'],
    totals: ['3703706.1715', '3703703671169.3503', '3900000.15'],
  },
  {
    currency: 'JPY',
    quantities: { a: '7', b: '1000', c: '12' },
    a: [
      ['1250', '8750'],
      ['1251', '8757'],
      ['1300', '9100'],
    ],
    b: ['3', '3000'],
    c: ['480', '5760'],
    totals: ['11750', '14517', '9100'],
  },
  {
    currency: 'KWD',
    quantities: { a: '16', b: '9000', c: '8' },
    a: [
      ['12.345', '197.52'],
      ['12.346', '197.536'],
      ['13', '208'],
    ],
    b: ['0.001', '9'],
    c: ['7.5', '60'],
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
  const made = versionsOf(kind, pair, n);
  return { kind, key: made.versions[0].key, withdrawn: undefined, file: undefined, bytes: undefined, ...made };
}

type Versions = Pick<Sample, 'versions'> & Partial<Sample>;

function versionsOf(kind: DocumentKind, pair: Pair, n: number): Versions {
  const { event, supplier } = pair;
  switch (kind) {
    case 'supplier':
      return supplierSample(supplier.name, n);
    case 'sourcing-event':
      return eventSample(event, supplier, n);
    case 'award':
    case 'quotation':
      return pricedSample(kind, pair, n);
    case 'event-awards':
      return eventAwardsSample(pair, n);
    case 'rfi-answers':
      return answersSample(pair, n);
    case 'file':
      return fileSample(event, supplier, n);
    case 'job':
      return jobSample(event, n);
  }
}

function supplierSample(name: string, n: number): Versions {
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
    versions: [
      version(name, false, [contact]),
      version(`${name} (2)`, false, [{ ...contact, name: 'Łucja' }]),
      version(name, true, [contact]),
    ],
  };
}

function eventSample(event: EventHead, supplier: SupplierHead, n: number): Versions {
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
    versions: [
      version('OPEN', event.name, '2030-03-01T12:00:00.123456Z'),
      version('OPEN', `${event.name} (2)`, '2030-03-02T12:00:00.654321Z'),
      version('CLOSED', event.name, '2030-03-02T12:00:00.654321Z'),
    ],
    withdrawn: version('DELETED', event.name, '2030-03-02T12:00:00.654321Z'),
  };
}

interface Pair {
  readonly key: string;
  readonly event: EventHead;
  readonly supplier: SupplierHead;
}

function pricedSample(kind: 'award' | 'quotation', pair: Pair, n: number): Versions {
  const { currency, quantities, a, b, c, totals } = pick(priced, n);
  const lotA = `Lot A: ${pick(names, n + 3)}`;
  const lotB = `Lot B: ${pick(names, n + 4)}`;
  const lotC = `Lot C: ${pick(names, n + 5)}`;
  const lineOf = (lot: string, quantity: string, [unit_price, cost]: Price) => ({
    lot,
    quantity,
    unit_price,
    cost,
    values: [
      { column: 'Unit Price', value: unit_price, currency },
      { column: 'Remark; "x"', value: pick(texts, n) },
    ],
  });
  const lines = (version: 0 | 1 | 2) => [
    lineOf(lotA, quantities.a, a[version]),
    ...(version === 0 ? [lineOf(lotB, quantities.b, b)] : []),
    ...(version === 1 ? [lineOf(lotC, quantities.c, c)] : []),
  ];
  const head = { ...pair, currency, exchange_rates: [{ code: 'USD', exchange_rate: '0.92337' }] };
  const version = (version: 0 | 1 | 2): Document => {
    const given = lines(version);
    if (kind === 'award')
      return { kind, ...head, total_cost: totals[version], lines: given.map((line) => ({ share: '1', ...line })) };
    return { kind, ...head, lines: given.map(({ cost, ...line }) => ({ ...line, bids: [{ value: cost }] })) };
  };
  return {
    versions: [version(0), version(1), version(2)],
    withdrawn: kind === 'award' ? { kind, ...head, total_cost: '0', lines: [] } : { kind, ...head, lines: [] },
  };
}

/** The lots of an award: lot A is of the pair's supplier, the others of another one. */
function eventAwardsSample({ event, supplier }: Pair, n: number): Versions {
  const { versions } = pricedSample('award', { key: event.id, event, supplier }, n);
  const other: SupplierHead = { id: randomUUID(), external_id: randomUUID(), name: pick(names, n + 1) };
  const version = (made: Document): Document => {
    if (made.kind !== 'award') throw new Error(`an award was expected, not ${made.kind}`);
    const { supplier: _supplier, lines: given, ...head } = made;
    const lines = given.map(({ lot, ...line }, index) => ({ lot, supplier: index === 0 ? supplier : other, ...line }));
    const [first, second] = lines;
    const suppliers = [
      ...(first ? [{ ...supplier, total_cost: first.cost }] : []),
      ...(second ? [{ ...other, total_cost: second.cost }] : []),
    ];
    const rows = [
      ['lot', 'supplier', 'supplier_external_id', 'share', 'Unit Price', 'Unit Price (currency)', 'Remark; "x"'],
      ...lines.map(({ lot, supplier: { name, external_id = '' }, share, values: [price, remark] }) =>
        [lot, name, external_id, share, price?.value, price?.currency, remark?.value].map((cell = '') => cell),
      ),
    ];
    const csv = rows.map((row) => `${row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',')}\r\n`).join('');
    return { ...head, kind: 'event-awards', suppliers, lines, bid_sheet_csv: csv };
  };
  const [first, second, third] = versions;
  const head = { key: event.id, event, currency: pick(priced, n).currency, exchange_rates: [] };
  return {
    versions: [version(first), version(second), version(third)],
    withdrawn: { kind: 'event-awards', ...head, total_cost: '0', suppliers: [], lines: [], bid_sheet_csv: '' },
  };
}

function answersSample(pair: Pair, n: number): Versions {
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
    versions: [
      { ...head, lines: [text(pick(names, n + 2)), choice('Yes, "always"')] },
      { ...head, lines: [text(pick(names, n + 2)), amount('1234567.891')] },
      { ...head, lines: [amount('0.001')] },
    ],
    withdrawn: { ...head, lines: [] },
  };
}

function fileSample(event: EventHead, supplier: SupplierHead, n: number): Versions {
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
    versions,
    withdrawn: versions[2],
    file: { name: `Zeichnung ${pick(names, n).replaceAll(/[/\\\t]/g, ' ')}.pdf`, read: async () => bytes },
    bytes,
  };
}

function jobSample(event: EventHead, n: number): Versions {
  const key = randomUUID();
  const version = (status: string, path: string, more: Partial<JobDocument> = {}): Document => ({
    kind: 'job',
    key,
    type: 'CREATE_SOURCING_EVENT',
    status,
    created: '2030-01-31T23:59:59.999999Z',
    reference_id: event.reference_id,
    // One, as a table of rows may show only the first.
    errors: [{ path, message: `${pick(names, n)}: ${pick(texts, n)}` }],
    ...more,
  });
  return {
    versions: [
      version('RUNNING', pick(names, n + 1)),
      version('FAILED', 'bid_sheet.lots[0].name'),
      version('COMPLETED', pick(names, n + 2), { created_entity: event.id }),
    ],
  };
}

function pick<T>(list: readonly [T, ...T[]] | readonly T[], n: number): T {
  return list[n % list.length] as T;
}
