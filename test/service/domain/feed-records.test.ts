import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { FeedRecordContent } from '#contract/feed.ts';
import type { Column } from '#contract/sourcing-event.ts';
import { compileBidSheet } from '#service/domain/bid-sheet.ts';
import { bidRecords, makeAwards, makeSourcingEventRecord } from '#service/domain/feed-records.ts';
import type { Bid, ScenarioAward, SourcingEvent } from '#service/domain/sourcing-event.ts';
import { created, sampleEvent, sampleInvitation } from './sample-event.ts';

const input = (name: string, by: 'BUYER_INPUT' | 'SUPPLIER_INPUT', scope: 'LOT' | 'EVENT' = 'LOT'): Column => ({
  name,
  column_type: 'INPUT',
  input_by: by,
  input_type: 'CURRENCY',
  allow_negative: false,
  scope,
});
const columns = [
  input('Volume', 'BUYER_INPUT'),
  input('Before', 'BUYER_INPUT'),
  input('Index', 'BUYER_INPUT', 'EVENT'),
  input('Price', 'SUPPLIER_INPUT'),
  input('Freight', 'SUPPLIER_INPUT', 'EVENT'),
];

function event(changes: Partial<SourcingEvent> = {}): SourcingEvent {
  return sampleEvent({
    status: 'OPEN',
    secondaryCurrencies: [{ code: 'USD', exchange_rate: '0.5' }],
    columns,
    columnRoles: { historic_cost: 'Before' },
    globalValues: new Map([['Index', '2']]),
    primaryCostCalculation: 'Volume * Price * Index + Freight',
    awardedScenario: 'best',
    scenarioCount: 1,
    lots: [
      {
        id: 'l1',
        name: 'A',
        values: new Map([
          ['Volume', '10'],
          ['Before', '1000'],
        ]),
        sourcingRequest: null,
      },
      { id: 'l2', name: 'B', values: new Map([['Volume', '1']]), sourcingRequest: null },
    ],
    invitations: [sampleInvitation('s1'), sampleInvitation('s2')],
    ...changes,
  });
}

function bid(lotId: string, supplierId: string, cost: string | null, values: Record<string, string> = {}): Bid {
  const entered = new Map(Object.entries({ Price: '1', Freight: '0', ...values }));
  const identity = { id: `${lotId}-${supplierId}`, lotId, supplierId };
  return { ...identity, values: cost === null ? null : entered, offers: null, cost, draft: null, withdrawn: false };
}

const sheet = compileBidSheet(event());
const awardOf = (bids: readonly Bid[], awards: readonly ScenarioAward[], of = event()) =>
  makeAwards(of, sheet, bids, awards);

