/** Scenarios and awards: what may be awarded, what closing publishes, and what changes when lots are awarded again. */
import { describe, expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, readEvent, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2', 'S3']);

const input = (name: string, inputBy: string, inputType: string, scope = 'LOT') => ({
  name,
  column_type: 'INPUT',
  input_by: inputBy,
  input_type: inputType,
  scope,
});
const columns = [
  input('Volume', 'BUYER_INPUT', 'NUMBER'),
  input('Last Year', 'BUYER_INPUT', 'CURRENCY'),
  input('Index', 'BUYER_INPUT', 'NUMBER', 'EVENT'),
  input('Price', 'SUPPLIER_INPUT', 'CURRENCY'),
  input('Terms', 'SUPPLIER_INPUT', 'TEXT', 'EVENT'),
  { name: 'Each', column_type: 'FORMULA', formula: 'Price * Index' },
];

/** Lot A cost 1,000 USD last year in total; lot B has no historic cost. */
async function openEvent(changes: object = {}): Promise<string> {
  const event = await createEvent(organisation, {
    name: 'Awards',
    primary_currency: 'EUR',
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
    primary_cost_calculation: 'Volume * Each',
    suppliers: ['S1', 'S2', 'S3'].map((id) => ({ external_id: id })),
    bid_sheet: {
      column_roles: { historic_cost: 'Last Year', volume: 'Volume' },
      columns,
      global_values: [{ column: 'Index', value: '1.5' }],
      lots: [
        {
          name: 'A',
          values: [
            { column: 'Volume', value: '10' },
            { column: 'Last Year', value: '1000', currency: 'USD' },
          ],
        },
        { name: 'B', values: [{ column: 'Volume', value: '1' }] },
      ],
    },
    ...changes,
  });
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

const bid = (event: string, supplier: string, prices: Record<string, string>) =>
  desk(organisation, 'POST', `${event}/bids`, {
    supplier,
    lots: Object.entries(prices).map(([lot, Price]) => ({ lot, values: { Price } })),
    global: { Terms: `terms of ${supplier}` },
  });

const entry = (lot: string, supplier: string, share: string) => ({ lot, supplier, share_awarded: share });
const save = (event: string, name: string, awards: object[]) =>
  organisation.call('PUT', `/desk/events/${event}/scenarios/${name}`, { awards });
const choose = (event: string, scenario: string | null) => desk(organisation, 'POST', `${event}/award`, { scenario });
const close = (event: string) => desk(organisation, 'POST', `${event}/close`);
const reopen = (event: string) => desk(organisation, 'POST', `${event}/reopen`);

async function feed(event: string) {
  const records = await readWholeFeed(organisation, 'awards', `page_size=1000&sourcing_event=${event}`);
  return Object.fromEntries(records.map((one) => [one.lot_name, one]));
}

const withoutIdentity = ({ id: _id, lot_name: _name, modified: _modified, ...record }: Record<string, unknown>) =>
  record;

test("a lot shared by two suppliers: each award has its share's amounts, and the whole row of its bid", async () => {
  const event = await openEvent();
  await bid(event, 'S1', { A: '40' });
  await bid(event, 'S2', { A: '50' });
  await bid(event, 'S3', { A: '99' });
  await save(event, 'split', [entry('A', 'S1', '0.6'), entry('A', 'S2', '0.4')]);
  await choose(event, 'split');
  await close(event);
  const { suppliers } = await readEvent(organisation, event);
  const { A, B } = await feed(event);
  const row = (price: string, terms: string, each: string) => [
    { column_name: 'Volume', value: '10' },
    { column_name: 'Last Year', value: '1000', currency: 'USD' },
    { column_name: 'Index', value: '1.5' },
    { column_name: 'Price', value: price },
    { column_name: 'Terms', value: terms },
    { column_name: 'Each', value: each },
  ];
  const idOf = (externalId: string) =>
    suppliers.find((one: { external_id: string }) => one.external_id === externalId).id;
  // Costs: 10 * 40 * 1.5 = 600 and 10 * 50 * 1.5 = 750. Last year: 1000 USD * 0.9 = 900 EUR.
  const expected = [
    {
      supplier: idOf('S1'),
      share_awarded: '0.6',
      cost: '360',
      historic_cost: '540',
      savings: '180',
      bid_sheet_values: row('40', 'terms of S1', '60'),
    },
    {
      supplier: idOf('S2'),
      share_awarded: '0.4',
      cost: '300',
      historic_cost: '360',
      savings: '60',
      bid_sheet_values: row('50', 'terms of S2', '75'),
    },
  ];
  const bySupplier = (a: { supplier: string }, b: { supplier: string }) => (a.supplier < b.supplier ? -1 : 1);
  expect(A).toMatchObject({ sourcing_event: event, scenario_name: 'split' });
  expect(A.awards.toSorted(bySupplier)).toEqual(expected.toSorted(bySupplier));
  expect(B.awards).toEqual([]);
  const [record] = (await organisation.call('GET', `/api/feeds/sourcing-events?id=${event}`)).body.data;
  expect(record.rounds).toMatchObject([{ status: 'COMPLETE', awarded_cost: '660', awarded_lot_count: 1 }]);
});

test('an award of a lot without a historic cost has neither historic_cost nor savings', async () => {
  const event = await openEvent();
  await bid(event, 'S1', { B: '2' });
  await save(event, 's', [entry('B', 'S1', '1')]);
  await choose(event, 's');
  await close(event);
  const [award] = (await feed(event))['B'].awards;
  expect(Object.keys(award).sort()).toEqual(['bid_sheet_values', 'cost', 'share_awarded', 'supplier']);
  expect(award.cost).toBe('3');
});

test('amounts have at most ten decimals, halves away from zero, and no exponent', async () => {
  const event = await openEvent();
  await bid(event, 'S1', { A: '0.0000000003', B: '99999999999999999999' });
  await save(event, 's', [entry('A', 'S1', '0.3333333333'), entry('B', 'S1', '0.0000000001')]);
  await choose(event, 's');
  await close(event);
  const { A, B } = await feed(event);
  // 10 * 0.0000000003 * 1.5 = 0.0000000045; its share is 0.00000000149999999985. 900 * 0.3333333333 = 299.99999997.
  expect(A.awards[0]).toMatchObject({ cost: '0.0000000015', historic_cost: '299.99999997', savings: '299.9999999685' });
  // 149999999999999999998.5 * 0.0000000001 = 14999999999.99999999985, which is rounded to ten decimals.
  expect(B.awards[0].cost).toBe('14999999999.9999999999');
});

describe('a scenario', () => {
  test('may award a lot up to a sum of shares of exactly 1', async () => {
    const event = await openEvent();
    for (const supplier of ['S1', 'S2', 'S3']) await bid(event, supplier, { A: '1' });
    const shares = (last: string) => [
      entry('A', 'S1', '0.3333333333'),
      entry('A', 'S2', '0.3333333333'),
      entry('A', 'S3', last),
    ];
    expect((await save(event, 's', shares('0.3333333334'))).status).toBe(200);
    const refused = await save(event, 's', shares('0.3333333335'));
    expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'awards[2].share_awarded']);
  });

  test('awards only standing bids: no draft, and no lot without a bid', async () => {
    const event = await openEvent();
    await desk(organisation, 'POST', `${event}/bids`, { supplier: 'S1', lots: [{ lot: 'A' }] });
    for (const lot of ['A', 'B']) {
      const refused = await save(event, 's', [entry(lot, 'S1', '1')]);
      expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'awards[0].supplier']);
    }
  });

  test('makes no award of a share of 0', async () => {
    const event = await openEvent();
    await bid(event, 'S1', { A: '1' });
    await bid(event, 'S2', { A: '1' });
    await save(event, 's', [entry('A', 'S1', '0'), entry('A', 'S2', '1')]);
    await choose(event, 's');
    await close(event);
    expect((await feed(event))['A'].awards).toMatchObject([{ share_awarded: '1' }]);
  });

  test('that was changed after it was chosen is published as it is when the event closes', async () => {
    const event = await openEvent();
    await bid(event, 'S1', { A: '1', B: '1' });
    await save(event, 's', [entry('A', 'S1', '1')]);
    await choose(event, 's');
    await save(event, 's', [entry('B', 'S1', '0.5')]);
    await close(event);
    const { A, B } = await feed(event);
    expect([A.awards, B.awards]).toMatchObject([[], [{ share_awarded: '0.5' }]]);
  });

  test('that is changed after the closing updates the changed lots when the event closes again', async () => {
    const event = await openEvent();
    await bid(event, 'S1', { A: '1', B: '1' });
    await save(event, 's', [entry('A', 'S1', '1'), entry('B', 'S1', '1')]);
    await choose(event, 's');
    await close(event);
    const first = await feed(event);
    await save(event, 's', [entry('A', 'S1', '1'), entry('B', 'S1', '0.5')]);
    expect(await feed(event)).toEqual(first);
    await reopen(event);
    expect(await feed(event)).toEqual(first);
    await close(event);
    const second = await feed(event);
    expect(second['A']).toEqual(first['A']);
    expect(second['B']).toMatchObject({ id: first['B'].id, awards: [{ share_awarded: '0.5', cost: '0.75' }] });
    expect(second['B'].modified > first['B'].modified).toBe(true);
  });

  test('with another name and the same awards changes no record', async () => {
    const event = await openEvent();
    await bid(event, 'S1', { A: '1' });
    for (const name of ['x', 'y']) await save(event, name, [entry('A', 'S1', '1')]);
    await choose(event, 'x');
    await close(event);
    const first = await feed(event);
    await reopen(event);
    await choose(event, 'y');
    await close(event);
    expect(await feed(event)).toEqual(first);
  });
});

