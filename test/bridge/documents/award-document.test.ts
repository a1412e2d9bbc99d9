import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { makeAwardDocument } from '#bridge/documents/award-document.ts';
import { documentKeysOf } from '#bridge/documents/document-keys.ts';
import { documentSchemas } from '#connector/documents.ts';
import { eventRecord, idOf, lotAwardRecord } from '../parts.ts';
import { documentOf, inFlow, standing } from './records.ts';

const event = idOf(0xe1);
const [s1, s2, s3] = [idOf(11), idOf(12), idOf(13)];
const noColumns = { quantity: undefined, unitPrice: undefined };

function make(
  awards: readonly unknown[],
  {
    event: record = eventRecord(event, [s1, s2, s3]),
    supplierId = s1,
    columns = noColumns,
    quantityDecimals,
  }: Given = {},
) {
  return makeAwardDocument({
    eventId: event,
    supplierId,
    event: inFlow({ record }),
    supplier: undefined,
    awards: standing(awards),
    columns,
    quantityDecimals,
  });
}

interface Given {
  event?: unknown;
  supplierId?: string;
  quantityDecimals?: number | undefined;
  columns?: { quantity: string | undefined; unitPrice: string | undefined };
}

describe('an award document', () => {
  test('shows what one supplier won in one event, and nothing of other suppliers', () => {
    const made = make(
      [
        lotAwardRecord(
          idOf(21),
          event,
          [
            {
              supplier: s1,
              cost: '12.50',
              share: '0.5',
              values: [
                ['Volume', '10'],
                ['Price', '2.50'],
                ['Colour', 'źółty'],
              ],
            },
            {
              supplier: s2,
              cost: '99',
              share: '0.5',
              values: [
                ['Volume', '10'],
                ['Price', '19.8'],
              ],
            },
          ],
          { lot_name: 'B', scenario_name: 'best' },
        ),
        lotAwardRecord(idOf(22), event, [{ supplier: s1, cost: '0.10' }], { lot_name: 'A' }),
      ],
      {
        columns: { quantity: 'Volume', unitPrice: 'Price' },
        event: eventRecord(event, [], {
          name: 'Chairs',
          reference_id: 'REF',
          primary_currency: 'USD',
          secondary_currencies: [{ code: 'PLN', exchange_rate: '0.25' }],
          suppliers: [{ id: s1, name: 'Ärmel GmbH', external_id: '4711' }],
          tags: [{ name: 'plant', value: '1000', colour: 'unknown here' }],
        }),
      },
    );
    // Half of 10 pieces; 12.50 + 0.10.
    expect(made).toEqual({
      made: 'document',
      wanted: true,
      document: {
        kind: 'award',
        key: `${event}/${s1}`,
        event: {
          id: event,
          name: 'Chairs',
          reference_id: 'REF',
          type: 'RFQ',
          is_test: false,
          tags: [{ name: 'plant', value: '1000' }],
        },
        supplier: { id: s1, external_id: '4711', name: 'Ärmel GmbH' },
        currency: 'USD',
        exchange_rates: [{ code: 'PLN', exchange_rate: '0.25' }],
        total_cost: '12.6',
        lines: [
          { lot: 'A', share: '1', cost: '0.10', values: [] },
          {
            lot: 'B',
            scenario: 'best',
            share: '0.5',
            quantity: '5',
            unit_price: '2.5',
            cost: '12.50',
            values: [
              { column: 'Volume', value: '10' },
              { column: 'Price', value: '2.50' },
              { column: 'Colour', value: 'źółty' },
            ],
          },
        ],
      },
    });
  });

  test('has no lines for a supplier that has won nothing, or lost what it had won', () => {
    for (const awards of [
      [],
      [lotAwardRecord(idOf(21), event, [])],
      [lotAwardRecord(idOf(21), event, [{ supplier: s2 }])],
    ])
      expect(make(awards)).toMatchObject({ wanted: false, document: { lines: [], total_cost: '0' } });
  });

  test('is not made before an event is known that names the supplier', () => {
    const awards = [lotAwardRecord(idOf(21), event, [{ supplier: s1 }])];
    const unread = {
      eventId: event,
      supplierId: s1,
      supplier: undefined,
      awards: standing(awards),
      columns: noColumns,
    };
    expect(makeAwardDocument({ ...unread, event: inFlow({}) })).toEqual({
      made: 'not-yet',
      reason: 'the record of its sourcing event has not been read yet',
    });
    expect(make(awards, { event: eventRecord(event, [s2]) })).toMatchObject({ made: 'not-yet' });
    expect(make([], { event: eventRecord(event, [s2]) }), 'nothing to send, nothing to wait for').toMatchObject({
      made: 'document',
    });
  });

  test('is rejected when it has only one of quantity and unit price, and says which columns there are', () => {
    const cells: [string, string][] = [
      ['Volume', '100'],
      ['Unit Price', '12.50'],
    ];
    const withColumns = (quantity: string | undefined, unitPrice: string | undefined, row = cells) =>
      make([lotAwardRecord(idOf(21), event, [{ supplier: s1, values: row }], { lot_name: 'A' })], {
        columns: { quantity, unitPrice },
      });
    expect(withColumns('Volume', 'Unit price')).toEqual({
      made: 'rejected',
      reason:
        'lot "A": it has a quantity and no unit price: the sheet has no column "Unit price"; it has: Volume, Unit Price',
    });
    expect(withColumns('Amount', 'Unit Price')).toEqual({
      made: 'rejected',
      reason:
        'lot "A": it has a unit price and no quantity: the sheet has no column "Amount"; it has: Volume, Unit Price',
    });
    expect(
      withColumns('Volume', 'Unit Price', [
        ['Volume', '100'],
        ['Unit Price', ' '],
      ]),
    ).toEqual({
      made: 'rejected',
      reason: 'lot "A": it has a quantity and no unit price: the column "Unit Price" is empty',
    });
    expect(documentOf(withColumns('Volume', 'Unit Price')).lines).toMatchObject([
      { quantity: '100', unit_price: '12.5' },
    ]);
  });

  test('of a Dutch auction has the quantity alone, as its suppliers name no unit price', () => {
    const values: [string, string][] = [['Volume', '100']];
    const made = make([lotAwardRecord(idOf(21), event, [{ supplier: s1, cost: '1250', values }])], {
      event: eventRecord(event, [s1], { type: 'DUTCH' }),
      columns: { quantity: 'Volume', unitPrice: 'Unit Price' },
    });
    const [line] = documentOf(made).lines;
    expect(line).toMatchObject({ quantity: '100', cost: '1250' });
    expect(line).not.toHaveProperty('unit_price');
  });

  test('finds a column in either form of Unicode', () => {
    const values: [string, string][] = [
      ['Stu\u0308ck', '3'],
      ['Price', '1'],
    ];
    const awards = [lotAwardRecord(idOf(21), event, [{ supplier: s1, values }])];
    const columns = { quantity: 'St\u00fcck', unitPrice: 'Price' };
    expect(documentOf(make(awards, { columns })).lines).toMatchObject([{ quantity: '3' }]);
  });

  test('is rejected when a column that the flow reads holds no number; an empty or missing cell is left out', () => {
    const withVolume = (value: string) =>
      make([lotAwardRecord(idOf(21), event, [{ supplier: s1, values: [['Volume', value]] }], { lot_name: 'A' })], {
        columns: { quantity: 'Volume', unitPrice: 'Price' },
      });
    for (const value of ['ten', '1,000', '1e3', 'NaN', '٣'])
      expect(withVolume(value)).toEqual({
        made: 'rejected',
        reason: 'lot "A": the column "Volume" holds no number; it must be written as 1234.50',
      });
    for (const value of ['', '  ']) {
      const [line] = documentOf(withVolume(value)).lines;
      expect(line).not.toHaveProperty('quantity');
      expect(line).not.toHaveProperty('unit_price');
    }
  });

  test('adds up amounts of any size to the last digit, and rejects numbers of more than 1,000 digits', () => {
    const many = `${'9'.repeat(500)}.${'9'.repeat(499)}`;
    const costs = [many, `0.${'0'.repeat(498)}1`];
    const awards = costs.map((cost, n) => lotAwardRecord(idOf(21 + n), event, [{ supplier: s1, cost }]));
    expect(documentOf(make(awards)).total_cost).toBe(`1${'0'.repeat(500)}`);
    const [tooMany] = [lotAwardRecord(idOf(21), event, [{ supplier: s1, cost: '9'.repeat(1_001) }], { lot_name: 'A' })];
    expect(make([tooMany])).toEqual({ made: 'rejected', reason: 'lot "A": the cost has more than 1000 digits' });
  });

  test('has exact unit prices in its own currency, whatever currency the supplier bid in', () => {
    const inCurrency = (currency: string | undefined, value: string) => {
      const lot = lotAwardRecord(idOf(21), event, [{ supplier: s1 }], { lot_name: 'A' });
      const [entry] = lot['awards'] as Record<string, unknown>[];
      const cells = [
        { column_name: 'Price', value, ...(currency === undefined ? {} : { currency }) },
        { column_name: 'Volume', value: value.trim() && '1' },
      ];
      return make([{ ...lot, awards: [{ ...entry, bid_sheet_values: cells }] }], {
        columns: { quantity: 'Volume', unitPrice: 'Price' },
        event: eventRecord(event, [s1], {
          primary_currency: 'EUR',
          secondary_currencies: [
            { code: 'PLN', exchange_rate: '0.23' },
            { code: 'USD', exchange_rate: '0.9000000000000000000000000000000000000001' },
          ],
        }),
      });
    };
    for (const [currency, value, price] of [
      // 10 x 0.9…1
      ['USD', '10.00', '9.000000000000000000000000000000000000001'],
      // 12.5 x 0.23
      ['PLN', '12.5', '2.875'],
      ['EUR', '12.50', '12.5'],
      ['', '12.50', '12.5'],
      [undefined, '12.50', '12.5'],
    ] as const) {
      const [line] = documentOf(inCurrency(currency, value)).lines;
      expect(line).toMatchObject({ unit_price: price, values: [{ column: 'Price', value }, { column: 'Volume' }] });
    }
    expect(inCurrency('GBP', '12.50')).toEqual({
      made: 'rejected',
      reason: 'lot "A": the column "Price" is in GBP, for which its sourcing event has no exchange rate',
    });
    expect(documentOf(inCurrency('GBP', ' ')).lines[0], 'nothing to convert').not.toHaveProperty('unit_price');
  });

  test('accepts an empty cell without its value, and a lot without its bid sheet row', () => {
    const lot = lotAwardRecord(idOf(21), event, [{ supplier: s1 }]);
    const [entry] = lot['awards'] as Record<string, unknown>[];
    const valuesOf = (cells: unknown) =>
      documentOf(
        make([{ ...lot, awards: [{ ...entry, bid_sheet_values: cells }] }], {
          columns: { quantity: 'Volume', unitPrice: 'Volume' },
        }),
      ).lines[0];
    for (const cell of [{ column_name: 'Volume', value: null, currency: null }, { column_name: 'Volume' }])
      expect(valuesOf([cell])).toEqual({
        lot: lot['lot_name'],
        share: '1',
        cost: '10',
        values: [{ column: 'Volume', value: '' }],
      });
    for (const row of [null, undefined, []]) expect(valuesOf(row)).toMatchObject({ values: [] });
  });

  test('shows what a lot says beside its cost, and leaves out what it does not say', () => {
    const lot = lotAwardRecord(idOf(21), event, [{ supplier: s1, cost: '9' }], { lot_name: 'A' });
    const [entry] = lot['awards'] as Record<string, unknown>[];
    const more = { ...entry, historic_cost: '10.50', savings: '1.50', colour: 'unknown here' };
    const [line] = documentOf(make([{ ...lot, awards: [more], sourcing_request: idOf(90).toUpperCase() }])).lines;
    expect(line).toEqual({
      lot: 'A',
      sourcing_request: idOf(90),
      share: '1',
      cost: '9',
      historic_cost: '10.50',
      savings: '1.50',
      values: [],
    });
    expect(documentOf(make([lot])).lines).toEqual([{ lot: 'A', share: '1', cost: '9', values: [] }]);
  });

  test('loses a lot whose award is gone, also in a draft, as a draft shows its awards', () => {
    const [stays, gone] = [21, 22].map((n) => lotAwardRecord(idOf(n), event, [{ supplier: s1 }]));
    for (const status of ['CLOSED', 'DRAFT']) {
      const made = makeAwardDocument({
        eventId: event,
        supplierId: s1,
        event: inFlow({ record: eventRecord(event, [s1], { status }) }),
        supplier: undefined,
        awards: [
          { record: stays, gone: false },
          { record: gone, gone: true },
        ],
        columns: noColumns,
      });
      expect(documentOf(made).lines.map(({ lot }) => lot)).toEqual([stays?.['lot_name']]);
    }
  });

  test.each([
    // The last one has the largest remainder; of equal ones the supplier whose id comes first.
    ['100', ['0.333333', '0.333333', '0.333334'], undefined, ['33.3333', '33.3333', '33.3334']],
    ['0.5', ['0.35', '0.35', '0.3'], undefined, ['0.175', '0.175', '0.15']],
    ['100', ['0.333333', '0.333333', '0.333334'], 2, ['33.33', '33.33', '33.34']],
    ['100', ['0.333333', '0.333333', '0.333333'], 2, ['33.34', '33.33', '33.33']],
    ['100', ['0.333333', '0.333333', '0.333334'], 0, ['33', '33', '34']],
    ['100', ['0.333333', '0.333333', '0.333334'], 4, ['33.3333', '33.3333', '33.3334']],
    ['1.2345', ['0.5', '0.25', '0.25'], 2, ['0.6173', '0.3086', '0.3086']],
    // A tenth is awarded to nobody; the shares of 1.00002 were rounded up.
    ['100', ['0.3', '0.3', '0.3'], 2, ['30', '30', '30']],
    ['100', ['0.33334', '0.33334', '0.33334'], 2, ['33.34', '33.33', '33.33']],
    // More than the whole.
    ['10', ['0.6', '0.6', '0'], 2, ['6', '6', '0']],
  ])(
    'splits %s by the shares %j, with %s decimals, into parts that add up to it: %j',
    (volume, shares, quantityDecimals, parts) => {
      const values: [string, string][] = [
        ['Volume', volume],
        ['Price', '1'],
      ];
      const suppliers = [s1, s2, s3];
      const entries = suppliers.map((supplier, n) => ({ supplier, values, share: shares[n] ?? '0' }));
      for (const given of [entries, entries.toReversed()])
        expect(
          suppliers.map(
            (supplierId) =>
              documentOf(
                make([lotAwardRecord(idOf(21), event, given)], {
                  supplierId,
                  columns: { quantity: 'Volume', unitPrice: 'Price' },
                  quantityDecimals,
                }),
              ).lines[0]?.quantity,
          ),
        ).toEqual(parts);
    },
  );

  test('is rejected when its quantity cannot be split', () => {
    const of = (volume: string, share: string) =>
      make(
        [
          lotAwardRecord(idOf(21), event, [
            {
              supplier: s1,
              share,
              values: [
                ['Volume', volume],
                ['Price', '1'],
              ],
            },
          ]),
        ],
        { columns: { quantity: 'Volume', unitPrice: 'Price' }, quantityDecimals: 2 },
      );
    expect(reasonOf(of('10', '-0.5'))).toContain('cannot be split');
    expect(reasonOf(of('9'.repeat(500), '0.5'))).toContain('cannot be split');
  });

  test('is not affected by faults in members of its event that it does not show', () => {
    const awards = [lotAwardRecord(idOf(21), event, [{ supplier: s1 }])];
    for (const odd of [
      { rounds: 'many' },
      { created: 'soon', published: 7 },
      { lot_count: '3', event_contact: 'me', columns: [{}], sourcing_requests: ['x'] },
      { suppliers: [{ id: s1, name: 'A', accepted: 'yes' }] },
    ])
      expect(make(awards, { event: eventRecord(event, [s1], odd) })).toMatchObject({ wanted: true });
  });
});

