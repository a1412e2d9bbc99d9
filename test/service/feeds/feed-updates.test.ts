/** The contract's table "Feed update conditions", for what exists: which feed is updated when, and with which records. */
import { expect, test } from 'vitest';
import { eventually, startTestService, type TestOrganisation } from '../../harness/programs.ts';
import { createEvent, createSuppliers, desk, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';

const service = await startTestService();
const triggers = ['SOURCING_EVENTS_FEED_UPDATED', 'LATEST_BIDS_FEED_UPDATED', 'AWARDS_FEED_UPDATED'];
const feeds = ['sourcing-events', 'latest-bids', 'awards'];

/** An organisation with a webhook that nobody answers: what it was told stands in the outbox. */
async function observed() {
  const organisation = await service.organisation();
  await organisation.call('POST', '/api/webhooks', { name: 'all', url: 'https://localhost:1/', triggers });
  await createSuppliers(organisation, ['S1', 'S2']);
  const last = new Map<string, string>();
  /** The triggers that fired, and the records that were appended, since the last look. */
  const look = async () => {
    const fired = await service.db.database.query<{ trigger: string; payload: Record<string, string> }>(
      `delete from service.deliveries where organisation_id = $1 returning trigger, payload`,
      [organisation.id],
    );
    const appended: Record<string, object[]> = {};
    for (const feed of feeds) {
      const records = (await readWholeFeed(organisation, feed)) as { modified: string }[];
      const fresh = records.filter((record) => record.modified > (last.get(feed) ?? ''));
      last.set(feed, records.at(-1)?.modified ?? '');
      if (fresh.length > 0) appended[feed] = fresh;
    }
    return { fired: fired.map((one) => one.trigger).sort(), payloads: fired.map((one) => one.payload), appended };
  };
  return { organisation, look };
}

async function openEvent(organisation: TestOrganisation, lots = ['A', 'B']): Promise<string> {
  const event = await createEvent(organisation, eventPayload({ lots, suppliers: ['S1', 'S2'] }));
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

const bid = (organisation: TestOrganisation, event: string, supplier: string, prices: Record<string, string>) =>
  desk(organisation, 'POST', `${event}/bids`, {
    supplier,
    lots: Object.entries(prices).map(([lot, price]) => ({ lot, values: { Price: price } })),
  });

test('created in draft: the events feed', async () => {
  const { organisation, look } = await observed();
  const event = await createEvent(organisation, eventPayload());
  const { fired, appended, payloads } = await look();
  expect(fired).toEqual(['SOURCING_EVENTS_FEED_UPDATED']);
  expect(appended).toEqual({ 'sourcing-events': [expect.objectContaining({ id: event, status: 'DRAFT' })] });
  const [record] = appended['sourcing-events'] as [{ modified: string }];
  expect(payloads).toEqual([
    { sourcing_event: event, sourcing_event_name: 'Office chairs', feed_modified: record.modified },
  ]);
});

test('published: the events feed, and the bids feed although it has no record', async () => {
  const { organisation, look } = await observed();
  const event = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
  await look();
  await desk(organisation, 'POST', `${event}/publish`);
  const { fired, appended } = await look();
  expect(fired).toEqual(['LATEST_BIDS_FEED_UPDATED', 'SOURCING_EVENTS_FEED_UPDATED']);
  expect(appended).toEqual({
    'sourcing-events': [
      expect.objectContaining({
        status: 'OPEN',
        published: expect.any(String),
        rounds: [expect.objectContaining({ status: 'ACTIVE' })],
      }),
    ],
  });
});

test('a bid: the bids feed, with the records that it changed and no others', async () => {
  const { organisation, look } = await observed();
  const event = await openEvent(organisation);
  await look();
  await bid(organisation, event, 'S1', { A: '1', B: '2' });
  const first = await look();
  expect(first.fired).toEqual(['LATEST_BIDS_FEED_UPDATED']);
  expect(first.appended['latest-bids']).toMatchObject([
    { lot_name: 'A', bids: [{ value: '10' }] },
    { lot_name: 'B', bids: [{ value: '20' }] },
  ]);
  await bid(organisation, event, 'S1', { A: '1', B: '3' });
  const second = await look();
  expect(second.appended).toEqual({
    'latest-bids': [expect.objectContaining({ lot_name: 'B', bids: [{ value: '30' }] })],
  });
  const idOf = (records: object[] | undefined, lot: string) =>
    records?.find((one) => (one as { lot_name: string }).lot_name === lot);
  expect(idOf(second.appended['latest-bids'], 'B')).toMatchObject({
    id: (idOf(first.appended['latest-bids'], 'B') as { id: string }).id,
  });
  await bid(organisation, event, 'S1', { A: '1', B: '3' });
  const third = await look();
  expect([third.fired, third.appended]).toEqual([['LATEST_BIDS_FEED_UPDATED'], {}]);
});

test('an incomplete bid has no record', async () => {
  const { organisation, look } = await observed();
  const event = await openEvent(organisation);
  await look();
  const answer = await desk(organisation, 'POST', `${event}/bids`, {
    supplier: 'S1',
    lots: [{ lot: 'A', values: {} }],
  });
  expect(answer).toMatchObject({ complete: 0, incomplete: [{ lot: 'A', reason: expect.stringContaining('Price') }] });
  expect((await look()).appended).toEqual({});
});

test('scenario and award: no feed; closed: all three, with an award record for every lot', async () => {
  const { organisation, look } = await observed();
  const event = await openEvent(organisation);
  await bid(organisation, event, 'S1', { A: '1' });
  await look();
  const awards = [{ lot: 'A', supplier: 'S1', share_awarded: '1' }];
  await desk(organisation, 'PUT', `${event}/scenarios/best`, { awards });
  await desk(organisation, 'POST', `${event}/award`, { scenario: 'best' });
  expect(await look()).toMatchObject({ fired: [], appended: {} });
  await desk(organisation, 'POST', `${event}/close`);
  const { fired, appended } = await look();
  expect(fired).toEqual([...triggers].sort());
  expect(appended['latest-bids']).toBeUndefined();
  expect(appended['sourcing-events']).toMatchObject([
    { status: 'CLOSED', rounds: [{ status: 'COMPLETE', awarded_cost: '10', awarded_lot_count: 1 }] },
  ]);
  expect(appended['awards']).toMatchObject([
    { lot_name: 'A', scenario_name: 'best', awards: [{ share_awarded: '1', cost: '10' }] },
    { lot_name: 'B', scenario_name: 'best', awards: [] },
  ]);
});

test('closed without a scenario: the round is closed and not complete, and no lot is awarded', async () => {
  const { organisation, look } = await observed();
  const event = await openEvent(organisation);
  await look();
  await desk(organisation, 'POST', `${event}/close`);
  const { appended } = await look();
  expect(appended['sourcing-events']).toMatchObject([{ rounds: [{ status: 'CLOSED' }] }]);
  expect(appended['awards']).toMatchObject([{ awards: [] }, { awards: [] }]);
  for (const record of appended['awards'] ?? []) expect(record).not.toHaveProperty('scenario_name');
});

test('a refused command fires nothing and appends nothing', async () => {
  const { organisation, look } = await observed();
  const event = await openEvent(organisation);
  await look();
  const body = {
    supplier: 'S1',
    lots: [
      { lot: 'A', values: { Price: '1' } },
      { lot: 'Z', values: { Price: '1' } },
    ],
  };
  expect((await organisation.call('POST', `/desk/events/${event}/bids`, body)).status).toBe(400);
  expect((await organisation.call('POST', `/desk/events/${event}/publish`, {})).status).toBe(409);
  expect(await look()).toMatchObject({ fired: [], appended: {} });
});

test("a supplier's value for the whole event reaches every lot that it has bid on", async () => {
  const { organisation, look } = await observed();
  const payload = eventPayload({ lots: ['A', 'B', 'C'], suppliers: ['S1', 'S2'] });
  const freight = {
    name: 'Freight',
    column_type: 'INPUT',
    input_by: 'SUPPLIER_INPUT',
    input_type: 'CURRENCY',
    scope: 'EVENT',
  };
  const event = await createEvent(organisation, {
    ...payload,
    primary_cost_calculation: '100 / Freight + Price',
    bid_sheet: { ...payload.bid_sheet, columns: [...payload.bid_sheet.columns, freight] },
  });
  await desk(organisation, 'POST', `${event}/publish`);
  const submit = (body: object) => desk(organisation, 'POST', `${event}/bids`, { supplier: 'S1', ...body });
  await submit({
    lots: [
      { lot: 'A', values: { Price: '1' } },
      { lot: 'B', values: { Price: '2' } },
    ],
    global: { Freight: '10' },
  });
  await look();
  await submit({ global: { Freight: '20' } });
  const changed = await look();
  expect(changed.appended['latest-bids']).toMatchObject([
    { lot_name: 'A', bids: [{ value: '6' }] },
    { lot_name: 'B', bids: [{ value: '7' }] },
  ]);
  // With a value that the cost cannot be computed from, the bids stand as they were: values and cost together.
  expect(await submit({ global: { Freight: '0' } })).toMatchObject({
    complete: 0,
    incomplete: [{ lot: 'A' }, { lot: 'B' }],
  });
  expect((await look()).appended).toEqual({});
  await desk(organisation, 'POST', `${event}/close`);
  expect((await look()).appended['latest-bids']).toBeUndefined();
  const { body } = await organisation.call('GET', `/desk/events/${event}`);
  expect(body.suppliers[0]).toMatchObject({ external_id: 'S1', participated: true });
  const rows = await eventually('the invitation is there', () =>
    service.db.database.query<{ ok: boolean }>(
      'select last_failed_bid > last_successful_bid as ok from service.invitations where event_id = $1 and participated',
      [event],
    ),
  );
  expect(rows).toEqual([{ ok: true }]);
});
