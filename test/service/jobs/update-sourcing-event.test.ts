/** UPDATE_SOURCING_EVENT: what may be changed in a draft and in an open event, and the bids after a change. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import {
  changeSuppliers,
  createEvent,
  createRequest,
  createSuppliers,
  desk,
  endedJob,
  eventPayload,
  readEvent,
  readWholeFeed,
} from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const path = '/api/jobs/update-sourcing-event';

async function updated(organisation: TestOrganisation, id: string, changes: object) {
  const job = await endedJob(organisation, path, { sourcing_event: id, ...changes });
  expect(job).toEqual({ id: job.id, type: 'UPDATE_SOURCING_EVENT', status: 'COMPLETED', created: job.created });
  return readEvent(organisation, id);
}

/** Checks that the update fails and changes nothing; returns the paths of its errors. */
async function refused(organisation: TestOrganisation, id: string, changes: object): Promise<string[]> {
  const before = await readEvent(organisation, id);
  const job = await endedJob(organisation, path, { sourcing_event: id, ...changes });
  expect(job.status).toBe('FAILED');
  expect(await readEvent(organisation, id)).toEqual(before);
  return job.errors.map((error: { path?: string }) => error.path);
}

/** An open event with lots A and B and S1's bids of 20 and 30. S2 is also invited. */
async function openEvent(changes: object = {}) {
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1', 'S2', 'S3']);
  const id = await createEvent(organisation, {
    ...eventPayload({ lots: ['A', 'B'], suppliers: ['S1', 'S2'] }),
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.90' }],
    ...changes,
  });
  await desk(organisation, 'POST', `${id}/publish`);
  const lots = [
    { lot: 'A', values: { Price: '2.00' } },
    { lot: 'B', values: { Price: '3.00' } },
  ];
  await desk(organisation, 'POST', `${id}/bids`, { supplier: 'S1', lots });
  return { organisation, id };
}

const lotOf = (name: string, volume = '10') => ({ name, values: [{ column: 'Volume', value: volume }] });

const bids = (event: { bids: { lot: string; cost: string | null; withdrawn: boolean }[] }) =>
  Object.fromEntries(event.bids.map(({ lot, cost, withdrawn }) => [lot, withdrawn ? 'withdrawn' : cost]));

