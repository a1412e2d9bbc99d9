/**
 * The lifecycle against a small model, with random commands and random waits: each command is done or refused as the
 * model says, the desk shows the model's event, and the feeds show exactly what the model last announced.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock, withoutTimers } from '../../harness/manual-clock.ts';
import { createEvent, createSuppliers, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { takeNotifications } from '../../harness/take-notifications.ts';
import { startTestService } from '../../harness/test-service.ts';

const clock = createManualClock();
let sweepRuns = false;
/**
 * Its timers never fire, and no command wakes the lane of rounds: rounds begin and end only in a command or in the
 * test's own sweep. A wake-up that came late would be correct, but would see a later time than the model.
 */
const service = await startTestService({
  clock: withoutTimers(clock),
  isSignalled: (lane) => lane !== 'rounds' || sweepRuns,
});
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);
await organisation.call('POST', '/api/webhooks', {
  name: 'all',
  url: 'https://localhost:1/',
  triggers: [
    'SOURCING_EVENTS_FEED_UPDATED',
    'LATEST_BIDS_FEED_UPDATED',
    'AWARDS_FEED_UPDATED',
    'RFI_RESPONSES_FEED_UPDATED',
  ],
});

interface ModelRound {
  starts: number | null;
  ends: number | null;
  status: 'PENDING' | 'ACTIVE' | 'CLOSED' | 'COMPLETE';
  /** It was closed with its event before it began: it keeps its times. */
  neverRan?: boolean;
}

/** The stored event; times are in minutes since the run began. */
interface Model {
  status: string;
  rounds: ModelRound[];
  closeAfterLast: boolean;
  volume: number;
  price: number | null;
  hasScenario: boolean;
  isAwarded: boolean;
}

interface Shown {
  event: { status: string; rounds: [status: string, ends: number | null][] };
  bid: string | null;
  award: string | null;
}

type Feed = 'E' | 'B' | 'A' | 'R';

/** Rows of the table "Feed update conditions". E: events, B: bids, A: awards, R: RFI responses. */
const table: Record<string, Feed[]> = {
  publish: ['E', 'B', 'R'],
  pause: ['R'],
  resume: ['E', 'B', 'R'],
  close: ['E', 'B', 'A', 'R'],
  delete: ['E'],
  'close-round': ['E', 'B', 'R'],
  bid: ['B'],
};

const isOver = ({ status }: ModelRound) => status === 'CLOSED' || status === 'COMPLETE';

/** Begins and ends rounds, minute by minute. Returns whether a round closed. */
function runRounds(model: Model, now: number): boolean {
  if (model.status !== 'OPEN') return false;
  let closed = false;
  for (let minute = 0; minute <= now; minute += 1)
    // Twice, since a round may begin and end in the same minute.
    for (let pass = 0; pass < 2 * model.rounds.length; pass += 1) {
      const active = model.rounds.find(({ status }) => status === 'ACTIVE');
      const next = model.rounds.find(({ status }) => status === 'PENDING');
      const nextIsDue = next && (next.starts ?? Number.POSITIVE_INFINITY) <= minute;
      if (active && ((active.ends ?? Number.POSITIVE_INFINITY) <= minute || nextIsDue)) {
        active.status = 'CLOSED';
        active.ends = Math.min(active.ends ?? Number.POSITIVE_INFINITY, nextIsDue ? (next.starts ?? 0) : minute);
        closed = true;
      } else if (!active && next && (next.starts ?? 0) <= minute) next.status = 'ACTIVE';
    }
  return closed;
}

function closeEvent(model: Model, now: number): void {
  model.status = 'CLOSED';
  for (const round of model.rounds.filter((round) => !isOver(round))) {
    round.neverRan = round.status === 'PENDING';
    round.status = 'CLOSED';
    if (round.neverRan) continue;
    if (round.starts !== null) round.starts = Math.min(round.starts, now);
    round.ends = Math.min(round.ends ?? now, now);
  }
  const last = model.rounds.at(-1);
  if (last && model.isAwarded) last.status = 'COMPLETE';
}

/** A round that never ran begins now; an end that has passed counts as none. */
function reopenRound(round: ModelRound, now: number, ends: number | null): void {
  if (round.neverRan) round.starts = Math.min(round.starts ?? now, now);
  Object.assign(round, { status: 'ACTIVE', neverRan: false, ends: ends !== null && ends > now ? ends : null });
}

/** Applies what is due by `now`; returns its row of the table. */
function applyDue(model: Model, now: number): string | undefined {
  if (!runRounds(model, now)) return undefined;
  if (!model.closeAfterLast || !model.rounds.every(isOver)) return 'close-round';
  closeEvent(model, now);
  return 'close';
}

