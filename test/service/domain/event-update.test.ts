import { describe, expect, test } from 'vitest';
import { type Column, createSourcingEventPayload } from '#contract/sourcing-event.ts';
import { mergePayload } from '#service/domain/event-payload.ts';
import { rebaseBids, updateRefusals } from '#service/domain/event-update.ts';
import type { Bid, Cells, SourcingEvent } from '#service/domain/sourcing-event.ts';
import { sampleEvent, sampleInvitation } from './sample-event.ts';

const input = (name: string, scope: 'LOT' | 'EVENT' = 'LOT', precision?: number): Column => ({
  name,
  column_type: 'INPUT',
  input_by: 'SUPPLIER_INPUT',
  input_type: 'CURRENCY',
  allow_negative: false,
  scope,
  ...(precision === undefined ? {} : { precision }),
});

function event(columns: Column[], changes: Partial<SourcingEvent> = {}): SourcingEvent {
  return sampleEvent({
    secondaryCurrencies: [{ code: 'USD', exchange_rate: '0.5' }],
    columns,
    primaryCostCalculation: 'Price + Freight',
    lots: [{ id: 'a', name: 'A', values: new Map(), sourcingRequest: null }],
    invitations: [
      sampleInvitation('s1', { accepted: true, participated: true, globalValues: new Map([['Freight', '1']]) }),
    ],
    ...changes,
  });
}

const cells = (values: Record<string, string | { value: string; currency: string }>): Cells =>
  new Map(Object.entries(values));

const bid = (values: Cells | null, cost: string | null, draft: Cells | null = null): Bid => ({
  id: 'b1',
  lotId: 'a',
  supplierId: 's1',
  values,
  offers: null,
  cost,
  draft,
  withdrawn: false,
});

const before = event([input('Price'), input('Freight', 'EVENT')]);
const standing = bid(cells({ Price: '2', Freight: '1' }), '3');

describe('bids of a sheet that has changed', () => {
  test('do not change when none of their columns has changed', () => {
    const after = event([input('Price'), input('Freight', 'EVENT'), input('More')]);
    expect(rebaseBids(before, after, [standing])).toEqual({
      bids: [],
      completed: [],
      fallen: [],
      globalValues: new Map(),
    });
  });

  test('lose the values of a column whose scope changed from event to lot, or from lot to event', () => {
    const after = event([input('Price', 'EVENT'), input('Freight')], { primaryCostCalculation: '7' });
    const rebased = rebaseBids(before, after, [standing]);
    expect(rebased.bids).toEqual([{ ...standing, values: new Map(), cost: '7' }]);
    expect(rebased.globalValues).toEqual(new Map([['s1', new Map()]]));
  });

  test('lose values with too many decimals for the new sheet, or in a currency that it does not have', () => {
    const given = bid(cells({ Price: '2.25', Freight: { value: '1', currency: 'USD' } }), '2.75');
    const after = event([input('Price', 'LOT', 1), input('Freight', 'EVENT')], {
      secondaryCurrencies: [],
      primaryCostCalculation: '7',
    });
    expect(rebaseBids(before, after, [given]).bids).toEqual([{ ...given, values: new Map(), cost: '7' }]);
  });

  test('that can no longer be computed count as withdrawn, and their remaining values are a draft', () => {
    const after = event([input('Price')], {
      primaryCostCalculation: 'Price * Weight',
      columns: [input('Price'), input('Weight')],
    });
    const fallen = { ...standing, values: null, cost: null, draft: cells({ Price: '2' }), withdrawn: true };
    expect(rebaseBids(before, after, [standing])).toMatchObject({ bids: [fallen], fallen: [fallen], completed: [] });
    const edited = bid(standing.values, '3', cells({ Price: '9' }));
    expect(rebaseBids(before, after, [edited]).bids).toMatchObject([{ values: null, draft: cells({ Price: '9' }) }]);
  });

  test('that lacked only values of removed columns now stand', () => {
    const draft = bid(null, null, cells({ Price: '2' }));
    const after = event([input('Price')], { primaryCostCalculation: 'Price' });
    const completed = { ...draft, values: cells({ Price: '2' }), cost: '2', draft: null };
    expect(rebaseBids(before, after, [draft])).toMatchObject({ bids: [completed], completed: [completed] });
  });
});

const payload = createSourcingEventPayload.parse({
  name: 'Steel',
  secondary_currencies: [{ code: 'USD', exchange_rate: '0.50' }],
  suppliers: [{ external_id: 'S1' }, { external_id: 'S2' }],
  bid_sheet: {
    columns: [
      { name: 'X', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
      { name: 'Y', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
    ],
    lots: [
      {
        name: 'A',
        values: [
          { column: 'X', value: '1' },
          { column: 'Y', value: '2' },
        ],
      },
      { name: 'B' },
    ],
  },
});
const [lotA, lotB] = payload.bid_sheet.lots;
if (!lotA || !lotB) throw new Error('the payload has two lots');

describe('an open event', () => {
  const refusals = (changes: Parameters<typeof mergePayload>[1]) =>
    updateRefusals({ status: 'OPEN' }, payload, mergePayload(payload, changes), {
      lots: new Set(),
      suppliers: new Set(),
    }).map(({ path }) => path);

  test('accepts an update that changes nothing, also with another order or another spelling of a number', () => {
    expect(
      refusals({
        ...payload,
        secondary_currencies: [{ code: 'USD', exchange_rate: '0.5' }],
        suppliers: payload.suppliers.toReversed(),
        bid_sheet: { ...payload.bid_sheet, lots: [lotB, { ...lotA, values: lotA.values.toReversed() }] },
      }),
    ).toEqual([]);
  });

  test('accepts no update that leaves something out, with or without bids', () => {
    expect(refusals({ suppliers: [], secondary_currencies: [], bid_sheet: { lots: [lotA] } })).toEqual([
      'secondary_currencies',
      'suppliers',
      'suppliers',
      'bid_sheet.lots',
    ]);
  });
});

test('an update of a draft may leave out exactly what has no bids and no answers', () => {
  const after = mergePayload(payload, {
    event_type: 'DUTCH',
    primary_currency: 'CHF',
    suppliers: [],
    bid_sheet: { lots: [] },
  });
  const refusals = (lots: string[], suppliers: string[]) =>
    updateRefusals({ status: 'DRAFT' }, payload, after, { lots: new Set(lots), suppliers: new Set(suppliers) }).map(
      ({ path }) => path,
    );
  expect(refusals([], [])).toEqual([]);
  expect(refusals([], ['S2'])).toEqual(['suppliers']);
  expect(refusals(['B'], ['S1'])).toEqual(['event_type', 'primary_currency', 'bid_sheet.lots', 'suppliers']);
});