describe('a draft', () => {
  test('accepts any subset of the members; the others stay', async () => {
    const organisation = await service.organisation();
    await createSuppliers(organisation, ['S1', 'S2', 'S3']);
    const request = await createRequest(organisation);
    const id = await createEvent(organisation, {
      ...eventPayload({ lots: ['A', 'B', 'C'], suppliers: ['S1', 'S2'] }),
      category: 'Old',
      rounds: [{ ends: '2031-01-01' }, {}],
      questions: [{ identifier: '1', question_text: 'First?', input_type: 'TEXT' }],
      settings: { is_test: true },
    });
    const before = await readEvent(organisation, id);
    const renamed = await updated(organisation, id, { name: 'New' });
    expect(renamed).toEqual({ ...before, name: 'New' });
    const event = await updated(organisation, id, {
      event_type: 'ENGLISH',
      primary_currency: 'USD',
      secondary_currencies: [{ code: 'EUR', exchange_rate: '1.1' }],
      tags: [{ name: 'T', value: 'v' }],
      suppliers: [{ external_id: 'S3' }, { external_id: 'S2' }],
      rounds: [{ ends: '2032-01-01' }],
      questions: [],
      sourcing_requests: [request],
      settings: { close_after_last_round: true },
    });
    expect(event).toMatchObject({
      name: 'New',
      category: 'Old',
      type: 'ENGLISH',
      primary_currency: 'USD',
      secondary_currencies: [{ code: 'EUR', exchange_rate: '1.1' }],
      tags: [{ name: 'T', value: 'v' }],
      suppliers: [{ external_id: 'S2' }, { external_id: 'S3' }],
      rounds: [{ number: 1, status: 'PENDING', ends: '2032-01-01T00:00:00.000000Z' }],
      questions: [],
      sourcing_requests: [request],
      settings: { is_test: true, is_template: false, close_after_last_round: true },
      lots: before.lots,
      columns: before.columns,
    });
    expect(event.rounds).toHaveLength(1);
    expect(event.suppliers).toHaveLength(2);
    expect((await updated(organisation, id, { sourcing_requests: [], suppliers: [] })).sourcing_requests).toEqual([]);
  });

  test('keeps the ids of lots that keep their names, in any order', async () => {
    const organisation = await service.organisation();
    const id = await createEvent(organisation, eventPayload({ lots: ['A', 'B', 'C'] }));
    const ids = new Map(
      (await readEvent(organisation, id)).lots.map((lot: { name: string; id: string }) => [lot.name, lot.id]),
    );
    const { lots } = await updated(organisation, id, {
      bid_sheet: { lots: [lotOf('C', '5'), lotOf('D'), lotOf('A')] },
    });
    expect(lots.map((lot: { name: string; values: object }) => [lot.name, lot.values])).toEqual([
      ['C', { Volume: '5' }],
      ['D', { Volume: '10' }],
      ['A', { Volume: '10' }],
    ]);
    expect([lots[0].id, lots[2].id]).toEqual([ids.get('C'), ids.get('A')]);
    expect([...ids.values()]).not.toContain(lots[1].id);
  });

  test('is checked as a new event, with its stored members and the given ones', async () => {
    const organisation = await service.organisation();
    const id = await createEvent(organisation, eventPayload());
    expect(await refused(organisation, id, { bid_sheet: { columns: [] } })).toEqual([
      'primary_cost_calculation',
      'bid_sheet.column_roles.volume',
      'bid_sheet.lots[0].values[0]',
    ]);
    expect(await refused(organisation, id, { primary_cost_calculation: '[Weight]' })).toEqual([
      'primary_cost_calculation',
    ]);
    expect(await refused(organisation, id, { secondary_currencies: [{ code: 'EUR', exchange_rate: '1' }] })).toEqual([
      'secondary_currencies[0].code',
    ]);
    expect(
      await refused(organisation, id, { suppliers: [{ external_id: 'NO' }], sourcing_requests: [randomUUID()] }),
    ).toEqual(['suppliers[0].external_id', 'sourcing_requests[0]']);
  });

  test('that invites a supplier which is archived now can still be changed, and may name it again', async () => {
    const organisation = await service.organisation();
    await createSuppliers(organisation, ['S1', 'S2']);
    const id = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
    await changeSuppliers(organisation, { external_id: 'S1', archived: true }, { external_id: 'S2', archived: true });
    await updated(organisation, id, { name: 'New' });
    await updated(organisation, id, { suppliers: [{ external_id: 'S1' }] });
    expect(await refused(organisation, id, { suppliers: [{ external_id: 'S1' }, { external_id: 'S2' }] })).toEqual([
      'suppliers[1].external_id',
    ]);
  });
});