/** Returns why the document was rejected; empty when it was not. */
function reasonOf(made: ReturnType<typeof make>): string {
  return made.made === 'rejected' ? made.reason : '';
}

const decimal = fc
  .tuple(fc.boolean(), fc.bigInt({ min: 0n, max: 10n ** 60n }), fc.integer({ min: 0, max: 50 }))
  .map(([negative, digits, decimals]) => {
    const text = digits.toString().padStart(decimals + 1, '0');
    const whole = text.slice(0, text.length - decimals);
    return `${negative ? '-' : ''}${whole}${decimals === 0 ? '' : `.${text.slice(-decimals)}`}`;
  });

const awardRecords = fc
  .array(
    fc.record({
      lot: fc.string({ maxLength: 3 }),
      winners: fc.array(fc.record({ supplier: fc.constantFrom(s1, s2), cost: decimal }), { maxLength: 3 }),
    }),
    { maxLength: 8 },
  )
  .map((lots) =>
    lots.map(({ lot, winners }, index) => lotAwardRecord(idOf(1000 + index), event, winners, { lot_name: lot })),
  );

/** Returns decimals as whole numbers of 10^-50, computed without the code under test. */
function scaled(text: string): bigint {
  const [whole = '', fraction = ''] = text.replace('-', '').split('.');
  return BigInt(whole + fraction.padEnd(50, '0')) * (text.startsWith('-') ? -1n : 1n);
}

