/**
 * Rounds that begin and end by the clock: on time when no command is called, before a command that is called first,
 * only once with several processes, and after any crash. The sweep does not run unless a test calls it.
 */
import { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '#platform/log.ts';
import { createRoundTimers } from '#service/events/run-timers.ts';
import { createUnitOfWork } from '#service/unit-of-work.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock, type ManualClock, withoutTimers } from '../../harness/manual-clock.ts';
import { request } from '../../harness/request.ts';
import { createEvent, createSuppliers, desk, endedJob, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';
import { watchFeeds } from '../../harness/watch-feeds.ts';

const minute = 60_000;

interface Stage {
  clock: ManualClock;
  service: TestService;
  organisation: TestOrganisation;
  at: (minutes: number) => string;
}

async function startStage(options: { timers: boolean }): Promise<Stage> {
  const clock = createManualClock();
  const start = clock.nowMs();
  const service = await startTestService({ clock: options.timers ? clock : withoutTimers(clock) });
  return inNewOrganisation({ clock, service, at: (minutes) => timestampAt(start + minutes * minute) });
}

async function inNewOrganisation(on: Omit<Stage, 'organisation'>): Promise<Stage> {
  const organisation = await on.service.organisation();
  await createSuppliers(organisation, ['S1']);
  return { ...on, organisation };
}

const timestampAt = (ms: number) => new Date(ms).toISOString().replace('Z', '000Z');

const withTimers = await startStage({ timers: true });
const withoutRoundTimers = await startStage({ timers: false });

/** An event with these rounds and one lot. */
async function newEvent({ organisation }: Stage, rounds: object[], settings: object = {}): Promise<string> {
  return createEvent(organisation, { ...eventPayload({ suppliers: ['S1'] }), rounds, settings });
}

async function openEvent(on: Stage, rounds: object[], settings: object = {}): Promise<string> {
  const event = await newEvent(on, rounds, settings);
  await desk(on.organisation, 'POST', `${event}/publish`);
  return event;
}

const live = ({ organisation }: Stage, event: string) => readEvent(organisation, event);
const record = async ({ organisation }: Stage, event: string) =>
  (await organisation.call('GET', `/api/feeds/sourcing-events?id=${event}`)).body.data[0];
const bid = ({ organisation }: Stage, event: string, price = '1') =>
  organisation.call('POST', `/desk/events/${event}/bids`, {
    supplier: 'S1',
    lots: [{ lot: 'A', values: { Price: price } }],
  });
const stored = ({ service }: Stage, event: string) =>
  service.db.database.query<{ number: number; status: string }>(
    'select number, status from service.rounds where event_id = $1 order by number',
    [event],
  );
const storedStatus = async (on: Stage, event: string) => (await stored(on, event)).map(({ status }) => status);
/** Waits until the rounds in the database have these statuses. */
const waitForRounds = (on: Stage, event: string, statuses: string[]) =>
  eventually(
    `the rounds are ${statuses.join()}`,
    async () => (await storedStatus(on, event)).join() === statuses.join(),
  );

describe('when no command is called', () => {
  test('a round begins and closes on time, not at the next sweep', async () => {
    const event = await openEvent(withTimers, [{ starts: withTimers.at(10), ends: withTimers.at(20) }]);
    expect(await storedStatus(withTimers, event)).toEqual(['PENDING']);
    expect((await bid(withTimers, event)).status).toBe(409);
    withTimers.clock.advance(10 * minute);
    await waitForRounds(withTimers, event, ['ACTIVE']);
    // The begin of a round updates no feed.
    expect((await record(withTimers, event)).rounds).toMatchObject([{ status: 'PENDING' }]);
    expect((await bid(withTimers, event)).status).toBe(200);
    withTimers.clock.advance(10 * minute - 1);
    expect((await bid(withTimers, event, '2')).status).toBe(200);
    withTimers.clock.advance(1);
    await waitForRounds(withTimers, event, ['CLOSED']);
    expect((await record(withTimers, event)).rounds).toEqual([
      { starts: withTimers.at(10), ends: withTimers.at(20), status: 'CLOSED' },
    ]);
    // The event stays open until it is closed.
    expect((await live(withTimers, event)).status).toBe('OPEN');
  });

  test('a round with a new end closes at the new end', async () => {
    const start = (withTimers.clock.nowMs() - Date.parse(withTimers.at(0))) / minute;
    const event = await openEvent(withTimers, [{ ends: withTimers.at(start + 10) }]);
    await desk(withTimers.organisation, 'POST', `${event}/rounds/1/extend`, { ends: withTimers.at(start + 30) });
    withTimers.clock.advance(10 * minute);
    expect((await bid(withTimers, event)).status).toBe(200);
    await desk(withTimers.organisation, 'POST', `${event}/rounds/1/extend`, { ends: withTimers.at(start + 11) });
    withTimers.clock.advance(minute);
    await waitForRounds(withTimers, event, ['CLOSED']);
  });

  test('an event that closes after its last round closes on time, and publishes its awards', async () => {
    const start = (withTimers.clock.nowMs() - Date.parse(withTimers.at(0))) / minute;
    const rounds = [{ ends: withTimers.at(start + 5) }, { ends: withTimers.at(start + 9) }];
    const event = await openEvent(withTimers, rounds, { close_after_last_round: true });
    await bid(withTimers, event);
    const awards = [{ lot: 'A', supplier: 'S1', share_awarded: '1' }];
    await desk(withTimers.organisation, 'PUT', `${event}/scenarios/best`, { awards });
    await desk(withTimers.organisation, 'POST', `${event}/award`, { scenario: 'best' });
    withTimers.clock.advance(5 * minute);
    await waitForRounds(withTimers, event, ['CLOSED', 'ACTIVE']);
    expect((await live(withTimers, event)).status).toBe('OPEN');
    withTimers.clock.advance(4 * minute);
    await waitForRounds(withTimers, event, ['CLOSED', 'COMPLETE']);
    expect(await record(withTimers, event)).toMatchObject({
      status: 'CLOSED',
      closed: withTimers.at(start + 9),
      rounds: [
        { starts: withTimers.at(start), ends: withTimers.at(start + 5), status: 'CLOSED' },
        { starts: withTimers.at(start + 5), ends: withTimers.at(start + 9), status: 'COMPLETE', awarded_cost: '10' },
      ],
    });
    const { body } = await withTimers.organisation.call('GET', `/api/feeds/awards?sourcing_event=${event}`);
    expect(body.data).toMatchObject([{ lot_name: 'A', awards: [{ cost: '10' }] }]);
  });
});

describe('when a command is called before any timer has run', () => {
  /** An event with a bid, whose round should end just now. */
  async function overdueEvent() {
    const on = await inNewOrganisation(withoutRoundTimers);
    const look = await watchFeeds(on.service, on.organisation);
    const event = await openEvent(on, [{ ends: timestampAt(on.clock.nowMs() + minute) }]);
    await bid(on, event);
    await look();
    on.clock.advance(minute);
    return { on, look, event };
  }

  test('a bid after the end is refused; the desk shows the round as closed, and soon the feeds do, too', async () => {
    const { on, look, event } = await overdueEvent();
    const refused = await bid(on, event, '2');
    expect([refused.status, refused.body.detail]).toEqual([
      409,
      '"bid" is not possible: it needs a round that is ACTIVE, and this event has none.',
    ]);
    // The refusal has rolled back the closing of the round ...
    expect(await storedStatus(on, event)).toEqual(['ACTIVE']);
    expect(await look()).toMatchObject({ fired: [], appended: {} });
    const shown = await live(on, event);
    expect(shown.rounds).toMatchObject([{ status: 'CLOSED' }]);
    expect(shown.allowed).not.toContain('bid');
    expect(shown.allowed).toEqual(expect.arrayContaining(['edit-bids', 'reopen-round']));
    // ... and the next sweep does it.
    await on.service.service.sweep();
    await waitForRounds(on, event, ['CLOSED']);
    const seen = await look();
    expect([...seen.fired].sort()).toEqual(['latest-bids', 'rfi-responses', 'sourcing-events']);
    expect(seen.appended).toEqual({
      'sourcing-events': [
        expect.objectContaining({ id: event, rounds: [expect.objectContaining({ status: 'CLOSED' })] }),
      ],
    });
  });

  test('an allowed command announces the round that closed by the clock, and then its own change', async () => {
    const { on, look, event } = await overdueEvent();
    const answer = await on.organisation.call('PATCH', `/desk/events/${event}/bids`, {
      supplier: 'S1',
      lots: [{ lot: 'A', values: { Price: '3' } }],
    });
    expect(answer.status).toBe(200);
    expect(await storedStatus(on, event)).toEqual(['CLOSED']);
    const seen = await look();
    expect([...seen.fired].sort()).toEqual(['latest-bids', 'rfi-responses', 'sourcing-events']);
    expect(seen.appended).toMatchObject({
      'sourcing-events': [{ rounds: [{ status: 'CLOSED' }] }],
      'latest-bids': [{ bids: [{ value: '30' }] }],
    });
  });

  test('a round that should have begun accepts bids', async () => {
    const event = await openEvent(withoutRoundTimers, [
      {
        starts: timestampAt(withoutRoundTimers.clock.nowMs() + minute),
        ends: timestampAt(withoutRoundTimers.clock.nowMs() + 9 * minute),
      },
    ]);
    expect((await bid(withoutRoundTimers, event)).status).toBe(409);
    withoutRoundTimers.clock.advance(minute);
    expect((await live(withoutRoundTimers, event)).allowed).toContain('bid');
    expect((await bid(withoutRoundTimers, event)).status).toBe(200);
  });

  test('an event that should have closed is CLOSED for reads and commands', async () => {
    const ends = timestampAt(withoutRoundTimers.clock.nowMs() + minute);
    const event = await openEvent(withoutRoundTimers, [{ ends }], { close_after_last_round: true });
    await bid(withoutRoundTimers, event);
    withoutRoundTimers.clock.advance(2 * minute);
    expect(await live(withoutRoundTimers, event)).toMatchObject({
      status: 'CLOSED',
      closed: ends,
      rounds: [{ status: 'CLOSED', ends }],
    });
    for (const path of ['close', 'pause', 'unpublish'])
      expect(
        (await withoutRoundTimers.organisation.call('POST', `/desk/events/${event}/${path}`, {})).body.detail,
      ).toContain('CLOSED');
    await desk(withoutRoundTimers.organisation, 'POST', `${event}/reopen`);
    const { body } = await withoutRoundTimers.organisation.call('GET', `/api/feeds/awards?sourcing_event=${event}`);
    expect(body.data).toMatchObject([{ lot_name: 'A', awards: [] }]);
    expect(await live(withoutRoundTimers, event)).toMatchObject({
      status: 'OPEN',
      rounds: [{ status: 'ACTIVE', ends: null }],
    });
  });
});

test('an event whose last round closed before close_after_last_round was set stays open', async () => {
  const event = await openEvent(withoutRoundTimers, [{ ends: timestampAt(withoutRoundTimers.clock.nowMs() + minute) }]);
  await desk(withoutRoundTimers.organisation, 'POST', `${event}/rounds/1/close`);
  const update = { sourcing_event: event, settings: { close_after_last_round: true } };
  expect(await endedJob(withoutRoundTimers.organisation, '/api/jobs/update-sourcing-event', update)).toMatchObject({
    status: 'COMPLETED',
  });
  await desk(withoutRoundTimers.organisation, 'POST', `${event}/invitations`, { suppliers: ['S1'] });
  expect((await live(withoutRoundTimers, event)).status).toBe('OPEN');
  await desk(withoutRoundTimers.organisation, 'POST', `${event}/rounds/1/reopen`);
  await desk(withoutRoundTimers.organisation, 'POST', `${event}/rounds/1/close`);
  expect((await live(withoutRoundTimers, event)).status).toBe('CLOSED');
});

describe('a paused event', () => {
  test('does not run its rounds; resuming it runs those that are due, in one announcement', async () => {
    const on = await inNewOrganisation(withoutRoundTimers);
    const look = await watchFeeds(on.service, on.organisation);
    const [first, second] = [minute, 5 * minute].map((ms) => timestampAt(on.clock.nowMs() + ms));
    const event = await openEvent(on, [{ ends: first }, { starts: second, ends: '2040-01-01T00:00:00Z' }]);
    await desk(on.organisation, 'POST', `${event}/pause`);
    on.clock.advance(2 * minute);
    await on.service.service.sweep();
    expect((await live(on, event)).rounds).toMatchObject([{ status: 'ACTIVE' }, { status: 'PENDING' }]);
    await look();
    await desk(on.organisation, 'POST', `${event}/resume`);
    expect((await live(on, event)).rounds).toMatchObject([{ status: 'CLOSED', ends: first }, { status: 'PENDING' }]);
    const { fired, payloads, appended } = await look();
    expect([fired.length, payloads.length]).toEqual([3, 3]);
    expect(appended).toMatchObject({
      'sourcing-events': [{ status: 'OPEN', rounds: [{ status: 'CLOSED' }, { status: 'PENDING' }] }],
    });
  });

  test('that closes after its last round closes when it is resumed, if that round has ended', async () => {
    const on = await inNewOrganisation(withoutRoundTimers);
    const look = await watchFeeds(on.service, on.organisation);
    const ends = timestampAt(on.clock.nowMs() + minute);
    const event = await openEvent(on, [{ ends }], { close_after_last_round: true });
    await desk(on.organisation, 'POST', `${event}/pause`);
    on.clock.advance(2 * minute);
    await look();
    const answer = await desk(on.organisation, 'POST', `${event}/resume`);
    expect(answer).toEqual({ id: event, status: 'CLOSED' });
    const resumed = timestampAt(on.clock.nowMs());
    expect(await live(on, event)).toMatchObject({ status: 'CLOSED', closed: resumed, rounds: [{ ends }] });
    expect((await look()).fired).toHaveLength(4);
  });
});

describe('a draft', () => {
  test('does not run its rounds; publishing it after the end of all its rounds is refused', async () => {
    const event = await newEvent(withoutRoundTimers, [
      { ends: timestampAt(withoutRoundTimers.clock.nowMs() + minute) },
    ]);
    withoutRoundTimers.clock.advance(2 * minute);
    await withoutRoundTimers.service.service.sweep();
    expect((await live(withoutRoundTimers, event)).rounds).toMatchObject([{ status: 'PENDING' }]);
    const refused = await withoutRoundTimers.organisation.call('POST', `/desk/events/${event}/publish`, {});
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('Extend')]);
    const ends = timestampAt(withoutRoundTimers.clock.nowMs() + minute);
    await desk(withoutRoundTimers.organisation, 'POST', `${event}/rounds/1/extend`, { ends });
    await desk(withoutRoundTimers.organisation, 'POST', `${event}/publish`);
    expect((await live(withoutRoundTimers, event)).rounds).toMatchObject([{ status: 'ACTIVE', ends }]);
  });

  test('published between its rounds shows the first as closed', async () => {
    const [first, second] = [minute, 5 * minute].map((ms) => timestampAt(withoutRoundTimers.clock.nowMs() + ms));
    const event = await newEvent(withoutRoundTimers, [
      { ends: first },
      { starts: second, ends: '2040-01-01T00:00:00Z' },
    ]);
    withoutRoundTimers.clock.advance(2 * minute);
    await desk(withoutRoundTimers.organisation, 'POST', `${event}/publish`);
    expect((await record(withoutRoundTimers, event)).rounds).toMatchObject([
      { status: 'CLOSED', starts: first, ends: first },
      { status: 'PENDING' },
    ]);
  });
});