describe('an award', () => {
  test('costs its share of the bid, and saves the difference to the historic cost', () => {
    const { records, awardedCost, awardedLotCount } = awardOf(
      [bid('l1', 's1', '800', { Price: '40' })],
      [{ lotId: 'l1', supplierId: 's1', share: '0.25' }],
    );
    // A quarter of 800 and of 1000.
    expect(records[0]).toMatchObject({
      id: 'l1',
      requests: [],
      content: {
        id: 'l1',
        sourcing_event: 'e1',
        lot_name: 'A',
        scenario_name: 'best',
        awards: [
          {
            supplier: 's1',
            share_awarded: '0.25',
            cost: '200',
            historic_cost: '250',
            savings: '50',
            bid_sheet_values: [
              { column_name: 'Volume', value: '10' },
              { column_name: 'Before', value: '1000' },
              { column_name: 'Index', value: '2' },
              { column_name: 'Price', value: '40' },
              { column_name: 'Freight', value: '0' },
            ],
          },
        ],
      },
    });
    expect([awardedCost, awardedLotCount]).toEqual(['200', 1]);
  });

  test('split between suppliers has an entry for each, with the buyer-defined values repeated', () => {
    const { records, awardedCost } = awardOf(
      [bid('l1', 's1', '600'), bid('l1', 's2', '900')],
      [
        { lotId: 'l1', supplierId: 's1', share: '0.6' },
        { lotId: 'l1', supplierId: 's2', share: '0.4' },
      ],
    );
    // 0.6 * 600 = 360 against 600; 0.4 * 900 = 360 against 400.
    expect(records[0]?.content.awards).toMatchObject([
      { supplier: 's1', cost: '360', historic_cost: '600', savings: '240' },
      { supplier: 's2', cost: '360', historic_cost: '400', savings: '40' },
    ]);
    for (const award of records[0]?.content.awards ?? [])
      expect(award.bid_sheet_values).toContainEqual({ column_name: 'Volume', value: '10' });
    expect(awardedCost).toBe('720');
  });

  test('may have negative savings', () => {
    const { records } = awardOf([bid('l1', 's1', '1200.50')], [{ lotId: 'l1', supplierId: 's1', share: '1' }]);
    expect(records[0]?.content.awards).toMatchObject([{ cost: '1200.5', savings: '-200.5' }]);
  });

  test('of a lot without historic cost has neither savings nor historic_cost', () => {
    const { records } = awardOf([bid('l2', 's1', '7')], [{ lotId: 'l2', supplierId: 's1', share: '1' }]);
    const [award] = records[1]?.content.awards ?? [];
    expect(Object.keys(award ?? {})).toEqual(['supplier', 'share_awarded', 'cost', 'bid_sheet_values']);
  });

  test('of the same share under another scenario, or written differently, is the same award', () => {
    const compared = (share: string, scenario: string) =>
      awardOf(
        [bid('l1', 's1', '800')],
        [{ lotId: 'l1', supplierId: 's1', share }],
        event({ awardedScenario: scenario }),
      ).records.map((record) => JSON.stringify(record.compared));
    expect(compared('0.50', 'second')).toEqual(compared('0.5', 'first'));
    expect(compared('0.51', 'first')).not.toEqual(compared('0.5', 'first'));
  });

  test('has changed when any member but the scenario has; its stored hash stays valid', () => {
    const { records } = awardOf([bid('l1', 's1', '800')], [{ lotId: 'l1', supplierId: 's1', share: '0.5' }]);
    const row = '[{"column_name":"Volume","value":"10"},{"column_name":"Before","value":"1000"}';
    const rest =
      '{"column_name":"Index","value":"2"},{"column_name":"Price","value":"1"},{"column_name":"Freight","value":"0"}]';
    expect(records.map(({ compared }) => JSON.stringify(compared))).toEqual([
      `{"id":"l1","sourcing_event":"e1","sourcing_request":null,"lot_name":"A","awards":[{"supplier":"s1","share_awarded":"0.5","cost":"400","savings":"100","historic_cost":"500","bid_sheet_values":${row},${rest}}]}`,
      '{"id":"l2","sourcing_event":"e1","sourcing_request":null,"lot_name":"B","awards":[]}',
    ]);
    for (const { content, compared } of records)
      expect(Object.keys(compared as object)).toEqual(
        expect.arrayContaining(Object.keys(content).filter((name) => name !== 'scenario_name')),
      );
  });

  test('converts a historic cost in a secondary currency', () => {
    const values = new Map([['Before', { value: '1000', currency: 'USD' }]]);
    const lot = { id: 'l1', name: 'A', values, sourcingRequest: null };
    const { records } = awardOf(
      [bid('l1', 's1', '400')],
      [{ lotId: 'l1', supplierId: 's1', share: '1' }],
      event({ lots: [lot] }),
    );
    expect(records[0]?.content.awards).toMatchObject([{ historic_cost: '500', savings: '100' }]);
  });

  test('of a lot without a winner has a record with an empty list of awards', () => {
    const { records, awardedCost, awardedLotCount } = awardOf(
      [bid('l1', 's1', '1')],
      [],
      event({ awardedScenario: null }),
    );
    expect(records.map((record) => record.content)).toEqual([
      { id: 'l1', sourcing_event: 'e1', lot_name: 'A', awards: [] },
      { id: 'l2', sourcing_event: 'e1', lot_name: 'B', awards: [] },
    ]);
    expect([awardedCost, awardedLotCount]).toEqual(['0', 0]);
  });

  test('whose bid does not stand any more is left out', () => {
    const { records, awardedLotCount } = awardOf(
      [bid('l1', 's1', null)],
      [{ lotId: 'l1', supplierId: 's1', share: '1' }],
    );
    expect(records[0]?.content.awards).toEqual([]);
    expect(awardedLotCount).toBe(0);
  });

  test('adds up as shown: savings and totals are computed from the rounded amounts', () => {
    // 0.5 * 0.6666666667 = 0.33333333335, shown as 0.3333333334; 1 less that is 0.6666666666.
    const values = new Map([['Before', '2']]);
    const { records, awardedCost } = awardOf(
      [bid('l1', 's1', '0.6666666667'), bid('l1', 's2', '0.6666666667')],
      [
        { lotId: 'l1', supplierId: 's1', share: '0.5' },
        { lotId: 'l1', supplierId: 's2', share: '0.5' },
      ],
      event({ lots: [{ id: 'l1', name: 'A', values, sourcingRequest: null }] }),
    );
    const shown = { cost: '0.3333333334', historic_cost: '1', savings: '0.6666666666' };
    expect(records[0]?.content.awards).toMatchObject([shown, shown]);
    expect(awardedCost).toBe('0.6666666668');
  });

  test('with a share of zero is left out', () => {
    const { records, awardedLotCount } = awardOf(
      [bid('l1', 's1', '5')],
      [{ lotId: 'l1', supplierId: 's1', share: '0.00' }],
    );
    expect([records[0]?.content.awards, awardedLotCount]).toEqual([[], 0]);
  });

  test('shares that add up to 1 cost exactly what the bid costs', () => {
    const money = fc
      .nat(1_000_000_000)
      .map((cents) => `${Math.trunc(cents / 100)}.${String(cents % 100).padStart(2, '0')}`);
    fc.assert(
      fc.property(money, fc.integer({ min: 1, max: 99 }), (cost, percent) => {
        const share = (hundredths: number) => `0.${String(hundredths).padStart(2, '0')}`;
        const { awardedCost } = awardOf(
          [bid('l1', 's1', cost), bid('l1', 's2', cost)],
          [
            { lotId: 'l1', supplierId: 's1', share: share(percent) },
            { lotId: 'l1', supplierId: 's2', share: share(100 - percent) },
          ],
        );
        expect(awardedCost).toBe(cost.replace(/\.?0+$/, '') || '0');
      }),
    );
  });
});