describe('a draft that was published before', () => {
  async function draftWithBids() {
    const { organisation, id } = await openEvent();
    await desk(organisation, 'POST', `${id}/unpublish`);
    return { organisation, id };
  }

  test('has its bids recomputed, and shows them when it is published again', async () => {
    const { organisation, id } = await draftWithBids();
    const event = await updated(organisation, id, {
      primary_cost_calculation: '[Volume] * [Price] + 1',
      bid_sheet: { lots: [lotOf('B', '100'), lotOf('A')] },
    });
    expect(bids(event)).toEqual({ A: '21', B: '301' });
    expect(await readWholeFeed(organisation, 'latest-bids')).toEqual([]);
    await desk(organisation, 'POST', `${id}/publish`);
    const records = await readWholeFeed(organisation, 'latest-bids');
    expect(Object.fromEntries(records.map((record) => [record.lot_name, record.bids]))).toEqual({
      A: [{ value: '21' }],
      B: [{ value: '301' }],
    });
  });

  test('keeps a bid that lost its cost as a draft, and its record shows it as withdrawn', async () => {
    const { organisation, id } = await draftWithBids();
    await desk(organisation, 'POST', `${id}/publish`);
    await desk(organisation, 'PUT', `${id}/scenarios/best`, {
      awards: ['A', 'B'].map((lot) => ({ lot, supplier: 'S1', share_awarded: '1' })),
    });
    await desk(organisation, 'POST', `${id}/unpublish`);
    const { columns } = eventPayload().bid_sheet;
    const weight = { name: 'Weight', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'NUMBER' };
    // Lot B has no volume any more, so its cost cannot be computed.
    const event = await updated(organisation, id, {
      primary_cost_calculation: 'IF(Volume > 50, Price * Weight, Price * 2)',
      bid_sheet: { columns: [...columns, weight], lots: [lotOf('A', '10'), lotOf('B', '60')] },
    });
    expect(bids(event)).toEqual({ A: '4', B: 'withdrawn' });
    expect(event.bids).toContainEqual(
      expect.objectContaining({ lot: 'B', values: null, cost: null, draft: { Price: '3.00' } }),
    );
    expect(event.scenarios).toEqual([
      { name: 'best', awarded: false, awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }] },
    ]);
    await desk(organisation, 'POST', `${id}/publish`);
    const records = await readWholeFeed(organisation, 'latest-bids');
    expect(Object.fromEntries(records.map((record) => [record.lot_name, record.bids]))).toEqual({
      A: [{ value: '4' }],
      B: [],
    });
    await desk(organisation, 'POST', `${id}/bids`, { supplier: 'S1', lots: [{ lot: 'B', values: { Weight: '5' } }] });
    expect(bids(await readEvent(organisation, id))).toEqual({ A: '4', B: '15' });
  });

  test('drops the values of columns that were removed or have another type now', async () => {
    const { organisation, id } = await draftWithBids();
    const [volume] = eventPayload().bid_sheet.columns;
    const price = { name: 'Price', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'CURRENCY' };
    const event = await updated(organisation, id, {
      primary_cost_calculation: '[Volume] * 2',
      bid_sheet: { columns: [volume, price] },
    });
    expect(event.bids.map((bid: { values: object; cost: string }) => [bid.values, bid.cost])).toEqual([
      [{}, '20'],
      [{}, '20'],
    ]);
  });

  test('cannot lose a lot or a supplier with bids, nor change the event type or the currency of bids', async () => {
    const { organisation, id } = await draftWithBids();
    expect(
      await refused(organisation, id, {
        event_type: 'DUTCH',
        primary_currency: 'CHF',
        bid_sheet: { lots: [lotOf('A'), lotOf('C')] },
        suppliers: [{ external_id: 'S2' }],
      }),
    ).toEqual(['event_type', 'primary_currency', 'bid_sheet.lots', 'suppliers']);
    const event = await updated(organisation, id, {
      bid_sheet: { lots: [lotOf('B'), lotOf('A'), lotOf('C')] },
      suppliers: [{ external_id: 'S1' }, { external_id: 'S3' }],
    });
    expect(event.suppliers.map((supplier: { external_id: string }) => supplier.external_id)).toEqual(['S1', 'S3']);
  });

  test('cannot lose a question with answers', async () => {
    const question = randomUUID();
    const { organisation, id } = await openEvent({
      questions: [{ uuid: question, identifier: '1', question_text: 'Which?', input_type: 'TEXT' }],
    });
    await desk(organisation, 'POST', `${id}/answers`, {
      supplier: 'S2',
      answers: [{ question_uuid: question, value: 'This' }],
    });
    await desk(organisation, 'POST', `${id}/unpublish`);
    const job = await endedJob(organisation, path, { sourcing_event: id, questions: [] });
    expect(job).toMatchObject({ status: 'FAILED', errors: [{ message: expect.stringContaining(question) }] });
    expect(await refused(organisation, id, { suppliers: [{ external_id: 'S1' }] })).toEqual(['suppliers']);
  });
});

