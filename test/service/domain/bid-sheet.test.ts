import { describe, expect, test } from 'vitest';
import { createSourcingEventPayload } from '#contract/sourcing-event.ts';
import { cellIssue, checkBidSheet, compileBidSheet, computeRow, offerIssues } from '#service/domain/bid-sheet.ts';

const columns = [
  { name: 'Item', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
  { name: 'Volume', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER', precision: 0 },
  { name: 'Price', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
  {
    name: 'Freight',
    column_type: 'INPUT',
    input_by: 'SUPPLIER_INPUT',
    input_type: 'CURRENCY',
    precision: 2,
    scope: 'EVENT',
  },
  {
    name: 'Index',
    column_type: 'INPUT',
    input_by: 'BUYER_INPUT',
    input_type: 'NUMBER',
    precision: 4,
    scope: 'EVENT',
  },
  { name: 'Net', column_type: 'FORMULA', formula: 'Volume * Price * Index' },
];

function payload(changes: Record<string, unknown> = {}, sheet: Record<string, unknown> = {}) {
  return createSourcingEventPayload.parse({
    name: 'Steel',
    primary_currency: 'EUR',
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
    primary_cost_calculation: 'Net + Freight',
    bid_sheet: { columns, global_values: [{ column: 'Index', value: '1.5' }], ...sheet },
    ...changes,
  });
}

function compiled(changes: Record<string, unknown> = {}) {
  const { bid_sheet: sheet, ...rest } = payload(changes);
  return compileBidSheet({
    type: rest.event_type,
    columns: sheet.columns,
    primaryCostCalculation: rest.primary_cost_calculation ?? null,
    primaryCurrency: rest.primary_currency,
    secondaryCurrencies: rest.secondary_currencies,
  });
}

const cells = (values: Record<string, string | { value: string; currency: string }>) => new Map(Object.entries(values));

describe('faults of the payload alone', () => {
  test('a correct sheet has no issues', () => {
    const lots = [{ name: 'A', values: [{ column: 'Volume', value: '10' }] }];
    expect(checkBidSheet(payload({}, { lots }))).toEqual([]);
  });

  test.each<[string, unknown, Record<string, unknown>, string]>([
    ['two columns of one name', {}, { columns: [...columns, columns[0]] }, 'bid_sheet.columns[6].name'],
    ['two lots of one name', {}, { lots: [{ name: 'A' }, { name: 'A' }] }, 'bid_sheet.lots[1].name'],
    [
      'a supplier invited twice',
      { suppliers: [{ external_id: 'S' }, { external_id: 'S' }] },
      {},
      'suppliers[1].external_id',
    ],
    ['a role of no column', {}, { column_roles: { volume: 'Vol' } }, 'bid_sheet.column_roles.volume'],
    [
      'amounts in a text column',
      {},
      { column_roles: { historic_cost: 'Item' } },
      'bid_sheet.column_roles.historic_cost',
    ],
    ['a formula of no column', { primary_cost_calculation: 'Nett' }, {}, 'primary_cost_calculation'],
    [
      'a formula column of no column, before there is a primary cost calculation',
      { primary_cost_calculation: undefined },
      { columns: [...columns, { name: 'Sum', column_type: 'FORMULA', formula: 'Nett + 1' }] },
      'bid_sheet.columns[6].formula',
    ],
    [
      'a value for no column',
      {},
      { lots: [{ name: 'A', values: [{ column: 'X', value: '1' }] }] },
      'bid_sheet.lots[0].values[0]',
    ],
    [
      "a value for the supplier's column",
      {},
      { lots: [{ name: 'A', values: [{ column: 'Price', value: '1' }] }] },
      'bid_sheet.lots[0].values[0]',
    ],
    [
      'a value for a formula',
      {},
      { lots: [{ name: 'A', values: [{ column: 'Net', value: '1' }] }] },
      'bid_sheet.lots[0].values[0]',
    ],
    [
      'too many decimals',
      {},
      { lots: [{ name: 'A' }, { name: 'B', values: [{ column: 'Volume', value: '1.5' }] }] },
      'bid_sheet.lots[1].values[0]',
    ],
    [
      'two values for a column',
      {},
      {
        lots: [
          {
            name: 'A',
            values: [
              { column: 'Item', value: 'x' },
              { column: 'Item', value: 'y' },
            ],
          },
        ],
      },
      'bid_sheet.lots[0].values[1].column',
    ],
    [
      "the event's value with the lot",
      {},
      { lots: [{ name: 'A', values: [{ column: 'Index', value: '1' }] }] },
      'bid_sheet.lots[0].values[0]',
    ],
    [
      "the lot's value with the event",
      {},
      { global_values: [{ column: 'Volume', value: '1' }] },
      'bid_sheet.global_values[0]',
    ],
    [
      'a currency on a number',
      {},
      { global_values: [{ column: 'Index', value: '1', currency: 'EUR' }] },
      'bid_sheet.global_values[0]',
    ],
    [
      'the primary currency as a secondary one',
      { secondary_currencies: [{ code: 'EUR', exchange_rate: '2' }] },
      {},
      'secondary_currencies[0].code',
    ],
    [
      'a currency twice',
      { secondary_currencies: ['USD', 'GBP', 'USD'].map((code) => ({ code, exchange_rate: '1' })) },
      {},
      'secondary_currencies[2].code',
    ],
    [
      'a rate of zero',
      { secondary_currencies: [{ code: 'USD', exchange_rate: '0.00' }] },
      {},
      'secondary_currencies[0].exchange_rate',
    ],
    [
      'a rate below zero',
      { secondary_currencies: [{ code: 'USD', exchange_rate: '-1' }] },
      {},
      'secondary_currencies[0].exchange_rate',
    ],
  ])('%s: named by its path', (_what, changes, sheet, path) => {
    expect(checkBidSheet(payload(changes as Record<string, unknown>, sheet)).map((issue) => issue.path)).toEqual([
      path,
    ]);
  });

  test('formulas with too many operations are refused, and the message has the bounds', () => {
    const formulas = Array.from({ length: 100 }, (_, index) => ({
      name: `F${index}`,
      column_type: 'FORMULA',
      // 500 numbers to add.
      formula: `${'1+'.repeat(499)}10`,
    }));
    const lots = Array.from({ length: 100 }, (_, index) => ({ name: `${index}` }));
    const issues = (lotCount: number) =>
      checkBidSheet(
        payload(
          { primary_cost_calculation: undefined },
          { columns: formulas, lots: lots.slice(0, lotCount), global_values: [] },
        ),
      );
    // 100 formulas of 500: 10 lots make 500,000.
    expect(issues(10)).toEqual([]);
    expect(issues(11)).toEqual([
      {
        path: 'bid_sheet.columns',
        message: 'has formulas of 50000 operations together; with 11 lots at most 45454 are possible',
      },
    ]);
  });

  test('all faults are reported at once', () => {
    const lots = [
      { name: 'A', values: [{ column: 'Volume', value: 'many' }] },
      { name: 'A', values: [{ column: 'Price', value: '1' }] },
    ];
    expect(checkBidSheet(payload({}, { lots, column_roles: { volume: 'None' } })).map((issue) => issue.path)).toEqual([
      'bid_sheet.lots[1].name',
      'bid_sheet.column_roles.volume',
      'bid_sheet.lots[0].values[0]',
      'bid_sheet.lots[1].values[0]',
    ]);
  });
});

describe('entering a value', () => {
  const sheet = compiled();
  test.each(['12', '12.50', '-0', '-0.00', '12.500', '99999999999999999999'])('%s is a price', (value) => {
    expect(cellIssue(sheet, 'Price', value, 'SUPPLIER_INPUT', 'LOT')).toBeUndefined();
  });
  test('a negative amount or number is entered only in a column that says allow_negative', () => {
    const refund = { name: 'Refund', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', allow_negative: true };
    const open = compiled({
      bid_sheet: {
        columns: [...columns, { ...refund, input_type: 'CURRENCY' }, { ...refund, name: 'Days', input_type: 'NUMBER' }],
      },
    });
    const issue = (name: string, value: string) => cellIssue(open, name, value, 'SUPPLIER_INPUT', 'LOT');
    const inDollars = { value: '-0.10', currency: 'USD' };
    expect([issue('Refund', '-0.10'), issue('Days', '-1')]).toEqual([undefined, undefined]);
    expect(cellIssue(open, 'Refund', inDollars, 'SUPPLIER_INPUT', 'LOT')).toBeUndefined();
    expect(issue('Price', '-0.10')).toContain('allow_negative');
    expect(cellIssue(open, 'Price', inDollars, 'SUPPLIER_INPUT', 'LOT')).toContain('allow_negative');
    expect(cellIssue(open, 'Freight', '-1', 'SUPPLIER_INPUT', 'EVENT')).toContain('allow_negative');
    expect(cellIssue(open, 'Index', '-1', 'BUYER_INPUT', 'EVENT')).toContain('allow_negative');
  });
  test.each(['', ' ', '12,5', '1e3', '.5', '12.505', '1'.repeat(21), 'NaN', '٣'])('%j is none', (value) => {
    expect(cellIssue(sheet, 'Price', value, 'SUPPLIER_INPUT', 'LOT')).toMatch(/^column "Price" takes/);
  });
  test('a currency must be one of the event', () => {
    const issue = (currency: string) => cellIssue(sheet, 'Price', { value: '1', currency }, 'SUPPLIER_INPUT', 'LOT');
    expect([issue('EUR'), issue('USD'), issue('GBP')]).toEqual([undefined, undefined, expect.stringContaining('GBP')]);
  });
  test('text takes any text', () => {
    expect(cellIssue(sheet, 'Item', '', 'BUYER_INPUT', 'LOT')).toBeUndefined();
    expect(cellIssue(sheet, 'Item', { value: 'x', currency: 'EUR' }, 'BUYER_INPUT', 'LOT')).toContain('no currency');
  });
  test('names are exact, and nothing is inherited from objects', () => {
    for (const name of ['price', 'constructor', '__proto__', 'toString'])
      expect(cellIssue(sheet, name, '1', 'SUPPLIER_INPUT', 'LOT')).toContain('there is no column');
  });
});

describe('computing a lot', () => {
  const buyer = cells({ Volume: '3', Item: 'X-1' });
  const event = cells({ Index: '1.5' });

  test('the row has all values in the order of the columns, global values included', () => {
    // 3 * 2.50 * 1.5 = 11.25, and 10 freight.
    expect(computeRow(compiled(), [event, buyer, cells({ Freight: '10', Price: '2.50' })], null)).toMatchObject({
      cost: '21.25',
      missing: undefined,
      values: [
        { column_name: 'Item', value: 'X-1' },
        { column_name: 'Volume', value: '3' },
        { column_name: 'Price', value: '2.50' },
        { column_name: 'Freight', value: '10' },
        { column_name: 'Index', value: '1.5' },
        { column_name: 'Net', value: '11.25' },
      ],
    });
  });

  test('an amount in a secondary currency is converted at its rate and shown as it was entered', () => {
    const price = { value: '2.50', currency: 'USD' };
    const row = computeRow(compiled(), [event, buyer, cells({ Freight: '0' }), new Map([['Price', price]])], null);
    // 2.50 USD * 0.9 = 2.25 EUR; 3 * 2.25 * 1.5 = 10.125.
    expect(row.cost).toBe('10.125');
    expect(row.values).toContainEqual({ column_name: 'Price', ...price });
  });

  test('money is exact where binary floats are not', () => {
    const sum = compiled({ primary_cost_calculation: 'Price + Freight' });
    expect(computeRow(sum, [cells({ Price: '0.1', Freight: '0.2' })], null).cost).toBe('0.3');
    expect(computeRow(sum, [cells({ Price: '99999999999999999999', Freight: '0.01' })], null).cost).toBe(
      '99999999999999999999.01',
    );
  });

  test('a value that is missing makes the bid incomplete, and the message names it', () => {
    const row = computeRow(compiled(), [event, buyer, cells({ Freight: '10' })], null);
    expect(row.cost).toBeUndefined();
    expect(row.missing).toContain('Price');
    expect(row.values.map((value) => value.column_name)).toEqual(['Item', 'Volume', 'Freight', 'Index']);
  });

  test('without a primary cost calculation no bid is complete, but formula columns are computed', () => {
    const none = compiled({ primary_cost_calculation: undefined });
    const row = computeRow(none, [event, buyer, cells({ Price: '1' })], null);
    expect(row).toMatchObject({ cost: undefined, missing: 'the event has no primary cost calculation' });
    // 3 * 1 * 1.5
    expect(row.values).toContainEqual({ column_name: 'Net', value: '4.5' });
  });

  test('an amount of the row is exact, although the row shows only ten decimals', () => {
    const third = { name: 'Third', column_type: 'FORMULA', formula: 'Volume / 9' };
    const { bid_sheet: sheet } = payload({}, { columns: [...columns, third] });
    const exact = compileBidSheet({
      type: 'RFQ',
      columns: sheet.columns,
      primaryCostCalculation: 'Third',
      primaryCurrency: 'EUR',
      secondaryCurrencies: [{ code: 'USD', exchange_rate: '0.9' }],
    });
    const row = computeRow(exact, [buyer, new Map([['Price', { value: '10', currency: 'USD' }]])], null);
    expect(row.values).toContainEqual({ column_name: 'Third', value: '0.3333333333' });
    expect(row.amountIn('Third')?.times(30_000_000_000).toFixed(0)).toBe('10000000000');
    expect([row.amountIn('Price')?.toFixed(), row.amountIn('Freight'), row.amountIn('Item')]).toEqual([
      '9',
      undefined,
      undefined,
    ]);
  });

  test('a stored sheet that does not compile is an internal error', () => {
    expect(() => compiled({ primary_cost_calculation: 'None' })).toThrow('does not compile');
  });
});

describe('a Dutch auction', () => {
  const dutch = compiled({ event_type: 'DUTCH', primary_cost_calculation: undefined });
  const buyer = cells({ Volume: '3' });

  test('the cost of a lot is the sum of its offers, even if columns have no value', () => {
    // 2.5 * 100 + 0.1 * 3 = 250.3
    const offers = [
      { value: '2.50', volume: '100' },
      { value: '0.1', volume: '3' },
    ];
    expect(computeRow(dutch, [buyer], offers)).toMatchObject({
      cost: '250.3',
      missing: undefined,
      values: [{ column_name: 'Volume', value: '3' }],
    });
  });

  test('formula columns are computed when their values are there', () => {
    const row = computeRow(dutch, [buyer, cells({ Index: '2', Price: '5' })], [{ value: '1', volume: '1' }]);
    expect(row.values).toContainEqual({ column_name: 'Net', value: '30' });
  });

  test('a primary cost calculation does not replace missing offers', () => {
    const both = compiled({ event_type: 'DUTCH' });
    const row = [buyer, cells({ Index: '1', Price: '1', Freight: '1' })];
    expect(computeRow(both, row, [{ value: '7', volume: '2' }]).cost).toBe('14');
    for (const offers of [null, []])
      expect(computeRow(both, row, offers)).toMatchObject({
        cost: undefined,
        missing: expect.stringContaining('offer'),
      });
  });

  test.each<[string, string, string, string | undefined]>([
    ['5', '10', '20', undefined],
    ['0', '10', '20', undefined],
    ['-0', '10', '20', undefined],
    ['-0.01', '10', '20', 'value'],
    ['5', '10', '0', 'volume'],
    ['5', '10', '-1', 'volume'],
    ['5', '10', '10.0', 'volume'],
  ])('an offer of %s after one for %s, for %s: wrong is %s', (value, earlier, volume, member) => {
    const offers = [
      { value: '9', volume: earlier },
      { value: '9', volume: '30' },
      { value, volume },
    ];
    expect(offerIssues(offers).map((issue) => [issue.index, issue.member])).toEqual(member ? [[2, member]] : []);
  });
});