interface Step {
  name: string;
  number: number;
  starts: number | null;
  ends: number;
  price: number;
  withTimers: boolean;
}

interface Outcome {
  status: 'done' | 400 | 404 | 409;
  rows: string[];
}

const refuse = (status: 400 | 404 | 409): Outcome => ({ status, rows: [] });
const done = (...rows: (string | undefined)[]): Outcome => ({
  status: 'done',
  rows: rows.filter((row) => row !== undefined),
});

/** Whether a round with these times fits between its neighbours. */
function fits(model: Model, place: number, { starts, ends }: { starts: number | null; ends: number }, now: number) {
  const floor = Math.max(
    -1,
    ...model.rounds.slice(0, place).flatMap((round) => {
      const times = [round.starts ?? -1, round.ends ?? -1];
      // A round that never ran may end in the future: once it is over it takes no time after now.
      return isOver(round) ? times.map((time) => Math.min(time, now)) : times;
    }),
  );
  const next = model.rounds.slice(place + 1).find((round) => !isOver(round));
  return (
    ends > now &&
    (starts === null || (starts < ends && starts >= floor)) &&
    ends > floor &&
    (next?.starts ?? ends) >= ends &&
    (next?.ends ?? Number.POSITIVE_INFINITY) > ends
  );
}

/** Applies the step to the model, in which what is due has been applied already. */
function apply(model: Model, step: Step, now: number): Outcome {
  const { rounds, status } = model;
  const round = rounds[step.number - 1];
  const active = rounds.some(({ status: roundStatus }) => roundStatus === 'ACTIVE');
  switch (step.name) {
    case 'publish': {
      if (status !== 'DRAFT') return refuse(409);
      const opened = structuredClone(model);
      opened.status = 'OPEN';
      if (rounds.length === 0) opened.rounds.push({ starts: null, ends: null, status: 'PENDING' });
      const hadTime = !opened.rounds.every(isOver);
      const row = applyDue(opened, now);
      if (hadTime && opened.rounds.every(isOver)) return refuse(409);
      Object.assign(model, opened);
      return done('publish', row);
    }
    case 'unpublish':
      if (status !== 'OPEN') return refuse(409);
      model.status = 'DRAFT';
      for (const each of rounds) if (each.status === 'ACTIVE') each.status = 'PENDING';
      return done();
    case 'pause':
      if (status !== 'OPEN') return refuse(409);
      model.status = 'PAUSED';
      return done('pause');
    case 'resume':
      if (status !== 'PAUSED') return refuse(409);
      model.status = 'OPEN';
      return done('resume', applyDue(model, now));
    case 'close':
      if (status !== 'OPEN') return refuse(409);
      closeEvent(model, now);
      return done('close');
    case 'reopen': {
      if (status !== 'CLOSED') return refuse(409);
      model.status = 'OPEN';
      const last = rounds.at(-1);
      if (last) reopenRound(last, now, last.ends);
      return done();
    }
    case 'delete':
      if (!['DRAFT', 'PAUSED', 'CLOSED'].includes(status)) return refuse(409);
      model.status = 'DELETED';
      return done('delete');
    case 'add-round':
      // The body is invalid by itself.
      if (step.starts !== null && step.ends <= step.starts) return refuse(400);
      if (!['DRAFT', 'OPEN', 'PAUSED'].includes(status)) return refuse(409);
      if (!fits(model, rounds.length, step, now)) return refuse(400);
      rounds.push({ starts: step.starts, ends: step.ends, status: 'PENDING' });
      return done(applyDue(model, now));
    case 'close-round':
      if (status !== 'OPEN' || !active) return refuse(409);
      if (!round) return refuse(404);
      if (round.status !== 'ACTIVE') return refuse(409);
      Object.assign(round, { status: 'CLOSED', ends: now });
      runRounds(model, now);
      if (model.closeAfterLast && rounds.every(isOver)) {
        closeEvent(model, now);
        return done('close-round', 'close');
      }
      return done('close-round');
    case 'extend-round':
      if (!['DRAFT', 'OPEN', 'PAUSED'].includes(status) || rounds.every(isOver)) return refuse(409);
      if (!round) return refuse(404);
      if (isOver(round)) return refuse(409);
      if (!fits(model, step.number - 1, { starts: round.starts, ends: step.ends }, now)) return refuse(400);
      round.ends = step.ends;
      return done(applyDue(model, now));
    case 'reopen-round':
      if (status !== 'OPEN' || active || !rounds.some(isOver)) return refuse(409);
      if (!round) return refuse(404);
      if (!isOver(round)) return refuse(409);
      reopenRound(round, now, null);
      return done(applyDue(model, now));
    case 'bid':
      if (status !== 'OPEN' || !active) return refuse(409);
      model.price = step.price;
      return done('bid');
    case 'buyer-values':
      if (!['DRAFT', 'OPEN', 'PAUSED'].includes(status)) return refuse(409);
      model.volume = step.price;
      return done();
    case 'award':
      if (!['OPEN', 'PAUSED'].includes(status)) return refuse(409);
      if (!model.hasScenario) return refuse(409);
      model.isAwarded = true;
      return done();
    case 'un-award':
      if (!['OPEN', 'PAUSED'].includes(status)) return refuse(409);
      model.isAwarded = false;
      return done();
    case 'scenario':
      if (!['OPEN', 'PAUSED', 'CLOSED'].includes(status)) return refuse(409);
      if (model.price === null) return refuse(400);
      model.hasScenario = true;
      return done();
    default:
      throw new Error(step.name);
  }
}