describe('an award that is removed', () => {
  test('leaves a record like that of a lot that was never awarded', async () => {
    const event = await openEvent();
    await bid(event, 'S1', { A: '1' });
    await save(event, 's', [entry('A', 'S1', '1')]);
    await choose(event, 's');
    await close(event);
    const first = await feed(event);
    await reopen(event);
    await choose(event, null);
    await close(event);
    const { A, B } = await feed(event);
    expect(A).toMatchObject({ id: first['A'].id, awards: [] });
    expect(withoutIdentity(A)).toEqual(withoutIdentity(B));
    expect(Object.keys(A).sort()).toEqual(['awards', 'id', 'lot_name', 'modified', 'sourcing_event']);
    // The lot that was never awarded did not change.
    expect(B).toEqual(first['B']);
    await reopen(event);
    await choose(event, 's');
    await close(event);
    const again = await feed(event);
    expect({ ...again['A'], modified: first['A'].modified }).toEqual(first['A']);
  });

  test('because another scenario leaves out the lot leaves the same record', async () => {
    const event = await openEvent();
    await bid(event, 'S1', { A: '1', B: '1' });
    await save(event, 'x', [entry('A', 'S1', '1')]);
    await save(event, 'y', [entry('B', 'S1', '1')]);
    await choose(event, 'x');
    await close(event);
    const never = withoutIdentity((await feed(event))['B']);
    await reopen(event);
    await choose(event, 'y');
    await close(event);
    const { A, B } = await feed(event);
    expect(withoutIdentity(A)).toEqual(never);
    expect(B).toMatchObject({ scenario_name: 'y', awards: [{ share_awarded: '1' }] });
  });
});

test('costs at the limit of the formula can be added up, and the event closes', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `Lot ${index}`);
  const lots = names.map((name) => ({ name, values: [{ column: 'Volume', value: '9' }] }));
  const event = await openEvent({
    primary_cost_calculation: 'Price * Price * Price * Price * Price * Volume * 100000',
    bid_sheet: { columns, global_values: [{ column: 'Index', value: '1' }], lots },
  });
  // 10^95 * 9 * 100000 is just below the formula's limit. The sum of twelve is beyond it.
  await bid(event, 'S1', Object.fromEntries(names.map((name) => [name, `1${'0'.repeat(19)}`])));
  const { bids } = await readEvent(organisation, event);
  expect(bids[0].cost).toHaveLength(101);
  await save(
    event,
    's',
    names.map((name) => entry(name, 'S1', '1')),
  );
  await choose(event, 's');
  await close(event);
  const [record] = (await organisation.call('GET', `/api/feeds/sourcing-events?id=${event}`)).body.data;
  expect(record.rounds).toMatchObject([{ status: 'COMPLETE', awarded_lot_count: 12 }]);
});
