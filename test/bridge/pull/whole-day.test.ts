/**
 * Hours with a source that misbehaves in another way in each of them: nothing that the watermark has passed is ever
 * missing, the watermark never stands still for longer than docs/checkpoints.md says, and everything has settled within
 * the time that it says after the source has calmed down. `npm run test:day` plays 24 hours; DAY_SEED draws others.
 */
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import { startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { silentLogger } from '#platform/log.ts';
import { type FeedQuirks, plainFeed } from '#service/misbehave/feed-quirks.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { HostileSource, seeded } from './hostile-source.ts';
import { startReader } from './reader.ts';

const { DAY_HOURS: hours = '1', DAY_SEED: seed = '1' } = process.env;
const pollSeconds = 40;
const latenessSeconds = 30;
const stillSeconds = 4 * latenessSeconds + 3 * pollSeconds;
/** A pull that failed in a row waits for five minutes at most. */
const settledSeconds = 300 + stillSeconds;

type Drawn = Partial<FeedQuirks>;

/** What an hour may bring. Clocks, bounds and the form of stamps stay as the day began: a real source does not change them. */
const ofAnHour: readonly ((random: () => number) => Drawn)[] = [
  (random) => ({ order: pick(random, ['ascending', 'descending', 'random', 'random-by-page'] as const) }),
  (random) => ({ paging: pick(random, ['cursor', 'page-number', 'offset'] as const) }),
  (random) => ({ pageMax: pick(random, [5, 12, 1_000]) }),
  (random) => ({ hiddenRun: pick(random, [0, 3]) }),
  (random) => ({ unstableTies: random() < 0.3 }),
  (random) => ({ shrinksEvery: pick(random, [null, null, 20]) }),
  (random) => ({ cursorPages: pick(random, [null, null, 1, 3]), cursorRefusal: pick(random, [400, 410] as const) }),
  (random) => ({ lateMs: random() * 20_000 }),
  (random) => ({ lagMs: pick(random, [0, 0, 5_000]) }),
  (random) => ({ tooMany: small(random), retryAfter: random() }),
  (random) => ({ serverError: small(random) }),
  (random) => ({ cut: small(random), truncated: small(random) }),
  (random) => ({ nothing: small(random) }),
  (random) => ({ slow: small(random) }),
];

/** The share of requests that fail, as the client has tried them again: small, or none. */
const small = (random: () => number) => (random() < 0.5 ? 0 : random() * 0.005);

function pick<T>(random: () => number, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T;
}

test(`${hours} hours of mixed quirks (DAY_SEED=${seed})`, { timeout: 600_000 }, async () => {
  await using resources = new AsyncDisposableStack();
  const db = await createTestDatabase();
  resources.defer(() => db.drop());
  const liveness = await startLiveness({ database: db.database, log: silentLogger });
  resources.defer(() => liveness.close());
  const clock = testClock();
  const random = seeded(Number(seed));
  const allDay: Drawn = {
    stamps: pick(random, ['micros', 'millis', 'seconds'] as const),
    boundsInSeconds: random() < 0.3,
    inclusiveAfter: random() < 0.7,
    inclusiveBefore: random() < 0.7,
    skewMs: pick(random, [0, -40_000, 40_000]),
  };
  const source = new HostileSource({ ...plainFeed, ...allDay, future: false, commitOrdered: false }, clock, random);
  const reader = await startReader({
    database: db.database,
    liveness,
    client: source.client,
    clock,
    settings: { page_size: 100, poll_seconds: pollSeconds, lateness_seconds: latenessSeconds },
  });
  const check = async () => {
    const row = await reader.checkpoint();
    const held = await reader.mirror();
    for (const [id, value] of source.stateUpTo(row.watermark ?? '')) expect([id, held.get(id)]).toEqual([id, value]);
    return row;
  };
  const endMs = clock.nowMs() + Number(hours) * 3_600_000;
  let hourEndsMs = 0;
  let moved = { watermark: null as string | null, atMs: clock.nowMs() };
  let longest = { ms: 0, why: '' };
  while (clock.nowMs() < endMs) {
    if (clock.nowMs() >= hourEndsMs) {
      hourEndsMs = clock.nowMs() + 3_600_000;
      for (const quirk of ofAnHour) Object.assign(source.quirks, quirk(random));
      // Where few rows fit a page, some are hidden and no second page can be read, no request shows a full millisecond.
      if (source.quirks.cursorPages !== null) Object.assign(source.quirks, { hiddenRun: 0, shrinksEvery: null });
      // Pages with fewer rows than lie between two records that are not hidden cost 70 requests a record: no such pull is
      // short.
      if (source.quirks.hiddenRun > 0)
        Object.assign(source.quirks, { shrinksEvery: null, pageMax: Math.max(12, source.quirks.pageMax) });
    }
    source.live(pollSeconds, 3);
    await reader.pull();
    const { watermark, last_error: error, stalled_why: stalled } = await check();
    if (watermark !== moved.watermark) moved = { watermark, atMs: clock.nowMs() };
    const ms = clock.nowMs() - moved.atMs;
    if (ms > longest.ms) longest = { ms, why: JSON.stringify({ watermark, error, stalled, quirks: source.quirks }) };
  }
  expect(longest.ms / 1_000, `still with ${longest.why}`).toBeLessThanOrEqual(stillSeconds);

  source.writing = false;
  source.calm = true;
  const calmMs = clock.nowMs();
  const isSettled = async () => {
    const { watermark, failures } = await check();
    const isProved = source.stateUpTo(watermark ?? '').size === source.state.size;
    return failures === 0 && isProved && isDeepStrictEqual(await reader.mirror(), source.state);
  };
  while (!(await isSettled())) {
    source.live(pollSeconds, 0);
    await reader.pull();
    expect((clock.nowMs() - calmMs) / 1_000, 'settled after').toBeLessThanOrEqual(settledSeconds);
  }
});
