/** The records of the latest bids feed and the awards feed: every field with its exact value, worked out by hand. */
import { expect, test } from 'vitest';
import { createEvent, desk, readWholeFeed } from '../../harness/sourcing.ts';
import { at, someUuid, startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { organisation, requests, supplierIds } = conformance;
const [firstRequest, secondRequest] = requests;
const { S1, S2 } = supplierIds;

const input = { column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER' };
const sheet = {
  column_roles: { volume: 'Volume', historic_cost: 'Before' },
  columns: [
    { ...input, name: 'Item', input_type: 'TEXT' },
    { ...input, name: 'Volume', precision: 0 },
    { ...input, name: 'Before', input_type: 'CURRENCY' },
    { ...input, name: 'Index', scope: 'EVENT' },
    { ...input, name: 'Price', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
    { ...input, name: 'Terms', input_by: 'SUPPLIER_INPUT', input_type: 'TEXT', scope: 'EVENT' },
    { name: 'Each', column_type: 'FORMULA', formula: 'Price * Index' },
  ],
  global_values: [{ column: 'Index', value: '1.50' }],
  lots: [
    {
      name: 'A',
      values: [
        { column: 'Item', value: 'Chair, red' },
        { column: 'Volume', value: '10' },
        { column: 'Before', value: '100.00', currency: 'USD' },
      ],
      sourcing_request: secondRequest,
    },
    { name: 'B', values: [{ column: 'Volume', value: '4' }] },
  ],
};
const payload = (changes: object = {}) => ({
  name: 'Chairs',
  secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
  suppliers: ['S1', 'S2', 'S3'].map((external_id) => ({ external_id })),
  primary_cost_calculation: 'Volume * Each',
  bid_sheet: sheet,
  ...changes,
});

const command = (event: string, path: string, body: object = {}, method = 'POST') =>
  desk(organisation, method, `${event}/${path}`, body);
/** The records of an event in the order of the feed. */
const feed = (name: 'latest-bids' | 'awards', event: string) =>
  readWholeFeed(organisation, name, `sourcing_event=${event}`);
const usd = (value: string) => ({ value, currency: 'USD' });

/** The cells of a supplier's row, in the columns' order: the buyer's values and the supplier's. */
const rowOfA = (price: object, terms: string, each: string) => [
  { column_name: 'Item', value: 'Chair, red' },
  { column_name: 'Volume', value: '10' },
  { column_name: 'Before', value: '100.00', currency: 'USD' },
  { column_name: 'Index', value: '1.50' },
  { column_name: 'Price', ...price },
  { column_name: 'Terms', value: terms },
  { column_name: 'Each', value: each },
];
const rowOfB = (price: string, terms: string, each: string) => [
  { column_name: 'Volume', value: '4' },
  { column_name: 'Index', value: '1.50' },
  { column_name: 'Price', value: price },
  { column_name: 'Terms', value: terms },
  { column_name: 'Each', value: each },
];

const uuid = expect.stringMatching(someUuid);
/** The time of a record: a microsecond later for each record that was appended before it at the same time. */
const after = (minute: number, micros: number) => at(minute).replace(/0Z$/, `${micros}Z`);

test('RFQ: a record for each complete bid, and new records after changes, withdrawals, edits and awards', async () => {
  conformance.moveTo(1);
  const event = await createEvent(organisation, payload());
  await command(event, 'publish');
  conformance.moveTo(2);
  await command(event, 'bids', {
    supplier: 'S1',
    lots: [
      { lot: 'A', values: { Price: usd('2.00') } },
      { lot: 'B', values: { Price: '3.10' } },
    ],
    global: { Terms: 'net 30' },
  });
  conformance.moveTo(3);
  await command(event, 'bids', {
    supplier: 'S2',
    lots: [{ lot: 'A', values: { Price: '2.40' } }, { lot: 'B' }],
    global: { Terms: 'net 10' },
  });
  // The event serves only lot A's request, so the records of lot B name it, too. S2's bid on B is incomplete.
  const common = { id: uuid, sourcing_event: event, sourcing_request: secondRequest };
  const records = [
    // 10 * (2.00 USD * 0.9 = 1.80) * 1.5
    {
      ...common,
      supplier: S1,
      lot_name: 'A',
      bids: [{ value: '27' }],
      bid_sheet_values: rowOfA(usd('2.00'), 'net 30', '2.7'),
      modified: at(2),
    },
    // 4 * 3.10 * 1.5
    {
      ...common,
      supplier: S1,
      lot_name: 'B',
      bids: [{ value: '18.6' }],
      bid_sheet_values: rowOfB('3.10', 'net 30', '4.65'),
      modified: after(2, 1),
    },
    // 10 * 2.40 * 1.5
    {
      ...common,
      supplier: S2,
      lot_name: 'A',
      bids: [{ value: '36' }],
      bid_sheet_values: rowOfA({ value: '2.40' }, 'net 10', '3.6'),
      modified: at(3),
    },
  ];
  const first = await feed('latest-bids', event);
  expect(first).toEqual(records);
  const [firstA, firstB, secondA] = first;
  expect(new Set(first.map(({ id }) => id)).size).toBe(3);

  // Awarded and closed: lot A is shared, lot B is not awarded.
  conformance.moveTo(4);
  const awards = [
    { lot: 'A', supplier: 'S1', share_awarded: '0.75' },
    { lot: 'A', supplier: 'S2', share_awarded: '0.25' },
  ];
  await command(event, 'scenarios/Best%20price', { awards }, 'PUT');
  await command(event, 'award', { scenario: 'Best price' });
  await command(event, 'close');
  expect(await feed('latest-bids', event)).toEqual(first);
  // 100 USD * 0.9 = 90 EUR: 67.50 and 22.50 of it; 0.75 * 27 = 20.25 and 0.25 * 36 = 9.
  const entries = [
    {
      supplier: S1,
      share_awarded: '0.75',
      cost: '20.25',
      savings: '47.25',
      historic_cost: '67.5',
      bid_sheet_values: rowOfA(usd('2.00'), 'net 30', '2.7'),
    },
    {
      supplier: S2,
      share_awarded: '0.25',
      cost: '9',
      savings: '13.5',
      historic_cost: '22.5',
      bid_sheet_values: rowOfA({ value: '2.40' }, 'net 10', '3.6'),
    },
  ];
  const awarded = await feed('awards', event);
  const [awardOfA, awardOfB] = awarded;
  const bySupplier = (a: { supplier: string | undefined }, b: { supplier: string | undefined }) =>
    String(a.supplier) < String(b.supplier) ? -1 : 1;
  expect({ ...awardOfA, awards: awardOfA.awards.toSorted(bySupplier) }).toEqual({
    ...common,
    lot_name: 'A',
    scenario_name: 'Best price',
    awards: entries.toSorted(bySupplier),
    modified: at(4),
  });
  expect(awardOfB).toEqual({ ...common, lot_name: 'B', awards: [], modified: after(4, 1) });
  expect(awarded).toHaveLength(2);

  // Reopened: only changed records are appended again at the end of the feed, with the same ids.
  conformance.moveTo(5);
  await command(event, 'reopen');
  await command(event, 'bids', { supplier: 'S2', lots: [{ lot: 'A', values: { Price: '2.00' } }] });
  conformance.moveTo(6);
  await command(event, 'bids/withdraw', { supplier: 'S1', lots: ['A'] });
  const lowered = {
    ...secondA,
    bids: [{ value: '30' }],
    bid_sheet_values: rowOfA({ value: '2.00' }, 'net 10', '3'),
    modified: at(5),
  };
  const withdrawn = { ...firstA, bids: [], bid_sheet_values: [], modified: at(6) };
  expect(await feed('latest-bids', event)).toEqual([firstB, lowered, withdrawn]);
  expect(await feed('awards', event)).toEqual(awarded);

  // The award is removed: lot A's record is like that of lot B, which was never awarded and has not changed.
  conformance.moveTo(7);
  await command(event, 'award', { scenario: null });
  await command(event, 'close');
  const unawarded = { ...common, id: awardOfA.id, lot_name: 'A', awards: [], modified: at(7) };
  expect(await feed('awards', event)).toEqual([awardOfB, unawarded]);
  expect(await feed('latest-bids', event)).toEqual([firstB, lowered, withdrawn]);
});

test('awards show the winning bids at the time of closing: no losing bid and no earlier round', async () => {
  conformance.moveTo(10);
  const event = await createEvent(organisation, payload());
  await command(event, 'publish');
  const bid = (supplier: string, price: string, terms: string) =>
    command(event, 'bids', {
      supplier,
      lots: ['A', 'B'].map((lot) => ({ lot, values: { Price: price } })),
      global: { Terms: terms },
    });
  await bid('S1', '9.00', 'first');
  await bid('S2', '8.00', 'losing');
  await command(event, 'rounds/1/close');
  await command(event, 'rounds', { ends: at(1_000) });
  await bid('S1', '4.00', 'last');
  const awards = ['A', 'B'].map((lot) => ({ lot, supplier: 'S1', share_awarded: '1' }));
  await command(event, 'scenarios/s', { awards }, 'PUT');
  await command(event, 'award', { scenario: 's' });
  await command(event, 'close');
  const common = { id: uuid, sourcing_event: event, sourcing_request: secondRequest, scenario_name: 's' };
  // 10 * 4 * 1.5 against 90, and 4 * 4 * 1.5. Values for the whole event are in every lot's row.
  expect(await feed('awards', event)).toEqual([
    {
      ...common,
      lot_name: 'A',
      awards: [
        {
          supplier: S1,
          share_awarded: '1',
          cost: '60',
          savings: '30',
          historic_cost: '90',
          bid_sheet_values: rowOfA({ value: '4.00' }, 'last', '6'),
        },
      ],
      modified: at(10),
    },
    {
      ...common,
      lot_name: 'B',
      awards: [{ supplier: S1, share_awarded: '1', cost: '24', bid_sheet_values: rowOfB('4.00', 'last', '6') }],
      modified: after(10, 1),
    },
  ]);
});

test('English auction: one bid with the primary cost; a record without a request names none', async () => {
  conformance.moveTo(20);
  const lots = sheet.lots.map(({ name, values }) => ({ name, values }));
  const bid_sheet = { ...sheet, lots };
  const event = await createEvent(organisation, payload({ event_type: 'ENGLISH', bid_sheet }));
  await command(event, 'publish');
  await command(event, 'bids', { supplier: 'S1', lots: [{ lot: 'B', values: { Price: '1' } }] });
  expect(await feed('latest-bids', event)).toEqual([
    {
      id: uuid,
      sourcing_event: event,
      supplier: S1,
      lot_name: 'B',
      bids: [{ value: '6' }],
      bid_sheet_values: [
        { column_name: 'Volume', value: '4' },
        { column_name: 'Index', value: '1.50' },
        { column_name: 'Price', value: '1' },
        { column_name: 'Each', value: '1.5' },
      ],
      modified: at(20),
    },
  ]);
});

test('Dutch auction: each ask price with its volume, as it was entered', async () => {
  conformance.moveTo(30);
  const event = await createEvent(organisation, {
    ...payload({ event_type: 'DUTCH', sourcing_requests: [firstRequest] }),
    bid_sheet: { lots: [{ name: 'A' }, { name: 'B', sourcing_request: secondRequest }] },
    primary_cost_calculation: undefined,
  });
  await command(event, 'publish');
  const offers = [
    { value: '5.50', volume: '100' },
    { value: '5.00', volume: '1000' },
    { value: '5', volume: '2500.5' },
  ];
  const lots = ['A', 'B'].map((lot) => ({ lot, offers }));
  await command(event, 'bids', { supplier: 'S2', lots });
  const common = { id: uuid, sourcing_event: event, supplier: S2, bids: offers, bid_sheet_values: [] };
  expect(await feed('latest-bids', event)).toEqual([
    // The event serves two requests, and this lot names neither.
    { ...common, lot_name: 'A', modified: at(30) },
    { ...common, sourcing_request: secondRequest, lot_name: 'B', modified: after(30, 1) },
  ]);
  conformance.moveTo(31);
  await command(event, 'close');
  const none = { id: uuid, sourcing_event: event, awards: [] };
  expect(await feed('awards', event)).toEqual([
    { ...none, lot_name: 'A', modified: at(31) },
    { ...none, sourcing_request: secondRequest, lot_name: 'B', modified: after(31, 1) },
  ]);
});
