/** The pull of one feed against the service as it is publicly documented, in every variant of what is not known of it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { readFeedStatuses } from '#bridge/mirror/feed-statuses.ts';
import { probeSource } from '#bridge/pull/probe-source.ts';
import { createMemoryQuotas } from '#client/memory-quotas.ts';
import { addMicros, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { type TestClock, testClock } from '../parts.ts';
import { PublicSource, type Variant } from './public-source.ts';
import { startReader } from './reader.ts';

let db: TestDatabase;
let liveness: Liveness;

beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await startLiveness({ database: db.database, log: silentLogger });
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

async function start(variant: Variant, pageSize: number) {
  const clock = testClock();
  const source = new PublicSource(variant, clock);
  const { client } = source;
  const reader = await startReader({
    database: db.database,
    liveness,
    client,
    clock,
    settings: { page_size: pageSize, poll_seconds: 20 },
  });
  return { clock, source, reader, lag: () => lagOf(reader, clock), check: () => checkOf(source, pageSize) };
}

async function lagOf({ source }: Awaited<ReturnType<typeof startReader>>, clock: TestClock) {
  const feeds = await readFeedStatuses(db.database, { sources: [source] }, timestampNow(clock));
  const lag = feeds.find(({ feed }) => feed === 'awards')?.lag;
  if (!lag) throw new Error('no lag');
  return lag;
}

/** The messages of the checks that failed, and the names of all. */
async function checkOf(source: PublicSource, pageSize: number) {
  const before = source.asked.length;
  const results = await probeSource({ client: source.client, source: { page_size: pageSize }, feed: 'awards' }, never);
  return {
    failed: results.filter(({ ok }) => !ok).map(({ message }) => message),
    names: results.map(({ name }) => name),
    asked: source.asked.slice(before),
  };
}

const never = new AbortController().signal;
const pageSizeOf = (query: string) => Number(new URLSearchParams(query).get('page_size'));

const onlyAsAsked = 'nowhere unless the page has the size that was asked for' satisfies Variant['next'];
const close = { lots: 450, micros: 5_000, crowd: '450 lots within 5 ms' };
const tied = { lots: 450, micros: 0, crowd: '450 lots of one time' };
const cut = { otherSizes: 'cut', pageSize: 200 } as const;
const cutTo200 = { otherSizes: 'cut', pageSize: 1_000 } as const;
const refused = { otherSizes: 'refused', pageSize: 200 } as const;
const variants = [
  { next: 'link', ...close, ...cutTo200 },
  { next: 'link', ...tied, ...refused },
  { next: 'body', ...tied, ...cut },
  { next: 'nowhere', ...close, ...refused },
  { next: 'nowhere', ...close, ...cutTo200 },
  { next: 'nowhere', ...tied, ...refused },
  { next: onlyAsAsked, ...tied, ...cutTo200 },
] as const;

describe.each(variants)(
  '$crowd, next page named in: $next, other sizes $otherSizes, $pageSize asked for',
  (variant) => {
    const { next, otherSizes, pageSize, lots, micros } = variant;
    /** Where a page of one time names no next page, no request can show what lies beyond it. */
    const canBeRead = next !== 'nowhere' || micros > 0;

    test('are all read, or the feed is not called in step', async () => {
      const { clock, source, reader, lag } = await start({ next, otherSizes }, pageSize);
      source.add(...timesOf(clock, lots, micros));
      const heldInStep = new Set<number>();
      for (let pulls = 0; pulls < 10; pulls += 1) {
        clock.advance(20_000);
        await reader.pull();
        if ((await lag()).inStep) heldInStep.add((await reader.mirror()).size);
      }
      const { inStep, why } = await lag();
      expect({
        heldInStep: [...heldInStep],
        isWhole: (await reader.mirror()).size === lots,
        isProved: (await reader.checkpoint()).watermark === source.records.at(-1)?.modified,
        inStep,
        saysWhy: why.includes('names no next page'),
      }).toEqual(
        canBeRead
          ? { heldInStep: [lots], isWhole: true, isProved: true, inStep: true, saysWhy: false }
          : { heldInStep: [], isWhole: false, isProved: false, inStep: false, saysWhy: true },
      );
    });

    test('are judged rightly by check, with pages of 10 to 200 beside those that the settings ask for', async () => {
      const { clock, source, check } = await start({ next, otherSizes }, pageSize);
      source.add(...timesOf(clock, lots, micros));
      const { failed, asked } = await check();
      const isOnlyAsAsked = next === onlyAsAsked && pageSize > 200;
      expect(failed.join()).toMatch(
        next === 'nowhere'
          ? /names no next page, neither by "next" nor by Link/
          : isOnlyAsAsked
            ? /more follow: set page_size to 200/
            : /^$/,
      );
      const others = asked.map(({ query }) => pageSizeOf(query)).filter((size) => size !== pageSize);
      expect(Math.min(...others)).toBeGreaterThanOrEqual(10);
      expect(Math.max(...others)).toBeLessThanOrEqual(200);
    });
  },
);