function announce(model: Model, shown: Shown, rows: readonly string[]): Set<Feed> {
  const feeds = new Set(rows.flatMap((row) => table[row] ?? []));
  const cost = model.price === null ? null : String(model.price * model.volume);
  if (feeds.has('E'))
    shown.event = { status: model.status, rounds: model.rounds.map(({ status, ends }) => [status, ends]) };
  if (feeds.has('B') && model.status !== 'DRAFT') shown.bid = cost;
  if (feeds.has('A')) shown.award = model.isAwarded ? cost : 'no supplier';
  return feeds;
}

const minuteMs = 60_000;

/** The request of a step. */
function requestOf(step: Step, at: (minute: number) => string): [method: string, path: string, body: object] {
  const times = { ends: at(step.ends) };
  switch (step.name) {
    case 'add-round':
      return ['POST', 'rounds', { ...times, ...(step.starts === null ? {} : { starts: at(step.starts) }) }];
    case 'close-round':
      return ['POST', `rounds/${step.number}/close`, {}];
    case 'extend-round':
      return ['POST', `rounds/${step.number}/extend`, times];
    case 'reopen-round':
      return ['POST', `rounds/${step.number}/reopen`, {}];
    case 'bid':
      return ['POST', 'bids', { supplier: 'S1', lots: [{ lot: 'A', values: { Price: String(step.price) } }] }];
    case 'buyer-values':
      return ['PUT', 'buyer-values', { lots: [{ lot: 'A', values: { Volume: String(step.price) } }] }];
    case 'award':
      return ['POST', 'award', { scenario: 'best' }];
    case 'un-award':
      return ['POST', 'award', { scenario: null }];
    case 'scenario':
      return ['PUT', 'scenarios/best', { awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }] }];
    default:
      return ['POST', step.name, {}];
  }
}

const triggerOf: Record<string, Feed> = {
  SOURCING_EVENTS_FEED_UPDATED: 'E',
  LATEST_BIDS_FEED_UPDATED: 'B',
  AWARDS_FEED_UPDATED: 'A',
  RFI_RESPONSES_FEED_UPDATED: 'R',
};

async function firedFeeds(): Promise<Set<Feed | undefined>> {
  const rows = await takeNotifications(service.db.database, organisation.id);
  return new Set(rows.map(({ trigger }) => triggerOf[trigger]));
}

async function feedsOf(event: string, minuteOf: (time: string | null | undefined) => number | null): Promise<Shown> {
  const rows = await service.db.database.query<{ feed: string; body: string }>(
    'select feed, body from service.feed_records where organisation_id = $1 and sourcing_event = $2 and visible',
    [organisation.id, event],
  );
  const record = (feed: string) => {
    const found = rows.filter((row) => row.feed === feed);
    expect(found.length).toBeLessThanOrEqual(1);
    return found[0] && JSON.parse(found[0].body);
  };
  const [events, bids, awards] = ['sourcing-events', 'latest-bids', 'awards'].map(record);
  return {
    event: {
      status: events.status,
      rounds: events.rounds.map((one: { status: string; ends?: string }) => [one.status, minuteOf(one.ends)]),
    },
    bid: bids ? bids.bids[0].value : null,
    award: awards ? (awards.awards[0]?.cost ?? 'no supplier') : null,
  };
}

const steps = fc.record({
  name: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom('wait', 'publish') },
    {
      weight: 6,
      arbitrary: fc.constantFrom(
        'add-round',
        'bid',
        'close',
        'reopen',
        'resume',
        'close-round',
        'reopen-round',
        'award',
      ),
    },
    {
      weight: 3,
      arbitrary: fc.constantFrom('unpublish', 'pause', 'extend-round', 'scenario', 'buyer-values', 'un-award'),
    },
    { weight: 1, arbitrary: fc.constant('delete') },
  ),
  /** 0: the active round, or else the last one. */
  number: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) }),
  starts: fc.option(fc.integer({ min: 0, max: 5 })),
  ends: fc.integer({ min: 0, max: 8 }),
  price: fc.integer({ min: 1, max: 5 }),
  withTimers: fc.boolean(),
});