describe('several processes, and none', () => {
  test('a round that ended while no process ran is closed by the next one, at its end', async () => {
    const db = await createTestDatabase();
    const clock = createManualClock();
    const before = await startTestService({ db, clock });
    const on = await inNewOrganisation({ clock, service: before, at: () => '' });
    const ends = timestampAt(clock.nowMs() + minute);
    const event = await openEvent(on, [{ ends }]);
    await before.service.close(1_000);
    clock.advance(3 * minute);
    const after = await startTestService({ db, clock });
    const [round] = await eventually('the round is closed', async () => {
      const path = `/api/feeds/sourcing-events?id=${event}`;
      const { body } = await request('GET', after.url + path, { key: on.organisation.key });
      return body.data[0].rounds[0].status === 'CLOSED' && body.data[0].rounds;
    });
    expect(round).toMatchObject({ ends });
  });

  test('when the timers of two processes fire at once, one closes the round, and it is announced once', async () => {
    const db = await createTestDatabase();
    const clock = createManualClock();
    const [first, second] = [await startTestService({ db, clock }), await startTestService({ db, clock })];
    const on = await inNewOrganisation({ clock, service: first, at: () => '' });
    const { organisation } = on;
    const events = [];
    const look = await watchFeeds(first, organisation);
    for (let count = 0; count < 10; count += 1)
      events.push(await openEvent(on, [{ ends: timestampAt(clock.nowMs() + minute) }]));
    await look();
    const changes = async () =>
      (
        await db.database.query<{ changes: string }>(
          `select changes from service.feed_heads where organisation_id = $1 and feed = 'sourcing-events'`,
          [organisation.id],
        )
      )[0]?.changes;
    const before = Number(await changes());
    clock.advance(minute);
    // Commands are called at the same moment.
    const answers = await Promise.all(events.map((event) => bid(on, event)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([409]));
    await Promise.all([first.service.sweep(), second.service.sweep()]);
    for (const event of events) await waitForRounds(on, event, ['CLOSED']);
    expect(Number(await changes())).toBe(before + events.length);
  });

  test('a round whose closing is interrupted by a crash is closed by the next sweep', async () => {
    const db = await createTestDatabase();
    const clock = createManualClock();
    const service = await startTestService({ db, clock: withoutTimers(clock) });
    const on = await inNewOrganisation({ clock, service, at: () => '' });
    const event = await openEvent(on, [{ ends: timestampAt(clock.nowMs() + minute) }]);
    // A lock on the feeds stops the closing before it is announced; then its connection is broken.
    const blocker = new Client({ connectionString: db.url });
    await blocker.connect();
    onTestFinished(() => blocker.end());
    await blocker.query('begin');
    await blocker.query('select from service.feed_heads for update');
    clock.advance(minute);
    await service.service.sweep();
    const victim = await eventually('the closing waits', async () => {
      const [row] = await db.database.query<{ pid: number }>(
        `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return row?.pid;
    });
    await blocker.query('select pg_terminate_backend($1)', [victim]);
    // Before the lock is gone nothing can close the round.
    expect((await storedStatus(on, event))[0]).toBe('ACTIVE');
    expect((await record(on, event)).rounds).toMatchObject([{ status: 'ACTIVE' }]);
    await blocker.query('rollback');
    await eventually('a sweep closes it', async () => {
      await service.service.sweep();
      return (await storedStatus(on, event))[0] === 'CLOSED';
    });
    expect((await record(on, event)).rounds).toMatchObject([{ status: 'CLOSED' }]);
  });
});

test('a wait of years is split into waits that a timer can make', async () => {
  // A database of its own, so that no other event's round is due first.
  const alone = await startStage({ timers: false });
  const event = await openEvent(alone, [{ ends: '2039-01-01T00:00:00Z' }]);
  const waits: number[] = [];
  const { database } = alone.service.db;
  const signals = { signal: async () => undefined, wakeHere: () => undefined };
  const timers = createRoundTimers({
    database,
    signals,
    runUnitOfWork: createUnitOfWork({ database, signals }),
    log: silentLogger,
    clock: {
      nowMs: () => alone.clock.nowMs(),
      sleep: (ms, signal) => {
        waits.push(ms);
        return withoutTimers(alone.clock).sleep(ms, signal);
      },
    },
  });
  await eventually('it waits', async () => waits.length > 0);
  await timers.close();
  expect(await storedStatus(alone, event)).toEqual(['ACTIVE']);
  expect(Math.max(...waits)).toBeLessThanOrEqual(3_600_000);
  expect(Math.min(...waits)).toBeGreaterThan(0);
});