test('check of a page size that is refused says so, asks for less, and answers its other questions', async () => {
  const { clock, source, check } = await start({ next: 'link', otherSizes: 'refused' }, 1_000);
  source.add(...timesOf(clock, 450, 5_000));
  const { failed, names } = await check();
  expect(failed).toEqual([expect.stringMatching(/^a page of 1000 records is refused .*: set page_size lower$/)]);
  expect(names).toContain('awards: bounds');
});

test('450 lots within 5 ms cost no more than 40 requests in ten pulls, and none later than another record', async () => {
  const { clock, source, reader } = await start({ next: 'link', otherSizes: 'refused' }, 200);
  source.add(...timesOf(clock, 450, 5_000));
  await reader.pullFor(200);
  expect(source.asked.length).toBeLessThanOrEqual(40);
  const before = source.asked.length;
  await reader.pullFor(200);
  // One request a pull.
  expect(source.asked.length - before).toBeLessThanOrEqual(10);
});

test.each([close, tied])(
  'a pull of $crowd that dies at any request leaves nothing out and nothing twice',
  async (crowd) => {
    for (let dying = 1; dying <= 40; dying += 13) {
      const { clock, source, reader, lag } = await start({ next: 'link', otherSizes: 'refused' }, 200);
      source.add(...timesOf(clock, crowd.lots, crowd.micros));
      const process = new AbortController();
      source.onRequest = () => {
        if (source.asked.length === dying) process.abort(new Error('the process dies'));
      };
      for (let pulls = 0; pulls < 8; pulls += 1) {
        clock.advance(20_000);
        await reader.pull(process.signal.aborted ? never : process.signal);
      }
      expect(await reader.mirror()).toEqual(source.state);
      expect(await lag()).toMatchObject({ inStep: true });
      const replaced = await db.database.query('select from bridge.mirror_history where source = $1', [
        reader.feed.source,
      ]);
      expect(replaced, 'no record was taken for a change of another').toEqual([]);
    }
  },
);

test('a notification is answered while a scan of many records of one time goes on, within the quota', async () => {
  const clock = testClock();
  const source = new PublicSource({ next: 'link', otherSizes: 'refused' }, clock);
  const { database } = db;
  const quotas = createMemoryQuotas(clock);
  const reader = await startReader({
    database,
    liveness,
    client: source.clientWith(quotas),
    background: source.clientWith(quotas.background),
    clock,
    settings: { page_size: 200, poll_seconds: 20 },
  });
  source.add(...timesOf(clock, 2_000, 0));
  let announcedMs: number | undefined;
  let readMs: number | undefined;
  source.onRequest = async () => {
    if (announcedMs === undefined && source.asked.length > 60) {
      source.add(timestampNow(clock));
      announcedMs = clock.nowMs();
      await announce(reader.feed.source);
    } else if (announcedMs !== undefined && (await reader.mirror()).size === 2_001) readMs ??= clock.nowMs();
  };
  await reader.pullFor(400);
  expect((await reader.checkpoint()).last_error).toBeNull();
  expect(await reader.mirror()).toEqual(source.state);
  expect((readMs ?? Number.POSITIVE_INFINITY) - (announcedMs ?? 0)).toBeLessThan(10_000);
  expect(source.refused, 'requests beyond the quota').toBe(0);
});

test('a scan that waits for a source that refuses it says so, and holds a process that takes over', async () => {
  const clock = testClock();
  const source = new PublicSource({ next: 'link', otherSizes: 'refused' }, clock);
  const quotas = createMemoryQuotas(clock);
  const background = source.clientWith(quotas.background);
  let isUsedUp = false;
  const reader = await startReader({
    database: db.database,
    liveness,
    client: source.clientWith(quotas),
    background: {
      readFeed: (...args) => {
        // Another program with the same key has used up the minute when the scan begins.
        if (!isUsedUp) for (let n = 0; n < 60; n += 1) source.asked.push({ query: 'another', ms: clock.nowMs() });
        isUsedUp = true;
        return background.readFeed(...args);
      },
    },
    clock,
    settings: { page_size: 200, poll_seconds: 20 },
  });
  source.add(...timesOf(clock, 20, 1_000));
  const seen: unknown[] = [];
  const sleep = clock.sleep.bind(clock);
  clock.sleep = async (ms, signal) => {
    if (source.refused > 0 && seen.length === 0) {
      const { next_pull: next, failures } = await reader.checkpoint();
      seen.push(Date.parse(next) - clock.nowMs(), failures, await lagOf(reader, clock));
    }
    await sleep(ms, signal);
  };
  await reader.pull();
  expect(seen).toEqual([
    60_000,
    0,
    expect.objectContaining({ inStep: false, why: expect.stringMatching(/^throttled until .*429/) }),
  ]);
  expect(source.refused).toBe(1);
  expect(await reader.mirror()).toEqual(source.state);
  expect(await reader.checkpoint()).toMatchObject({ last_error: null, failures: 0 });
});

async function announce(source: string): Promise<void> {
  await db.database.query(
    `insert into bridge.inbox (source, feed, trigger, received, body) values ($1, 'awards', 'AWARDS_FEED_UPDATED', now(), '{}')`,
    [source],
  );
}
