/** The pull of one feed against the service as it is publicly documented, in every variant of what is not known of it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLivenessLock, type LivenessLock } from '#bridge/leases/liveness-lock.ts';
import { probeSource } from '#bridge/pull/probe/probe-source.ts';
import { readFeedStatuses } from '#bridge/status/status.ts';
import { addMicros, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { type TestClock, testClock } from '../parts.ts';
import { PublicSource, type Variant } from './public-source.ts';
import { startReader } from './reader.ts';

let db: TestDatabase;
let liveness: LivenessLock;

beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await createLivenessLock({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

/** Times of `count` lots of one event, all within `micros`. */
function timesOf(clock: TestClock, count: number, micros: number): Timestamp[] {
  // Not at the beginning of a second, as no such event is.
  const closed = addMicros(timestampFromMs(clock.nowMs() - 3_600_000), 417_319);
  return Array.from({ length: count }, (_, index) => addMicros(closed, Math.floor((index * micros) / count)));
}

async function start(variant: Variant, pageSize: number, database = db.database) {
  const clock = testClock();
  const source = new PublicSource(variant, clock);
  const { client } = source;
  const reader = await startReader({
    database,
    liveness,
    client,
    clock,
    settings: { page_size: pageSize, poll_seconds: 20 },
  });
  const settings = { sources: [reader.source] };
  return {
    clock,
    source,
    reader,
    lag: async () => {
      const feeds = await readFeedStatuses(database, settings, timestampNow(clock));
      const lag = feeds.find(({ feed }) => feed === 'awards')?.lag;
      if (!lag) throw new Error('no lag');
      return lag;
    },
    check: () =>
      probeSource({ client, source: reader.source, feed: 'awards', clock, database }, new AbortController().signal),
  };
}

const named = ['link', 'body', 'both'] as const;
const unnamed = ['nowhere', 'nowhere unless the page has the size that was asked for'] as const;
const crowds = [
  { lots: 450, micros: 5_000, crowd: '450 lots within 5 ms' },
  { lots: 450, micros: 0, crowd: '450 lots of one time' },
  { lots: 2_000, micros: 5_000, crowd: '2,000 lots within 5 ms' },
  { lots: 2_000, micros: 0, crowd: '2,000 lots of one time' },
];
const variants = [...named, ...unnamed].flatMap((next) =>
  (['cut', 'refused'] as const).flatMap((otherSizes) =>
    crowds.flatMap((crowd) =>
      [200, ...(otherSizes === 'cut' ? [1_000] : [])].map((pageSize) => ({ next, otherSizes, pageSize, ...crowd })),
    ),
  ),
);

describe.each(variants)(
  '$crowd, next page named in: $next, other sizes $otherSizes, $pageSize asked for',
  (variant) => {
    const { next, otherSizes, pageSize, lots, micros } = variant;
    /** Where a page of one time names no next page, no request can show what lies beyond it. */
    const canBeRead = next !== 'nowhere' || micros > 0;

    test('are all read, or the feed is not called in step', async () => {
      const { clock, source, reader, lag } = await start({ next, otherSizes }, pageSize);
      source.add(...timesOf(clock, lots, micros));
      for (let pulls = 0; pulls < 15; pulls += 1) {
        clock.advance(20_000);
        await reader.pull();
        if ((await lag()).inStep) expect((await reader.mirror()).size).toBe(lots);
      }
      if (process.env['TRACE'])
        for (const { query, ms } of source.asked)
          console.log(new Date(ms).toISOString().slice(11, 19), decodeURIComponent(query));
      if (process.env['SHOW'])
        console.log(
          variant.crowd,
          next,
          otherSizes,
          pageSize,
          source.asked.length,
          (await reader.mirror()).size,
          (await lag()).why,
          (await reader.checkpoint()).last_error,
        );
      if (!canBeRead) {
        expect(await lag()).toMatchObject({ inStep: false, why: expect.stringMatching(/names no next page/) });
        return;
      }
      expect(await reader.mirror()).toEqual(source.state);
      expect(await lag()).toMatchObject({ inStep: true });
      const { watermark } = await reader.checkpoint();
      expect(watermark).toBe(source.records.at(-1)?.modified);
    });

    test('are judged rightly by check', async () => {
      const { clock, source, check } = await start({ next, otherSizes }, pageSize);
      source.add(...timesOf(clock, lots, micros));
      const results = await check();
      const failed = results.filter(({ ok }) => !ok).map(({ message }) => message);
      if (process.env['SHOW']) console.log(variant.crowd, next, otherSizes, pageSize, source.asked.length, failed);
    });
  },
);