describe('for any records', () => {
  test('the same records make the same document, whatever their order', () => {
    fc.assert(
      fc.property(
        awardRecords.chain((records) =>
          fc.tuple(fc.constant(records), fc.shuffledSubarray(records, { minLength: records.length })),
        ),
        ([records, shuffled]) => {
          const event_ = eventRecord(event, [s1, s2]);
          const one = make(records, { event: event_ });
          expect(JSON.stringify(make(shuffled, { event: event_ }))).toBe(JSON.stringify(one));
          // The order of the entries is changed, too, although a supplier should not be in a lot twice.
          const turned = records.map((record) => ({ ...record, awards: (record['awards'] as unknown[]).toReversed() }));
          expect(JSON.stringify(make(turned, { event: event_ }))).toBe(JSON.stringify(one));
          expect(documentSchemas.award.parse(documentOf(one))).toEqual(documentOf(one));
        },
      ),
    );
  });

  test('the total is the sum of the lines, to the last digit', () => {
    fc.assert(
      fc.property(awardRecords, (records) => {
        const document = documentOf(make(records));
        const sum = document.lines.reduce((total, { cost }) => total + scaled(cost), 0n);
        expect(scaled(document.total_cost)).toBe(sum);
        const expected = records.flatMap(({ awards }) => awards as { supplier: string }[]);
        expect(document.lines).toHaveLength(expected.filter(({ supplier }) => supplier === s1).length);
      }),
    );
  });

  test('hostile records are rejected with a reason, or wait, and never throw', () => {
    fc.assert(
      fc.property(fc.anything(), fc.anything(), fc.anything(), (award, entry, eventPart) => {
        const records = [
          award,
          { ...lotAwardRecord(idOf(21), event, []), awards: entry },
          { ...lotAwardRecord(idOf(21), event, []), awards: [entry] },
        ];
        for (const record of records) {
          const made = make([record]);
          expect(['document', 'rejected', 'not-yet']).toContain(made.made);
          expect(reasonOf(made)).toMatch(/^(|an award's record.*)$/);
          expect(Array.isArray(documentKeysOf('awards', record))).toBe(true);
        }
        for (const record of [eventPart, { ...eventRecord(event, [s1]), suppliers: eventPart }]) {
          const made = make([], { event: record ?? null });
          expect(reasonOf(made)).toMatch(/^(|the sourcing event's record.*)$/);
        }
      }),
    );
  });
});

test('a line names the requisition that its lot was made of, and none where the lot is of no intake', () => {
  const made = makeAwardDocument({
    eventId: event,
    supplierId: s1,
    event: inFlow({ record: eventRecord(event, [s1, s2]) }),
    supplier: undefined,
    awards: standing([
      lotAwardRecord(idOf(1), event, [{ supplier: s1 }], { lot_name: 'Bolt' }),
      lotAwardRecord(idOf(2), event, [{ supplier: s1 }], { lot_name: 'Nut' }),
    ]),
    columns: noColumns,
    requisitionOf: (of, lot) =>
      of === event && lot === 'Bolt' ? { intake: 'requisitions', reference_id: 'PR-7', line: '10' } : undefined,
  });
  expect(made.made === 'document' && made.document.lines.map(({ lot, requisition }) => [lot, requisition])).toEqual([
    ['Bolt', { intake: 'requisitions', reference_id: 'PR-7', line: '10' }],
    ['Nut', undefined],
  ]);
});