async function play(story: readonly Step[], closeAfterLast: boolean): Promise<void> {
  const start = clock.nowMs();
  const at = (minute: number) => new Date(start + minute * minuteMs).toISOString();
  const minuteOf = (time: string | null | undefined) => (time ? (Date.parse(time) - start) / minuteMs : null);
  const event = await createEvent(organisation, {
    ...eventPayload({ suppliers: ['S1'] }),
    settings: { close_after_last_round: closeAfterLast },
  });
  await firedFeeds();
  let model: Model = {
    status: 'DRAFT',
    rounds: [],
    closeAfterLast,
    volume: 10,
    price: null,
    hasScenario: false,
    isAwarded: false,
  };
  const shown: Shown = { event: { status: 'DRAFT', rounds: [] }, bid: null, award: null };
  let now = 0;
  for (const drawn of story) {
    const next = structuredClone(model);
    const active = next.rounds.findIndex(({ status }) => status === 'ACTIVE') + 1;
    const step = {
      ...drawn,
      number: drawn.number || active || next.rounds.length || 1,
      starts: drawn.starts === null ? null : now + drawn.starts,
      ends: now + drawn.ends,
    };
    let feeds = new Set<Feed>();
    let [answered, expected]: unknown[][] = [];
    if (step.name === 'wait') {
      now += drawn.price;
      clock.advance(drawn.price * minuteMs);
      if (step.withTimers) {
        const row = applyDue(next, now);
        feeds = announce(next, shown, row ? [row] : []);
        sweepRuns = true;
        await service.service.sweep();
        sweepRuns = false;
        await eventually('the due rounds have begun and ended', async () => {
          const rows = await service.db.database.query<{ status: string }>(
            'select status from service.rounds where event_id = $1 order by number',
            [event],
          );
          return rows.map(({ status }) => status).join() === next.rounds.map(({ status }) => status).join();
        });
        model = next;
      }
    } else {
      const before = applyDue(next, now);
      const afterTime = structuredClone(next);
      const outcome = apply(next, step, now);
      const [method, path, body] = requestOf(step, at);
      const answer = await organisation.call(method, `/desk/events/${event}/${path}`, body);
      answered = [step.name, answer.status < 300 ? 'done' : answer.status];
      expected = [step.name, outcome.status];
      if (outcome.status === 'done') {
        feeds = announce(afterTime, shown, before ? [before] : []);
        if (step.name === 'unpublish' || step.name === 'delete') shown.bid = null;
        if (step.name === 'delete') shown.award = null;
        for (const feed of announce(next, shown, outcome.rows)) feeds.add(feed);
        model = next;
      }
    }
    expect(answered).toEqual(expected);
    const body = await readEvent(organisation, event);
    const expectedNow = structuredClone(model);
    applyDue(expectedNow, now);
    expect([body.status, body.rounds.map((one: { status: string }) => one.status)]).toEqual([
      expectedNow.status,
      expectedNow.rounds.map(({ status }) => status),
    ]);
    expect(await feedsOf(event, minuteOf)).toEqual(shown);
    expect([step.name, await firedFeeds()]).toEqual([step.name, feeds]);
  }
  // The event must not run on during the next story.
  await service.db.database.query(`update service.sourcing_events set status = 'DELETED' where id = $1`, [event]);
}

// Thousands of requests in sequence take long on a busy machine, and shrinking a failed story takes much longer.
test('random commands at random times', { timeout: 300_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 10, maxLength: 30, size: 'max' }), fc.boolean(), play),
    { numRuns: 5, endOnFailure: true },
  );
});

test('a story with every command', async () => {
  const step = (name: string, more: Partial<Step> = {}): Step => ({
    name,
    number: 1,
    starts: null,
    ends: 3,
    price: 2,
    withTimers: false,
    ...more,
  });
  const played = play(
    [
      step('add-round', { ends: 4 }),
      step('add-round', { starts: 4, ends: 8 }),
      step('publish'),
      step('bid'),
      step('buyer-values', { price: 5 }),
      step('pause'),
      step('wait'),
      step('resume'),
      step('wait', { price: 2, withTimers: true }),
      step('bid', { price: 3 }),
      step('scenario'),
      step('award'),
      step('wait', { price: 5 }),
      step('bid'),
      step('close'),
      step('reopen'),
      step('bid', { price: 4 }),
      step('un-award'),
      step('close'),
      step('reopen'),
      step('unpublish'),
      step('publish'),
      step('close-round', { number: 2 }),
      step('close'),
      step('delete'),
    ],
    false,
  );
  await expect(played).resolves.toBeUndefined();
});