describe.each(['OPEN', 'PAUSED'])('an event that is %s', (status) => {
  async function event() {
    const made = await openEvent();
    if (status === 'PAUSED') await desk(made.organisation, 'POST', `${made.id}/pause`);
    return made;
  }

  test('accepts changes that no bid depends on', async () => {
    const { organisation, id } = await event();
    const request = await createRequest(organisation);
    const before = await readEvent(organisation, id);
    const after = await updated(organisation, id, {
      name: 'New',
      description: 'Text',
      reference_id: 'R',
      tags: [{ name: 'T', value: 'v' }],
      category: 'C',
      event_contact: { name: 'Ann' },
      sourcing_requests: [request],
      suppliers: [{ external_id: 'S3' }, { external_id: 'S1' }, { external_id: 'S2' }],
      secondary_currencies: [
        { code: 'CHF', exchange_rate: '1.01' },
        { code: 'USD', exchange_rate: '0.9' },
      ],
      settings: { is_test: true, close_after_last_round: true },
      bid_sheet: { lots: [lotOf('C'), lotOf('B'), { ...lotOf('A'), sourcing_request: request }] },
      // Given, but unchanged.
      primary_currency: 'EUR',
      event_type: 'RFQ',
      primary_cost_calculation: '[Volume] * [Price]',
    });
    expect(after).toMatchObject({
      name: 'New',
      description: 'Text',
      reference_id: 'R',
      category: 'C',
      event_contact: { name: 'Ann' },
      sourcing_requests: [request],
      status,
      suppliers: [
        { external_id: 'S1', invite_count: 1 },
        { external_id: 'S2', invite_count: 1 },
        { external_id: 'S3', invite_count: 1 },
      ],
      lots: [{ name: 'C' }, { name: 'B' }, { name: 'A', sourcing_request: request }],
      settings: { is_test: true, close_after_last_round: true },
    });
    const byLot = (a: { lot: string }, b: { lot: string }) => a.lot.localeCompare(b.lot);
    expect(after.bids.sort(byLot)).toEqual(before.bids.sort(byLot));
    expect(after.rounds).toEqual(before.rounds);
    if (status === 'PAUSED') await desk(organisation, 'POST', `${id}/resume`);
    await desk(organisation, 'POST', `${id}/bids`, {
      supplier: 'S3',
      lots: [{ lot: 'C', values: { Price: { value: '1.00', currency: 'CHF' } } }],
    });
    const records = await readWholeFeed(organisation, 'latest-bids');
    expect(Object.fromEntries(records.map((record) => [record.lot_name, record.bids[0].value]))).toEqual({
      A: '20',
      B: '30',
      C: '10.1',
    });
  });

  test('refuses changes that could invalidate bids with their paths, and says what is possible', async () => {
    const { organisation, id } = await event();
    const { columns } = eventPayload().bid_sheet;
    const refusals: [object, string][] = [
      [{ event_type: 'ENGLISH' }, 'event_type'],
      [{ primary_currency: 'CHF' }, 'primary_currency'],
      [{ primary_cost_calculation: '[Price]' }, 'primary_cost_calculation'],
      [{ secondary_currencies: [] }, 'secondary_currencies'],
      [{ secondary_currencies: [{ code: 'USD', exchange_rate: '0.91' }] }, 'secondary_currencies[0].exchange_rate'],
      [{ rounds: [{ ends: '2040-01-01' }] }, 'rounds'],
      [{ questions: [{ identifier: '1', question_text: 'Which?', input_type: 'TEXT' }] }, 'questions'],
      [{ settings: { is_template: true } }, 'settings.is_template'],
      [{ suppliers: [{ external_id: 'S1' }] }, 'suppliers'],
      [{ bid_sheet: { lots: [lotOf('A')] } }, 'bid_sheet.lots'],
      [{ bid_sheet: { lots: [lotOf('A'), lotOf('B', '11')] } }, 'bid_sheet.lots[1].values'],
      [{ bid_sheet: { column_roles: {} } }, 'bid_sheet.column_roles'],
      [
        { bid_sheet: { columns: [...columns, { name: 'X', column_type: 'FORMULA', formula: 'Price' }] } },
        'bid_sheet.columns',
      ],
    ];
    for (const [changes, expected] of refusals)
      expect(await refused(organisation, id, { name: 'New', ...changes })).toEqual([expected]);
    const job = await endedJob(organisation, path, { sourcing_event: id, event_type: 'ENGLISH' });
    expect(job.errors[0].message).toContain(status);
    expect(job.errors[0].message).toContain('name, description');
  });
});

