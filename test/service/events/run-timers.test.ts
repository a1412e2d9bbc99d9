/**
 * Rounds that begin and end by time: on time when nobody calls, in time when somebody calls first, once with several
 * processes, and after any crash. The sweep is far away, unless a test asks for it.
 */
import { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '#platform/log.ts';
import { createRoundTimers } from '#service/events/run-timers.ts';
import { createUnitOfWork } from '#service/unit-of-work.ts';
import { createManualClock, type ManualClock, withoutTimers } from '../../harness/manual-clock.ts';
import {
  eventually,
  request,
  startTestService,
  type TestOrganisation,
  type TestService,
} from '../../harness/programs.ts';
import { createEvent, createSuppliers, desk, endedJob, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { watchFeeds } from '../../harness/watch-feeds.ts';

const minute = 60_000;

interface Stage {
  clock: ManualClock;
  service: TestService;
  organisation: TestOrganisation;
  at: (minutes: number) => string;
}

async function stage(options: { timers: boolean }): Promise<Stage> {
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

const prompt = await stage({ timers: true });
const late = await stage({ timers: false });

/** An event with these rounds, and with one lot. */
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
/** Waits until the event's rounds stand so in the database. */
const stands = (on: Stage, event: string, statuses: string[]) =>
  eventually(
    `the rounds are ${statuses.join()}`,
    async () => (await storedStatus(on, event)).join() === statuses.join(),
  );

describe('when nobody calls', () => {
  test('a round begins and closes on time, not at the next sweep', async () => {
    const event = await openEvent(prompt, [{ starts: prompt.at(10), ends: prompt.at(20) }]);
    expect(await storedStatus(prompt, event)).toEqual(['PENDING']);
    expect((await bid(prompt, event)).status).toBe(409);
    prompt.clock.advance(10 * minute);
    await stands(prompt, event, ['ACTIVE']);
    // Beginning touches no feed.
    expect((await record(prompt, event)).rounds).toMatchObject([{ status: 'PENDING' }]);
    expect((await bid(prompt, event)).status).toBe(200);
    prompt.clock.advance(10 * minute - 1);
    expect((await bid(prompt, event, '2')).status).toBe(200);
    prompt.clock.advance(1);
    await stands(prompt, event, ['CLOSED']);
    expect((await record(prompt, event)).rounds).toEqual([
      { starts: prompt.at(10), ends: prompt.at(20), status: 'CLOSED' },
    ]);
    // The event stays open until it is closed.
    expect((await live(prompt, event)).status).toBe('OPEN');
  });

  test('a round with a new end closes at that one', async () => {
    const start = (prompt.clock.nowMs() - Date.parse(prompt.at(0))) / minute;
    const event = await openEvent(prompt, [{ ends: prompt.at(start + 10) }]);
    await desk(prompt.organisation, 'POST', `${event}/rounds/1/extend`, { ends: prompt.at(start + 30) });
    prompt.clock.advance(10 * minute);
    expect((await bid(prompt, event)).status).toBe(200);
    await desk(prompt.organisation, 'POST', `${event}/rounds/1/extend`, { ends: prompt.at(start + 11) });
    prompt.clock.advance(minute);
    await stands(prompt, event, ['CLOSED']);
  });

  test('an event closes by itself after its last round, where its settings say so, and publishes its awards', async () => {
    const start = (prompt.clock.nowMs() - Date.parse(prompt.at(0))) / minute;
    const rounds = [{ ends: prompt.at(start + 5) }, { ends: prompt.at(start + 9) }];
    const event = await openEvent(prompt, rounds, { close_after_last_round: true });
    await bid(prompt, event);
    const awards = [{ lot: 'A', supplier: 'S1', share_awarded: '1' }];
    await desk(prompt.organisation, 'PUT', `${event}/scenarios/best`, { awards });
    await desk(prompt.organisation, 'POST', `${event}/award`, { scenario: 'best' });
    prompt.clock.advance(5 * minute);
    await stands(prompt, event, ['CLOSED', 'ACTIVE']);
    expect((await live(prompt, event)).status).toBe('OPEN');
    prompt.clock.advance(4 * minute);
    await stands(prompt, event, ['CLOSED', 'COMPLETE']);
    expect(await record(prompt, event)).toMatchObject({
      status: 'CLOSED',
      closed: prompt.at(start + 9),
      rounds: [
        { starts: prompt.at(start), ends: prompt.at(start + 5), status: 'CLOSED' },
        { starts: prompt.at(start + 5), ends: prompt.at(start + 9), status: 'COMPLETE', awarded_cost: '10' },
      ],
    });
    const { body } = await prompt.organisation.call('GET', `/api/feeds/awards?sourcing_event=${event}`);
    expect(body.data).toMatchObject([{ lot_name: 'A', awards: [{ cost: '10' }] }]);
  });
});

describe('when somebody calls before any timer has run', () => {
  /** With a bid, and with a round that ended just now. */
  async function overdueEvent() {
    const on = await inNewOrganisation(late);
    const look = await watchFeeds(on.service, on.organisation);
    const event = await openEvent(on, [{ ends: timestampAt(on.clock.nowMs() + minute) }]);
    await bid(on, event);
    await look();
    on.clock.advance(minute);
    return { on, look, event };
  }

  test('a bid after the end is refused; the round is closed in what the desk shows, and soon in the feeds', async () => {
    const { on, look, event } = await overdueEvent();
    const refused = await bid(on, event, '2');
    expect([refused.status, refused.body.detail]).toEqual([
      409,
      '"bid" is not possible: it needs a round that is ACTIVE, and this event has none.',
    ]);
    // The refusal took back the closing, which the timers own ...
    expect(await storedStatus(on, event)).toEqual(['ACTIVE']);
    expect(await look()).toMatchObject({ fired: [], appended: {} });
    const shown = await live(on, event);
    expect(shown.rounds).toMatchObject([{ status: 'CLOSED' }]);
    expect(shown.allowed).not.toContain('bid');
    expect(shown.allowed).toEqual(expect.arrayContaining(['edit-bids', 'reopen-round']));
    // ... and do, when they come.
    await on.service.service.sweep();
    await stands(on, event, ['CLOSED']);
    const seen = await look();
    expect([...seen.fired].sort()).toEqual(['latest-bids', 'rfi-responses', 'sourcing-events']);
    expect(seen.appended).toEqual({
      'sourcing-events': [
        expect.objectContaining({ id: event, rounds: [expect.objectContaining({ status: 'CLOSED' })] }),
      ],
    });
  });

  test('a command that is allowed announces the round that closed by time, and then does its own', async () => {
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

  test('a round that should have begun takes bids', async () => {
    const event = await openEvent(late, [
      { starts: timestampAt(late.clock.nowMs() + minute), ends: timestampAt(late.clock.nowMs() + 9 * minute) },
    ]);
    expect((await bid(late, event)).status).toBe(409);
    late.clock.advance(minute);
    expect((await live(late, event)).allowed).toContain('bid');
    expect((await bid(late, event)).status).toBe(200);
  });

  test('an event that should have closed itself is CLOSED to everybody', async () => {
    const ends = timestampAt(late.clock.nowMs() + minute);
    const event = await openEvent(late, [{ ends }], { close_after_last_round: true });
    await bid(late, event);
    late.clock.advance(2 * minute);
    expect(await live(late, event)).toMatchObject({
      status: 'CLOSED',
      closed: ends,
      rounds: [{ status: 'CLOSED', ends }],
    });
    for (const path of ['close', 'pause', 'unpublish'])
      expect((await late.organisation.call('POST', `/desk/events/${event}/${path}`, {})).body.detail).toContain(
        'CLOSED',
      );
    await desk(late.organisation, 'POST', `${event}/reopen`);
    const { body } = await late.organisation.call('GET', `/api/feeds/awards?sourcing_event=${event}`);
    expect(body.data).toMatchObject([{ lot_name: 'A', awards: [] }]);
    expect(await live(late, event)).toMatchObject({ status: 'OPEN', rounds: [{ status: 'ACTIVE', ends: null }] });
  });
});

test('an event whose last round closed before the setting came stays open until it is closed', async () => {
  const event = await openEvent(late, [{ ends: timestampAt(late.clock.nowMs() + minute) }]);
  await desk(late.organisation, 'POST', `${event}/rounds/1/close`);
  const update = { sourcing_event: event, settings: { close_after_last_round: true } };
  expect(await endedJob(late.organisation, '/api/jobs/update-sourcing-event', update)).toMatchObject({
    status: 'COMPLETED',
  });
  await desk(late.organisation, 'POST', `${event}/invitations`, { suppliers: ['S1'] });
  expect((await live(late, event)).status).toBe('OPEN');
  await desk(late.organisation, 'POST', `${event}/rounds/1/reopen`);
  await desk(late.organisation, 'POST', `${event}/rounds/1/close`);
  expect((await live(late, event)).status).toBe('CLOSED');
});

describe('a paused event', () => {
  test('stands still, and is brought up to date when it is resumed, in one announcement', async () => {
    const on = await inNewOrganisation(late);
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

  test('whose last round ended meanwhile closes when it is resumed, where its settings say so', async () => {
    const on = await inNewOrganisation(late);
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
  test('does not run; published after the time of all its rounds it would take no bid, and is refused', async () => {
    const event = await newEvent(late, [{ ends: timestampAt(late.clock.nowMs() + minute) }]);
    late.clock.advance(2 * minute);
    await late.service.service.sweep();
    expect((await live(late, event)).rounds).toMatchObject([{ status: 'PENDING' }]);
    const refused = await late.organisation.call('POST', `/desk/events/${event}/publish`, {});
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('Extend')]);
    const ends = timestampAt(late.clock.nowMs() + minute);
    await desk(late.organisation, 'POST', `${event}/rounds/1/extend`, { ends });
    await desk(late.organisation, 'POST', `${event}/publish`);
    expect((await live(late, event)).rounds).toMatchObject([{ status: 'ACTIVE', ends }]);
  });

  test('published between its rounds shows the first as closed', async () => {
    const [first, second] = [minute, 5 * minute].map((ms) => timestampAt(late.clock.nowMs() + ms));
    const event = await newEvent(late, [{ ends: first }, { starts: second, ends: '2040-01-01T00:00:00Z' }]);
    late.clock.advance(2 * minute);
    await desk(late.organisation, 'POST', `${event}/publish`);
    expect((await record(late, event)).rounds).toMatchObject([
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

  test('of two processes whose timers fire at once one closes the round, and it is announced once', async () => {
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
    // And commands at the same moment.
    const answers = await Promise.all(events.map((event) => bid(on, event)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([409]));
    await Promise.all([first.service.sweep(), second.service.sweep()]);
    for (const event of events) await stands(on, event, ['CLOSED']);
    expect(Number(await changes())).toBe(before + events.length);
  });

  test('a process that dies while it closes a round leaves it to the next', async () => {
    const db = await createTestDatabase();
    const clock = createManualClock();
    const service = await startTestService({ db, clock: withoutTimers(clock) });
    const on = await inNewOrganisation({ clock, service, at: () => '' });
    const event = await openEvent(on, [{ ends: timestampAt(clock.nowMs() + minute) }]);
    // Holds the feeds, so that the closing stops before it is announced; then its connection breaks.
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
    await blocker.query('rollback');
    await eventually('nothing runs', async () => (await storedStatus(on, event))[0] === 'ACTIVE');
    expect((await record(on, event)).rounds).toMatchObject([{ status: 'ACTIVE' }]);
    await eventually('a sweep closes it', async () => {
      await service.service.sweep();
      return (await storedStatus(on, event))[0] === 'CLOSED';
    });
    expect((await record(on, event)).rounds).toMatchObject([{ status: 'CLOSED' }]);
  });
});

test('a wait of years is cut into pieces that a timer can take', async () => {
  // A database of its own, so that no other event's round comes first.
  const alone = await stage({ timers: false });
  const event = await openEvent(alone, [{ ends: '2039-01-01T00:00:00Z' }]);
  const waits: number[] = [];
  const { database } = alone.service.db;
  const signals = { signal: async () => true };
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