describe('a bid', () => {
  test('is shown with its cost in the primary currency and its row', () => {
    expect(bidRecords(event(), sheet, [bid('l2', 's2', '2.5', { Price: '1.25' })])).toEqual([
      {
        id: 'l2-s2',
        requests: [],
        content: {
          id: 'l2-s2',
          sourcing_event: 'e1',
          supplier: 's2',
          lot_name: 'B',
          bids: [{ value: '2.5' }],
          bid_sheet_values: [
            { column_name: 'Volume', value: '1' },
            { column_name: 'Index', value: '2' },
            { column_name: 'Price', value: '1.25' },
            { column_name: 'Freight', value: '0' },
          ],
        },
      },
    ]);
  });

  test('of a Dutch auction shows its offers as they were entered', () => {
    const offers = [
      { value: '2.50', volume: '100' },
      { value: '3', volume: '7' },
    ];
    const [record] = bidRecords(event(), compileBidSheet(event({ type: 'DUTCH' })), [
      { ...bid('l2', 's2', '271'), offers },
    ]);
    expect(record?.content.bids).toEqual(offers);
  });

  test('that was withdrawn has a record under its id without bids and values, until a bid stands again', () => {
    const taken = { ...bid('l2', 's2', null), withdrawn: true };
    const empty = { id: 'l2-s2', sourcing_event: 'e1', supplier: 's2', lot_name: 'B', bids: [], bid_sheet_values: [] };
    for (const draft of [null, new Map([['Price', '1']])])
      expect(bidRecords(event(), sheet, [{ ...taken, draft }])).toEqual([
        { id: 'l2-s2', requests: [], content: empty },
      ]);
  });

  test('that is not complete has no record', () => {
    expect(bidRecords(event(), sheet, [bid('l1', 's1', null)])).toEqual([]);
  });
});

test('an event shows its contract members, and no nulls', () => {
  const { content, status } = makeSourcingEventRecord(
    event({
      category: 'Metals',
      published: created,
      rounds: [
        {
          number: 1,
          starts: created,
          ends: null,
          status: 'ACTIVE',
          awardedCost: null,
          awardedLotCount: null,
          reopened: false,
        },
      ],
      invitations: [{ ...sampleInvitation('s1'), contacts: [{ id: 'c1', name: 'Ann', email: 'ann@acme.example' }] }],
    }),
  );
  expect(status).toBe('OPEN');
  expect(content).toEqual({
    id: 'e1',
    name: 'Steel',
    type: 'RFQ',
    status: 'OPEN',
    roles: [{ role_type: 'ADMIN', user: [{ id: 'k1' }] }],
    created,
    published: created,
    created_by: { id: 'k1' },
    rounds: [{ starts: created, status: 'ACTIVE' }],
    columns: columns.map(({ name }) => ({ name })),
    lot_count: 2,
    scenario_count: 1,
    evaluated_scenario_count: 1,
    is_test: false,
    primary_currency: 'EUR',
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.5' }],
    suppliers: [
      {
        id: 's1',
        name: 'Supplier s1',
        external_id: 'S1',
        invite_count: 1,
        accepted: false,
        participated: false,
        contacts: [{ id: 'c1', name: 'Ann', email: 'ann@acme.example', supplier: 's1' }],
      },
    ],
    tags: [],
    category: 'Metals',
  });
});

test("the content of a record has the contract's members: one too few or one too many is a type error", () => {
  const whole: FeedRecordContent<'awards'> = { id: 'l1', sourcing_event: 'e1', lot_name: 'A', awards: [] };
  // @ts-expect-error the contract requires lot_name
  const lacking: FeedRecordContent<'awards'> = { id: 'l1', sourcing_event: 'e1', awards: [] };
  // @ts-expect-error the contract has no member scenario: it is scenario_name
  const misspelt: FeedRecordContent<'awards'> = { ...whole, scenario: 'best' };
  expect([whole, lacking, misspelt].map((content) => 'lot_name' in content)).toEqual([true, false, true]);
});