test('rounds that are given unchanged stay as they are: active, over, awarded or reopened', async () => {
  const rounds = [
    { starts: '2020-01-01', ends: '2041-01-01' },
    { starts: '2041-01-01', ends: '2042-01-01' },
  ];
  const { organisation, id } = await openEvent({ rounds });
  const { rounds: active } = await readEvent(organisation, id);
  expect(active).toMatchObject([{ status: 'ACTIVE' }, { status: 'PENDING' }]);
  expect((await updated(organisation, id, { name: 'New', rounds })).rounds).toEqual(active);

  await desk(organisation, 'POST', `${id}/rounds/1/close`);
  await desk(organisation, 'PUT', `${id}/scenarios/S`, { awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }] });
  await desk(organisation, 'POST', `${id}/award`, { scenario: 'S' });
  await desk(organisation, 'POST', `${id}/close`);
  await desk(organisation, 'POST', `${id}/reopen`);
  const { rounds: reopened } = await readEvent(organisation, id);
  expect(reopened).toMatchObject([{ status: 'CLOSED' }, { status: 'ACTIVE', reopened: true }]);
  const same = reopened.map(({ starts, ends }: { starts: string; ends: string | null }) => ({
    starts,
    ...(ends && { ends }),
  }));
  expect((await updated(organisation, id, { rounds: same })).rounds).toEqual(reopened);

  await desk(organisation, 'POST', `${id}/unpublish`);
  const { rounds: waiting } = await readEvent(organisation, id);
  expect(waiting).toMatchObject([{ status: 'CLOSED' }, { status: 'PENDING', reopened: true }]);
  expect((await updated(organisation, id, { rounds: same })).rounds).toEqual(waiting);
});

test('a command that waited for an update sees all of it: awards name the request that the update added', async () => {
  const { organisation, id } = await openEvent();
  const request = await createRequest(organisation);
  const { database } = service.db;
  let closed: Promise<unknown> | undefined;
  // The statements of an update, whose transaction stays open until the command waits for the event.
  await database.transaction(async (tx) => {
    await tx.query('select from service.sourcing_events where id = $1 for update', [id]);
    await tx.query('update service.sourcing_events set sourcing_requests = array[$2::uuid] where id = $1', [
      id,
      request,
    ]);
    closed = desk(organisation, 'POST', `${id}/close`);
    await eventually('the command waits', async () => {
      const waiting = await database.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
           and query like '%sourcing_events%'`,
      );
      return waiting.length > 0;
    });
  });
  await closed;
  const records = await readWholeFeed(organisation, 'awards');
  expect(records.map((record) => record.sourcing_request)).toEqual([request, request]);
});

test.each(['close', 'delete'])('an event after %s cannot be updated', async (command) => {
  const { organisation, id } = await openEvent();
  if (command === 'delete') await desk(organisation, 'POST', `${id}/pause`);
  await desk(organisation, 'POST', `${id}/${command}`);
  const job = await endedJob(organisation, path, { sourcing_event: id, name: 'New' });
  expect(job).toMatchObject({
    status: 'FAILED',
    errors: [{ path: 'sourcing_event', message: expect.stringContaining(command === 'close' ? 'CLOSED' : 'DELETED') }],
  });
});

test("an event that does not exist, and another organisation's, fail with the same error", async () => {
  const organisation = await service.organisation();
  const theirs = await createEvent(await service.organisation(), { name: 'Theirs' });
  const jobs = [theirs, randomUUID()].map((id) => endedJob(organisation, path, { sourcing_event: id, name: 'Mine' }));
  const [strange, missing] = await Promise.all(jobs);
  expect(strange).toMatchObject({ status: 'FAILED', errors: [{ path: 'sourcing_event' }] });
  expect(strange.errors).toEqual(missing.errors);
});

test('an update changes no feed and notifies only of its job; the next domain event updates the record', async () => {
  const { organisation, id } = await openEvent();
  const hook = await organisation.call('POST', '/api/webhooks', {
    name: 'all',
    url: 'https://localhost:1/x',
    triggers: ['SOURCING_EVENTS_FEED_UPDATED', 'LATEST_BIDS_FEED_UPDATED', 'RFI_RESPONSES_FEED_UPDATED', 'JOB_UPDATED'],
  });
  const read = async () => ({
    events: await readWholeFeed(organisation, 'sourcing-events'),
    bids: await readWholeFeed(organisation, 'latest-bids'),
  });
  const before = await read();
  const request = await createRequest(organisation);
  await updated(organisation, id, { name: 'New', sourcing_requests: [request] });
  expect(await read()).toEqual(before);
  const notifications = await service.db.database.query(
    `select distinct trigger from service.deliveries where webhook_id = $1`,
    [hook.body.uuid],
  );
  expect(notifications).toEqual([{ trigger: 'JOB_UPDATED' }]);
  await desk(organisation, 'POST', `${id}/pause`);
  await desk(organisation, 'POST', `${id}/resume`);
  const after = await read();
  expect(after.events).toMatchObject([{ name: 'New', sourcing_requests: [request] }]);
  expect(after.bids.map((record) => record.sourcing_request)).toEqual([request, request]);
});

test('the next bid updates all records of bids that an update has changed, also those of other suppliers', async () => {
  const { organisation, id } = await openEvent();
  const request = await createRequest(organisation);
  await updated(organisation, id, { sourcing_requests: [request] });
  await desk(organisation, 'POST', `${id}/bids`, {
    supplier: 'S2',
    lots: [{ lot: 'A', values: { Price: '5.00' } }],
  });
  const records = await readWholeFeed(organisation, 'latest-bids');
  expect(records.map((record) => record.sourcing_request)).toEqual([request, request, request]);
});

test('two updates at once run one after the other, and both take effect', async () => {
  const organisation = await service.organisation();
  const id = await createEvent(organisation, eventPayload());
  await Promise.all([updated(organisation, id, { name: 'New' }), updated(organisation, id, { category: 'C' })]);
  expect(await readEvent(organisation, id)).toMatchObject({ name: 'New', category: 'C' });
});

test('five thousand lots are created, and one update reverses and changes them', async () => {
  const organisation = await service.organisation();
  const names = Array.from({ length: 5_000 }, (_, index) => `Lot ${index}`);
  const id = await createEvent(organisation, eventPayload({ lots: names }));
  const lots = names.map((name, index) => lotOf(name, String(index + 1))).reverse();
  const event = await updated(organisation, id, { bid_sheet: { lots } });
  expect(event.lots).toHaveLength(5_000);
  expect(event.lots[0]).toMatchObject({ name: 'Lot 4999', values: { Volume: '5000' } });
});
