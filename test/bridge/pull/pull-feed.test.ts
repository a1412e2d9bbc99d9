import { beforeEach, describe, expect, test } from 'vitest';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { openCheckpoints, saveOrderBroken } from '#bridge/pull/feed/checkpoint-store.ts';
import { createFeedPull } from '#bridge/pull/pull-feed.ts';
import { createSourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { type FeedSource, startFeedSource } from '../feed-source.ts';
import {
  eventRecord,
  flowOf,
  idOf,
  lotAwardRecord,
  nextModified,
  settingsOf,
  startProcess,
  type TestClock,
  testClock,
} from '../parts.ts';

let db: TestDatabase;
let source: FeedSource;
let clock: TestClock;
const never = new AbortController().signal;
const pollMs = 60_000;

beforeEach(async () => {
  db = await createTestDatabase();
  source = await startFeedSource();
  clock = testClock();
  for (const feed of ['sourcing-events', 'awards'])
    await openCheckpoints(db.database, [{ source: 'main', feed }], timestampNow(clock));
  // What the proof costs is tested on its own.
  await db.database.query('update bridge.checkpoints set source_profile = $1', [
    JSON.stringify({ orderProved: timestampNow(clock) }),
  ]);
  return () => db.drop();
});

/** A process with a worker that pulls the source's feeds. */
async function startPuller(options: { pageSize?: number; retries?: number; throttleMs?: number } = {}) {
  const process = await startProcess(db);
  const [settings] = settingsOf({
    base_url: source.url,
    page_size: options.pageSize ?? 2,
    poll_seconds: pollMs / 1000,
  }).sources;
  if (!settings) throw new Error('no source');
  const records = new Counter({ name: 'r', help: 'r', labelNames: ['feed', 'result'], registers: [new Registry()] });
  const woken: number[] = [];
  const client = createSourceClient({
    settings: { baseUrl: source.url, apiKey: 'feed-key', timeoutMs: 5_000, retries: options.retries ?? 0 },
    fetch: testOutgoing().fetch,
    clock,
  });
  const pull = createFeedPull({
    throttleMs: () => options.throttleMs ?? 0,
    source: settings,
    client,
    background: client,
    database: process.database,
    acquireLease: process.acquireLease,
    clock,
    log: silentLogger,
    records,
    wakeFlows: () => woken.push(1),
  });
  const count = async (result: string) =>
    (await records.get()).values.find(({ labels }) => labels.result === result)?.value ?? 0;
  return { pull, woken, count, process };
}

const checkpoint = async (feed: FeedName = 'awards') => {
  const [row] = await db.database.query<{
    watermark: string | null;
    failures: number;
    last_error: string | null;
    next_pull: string;
  }>('select watermark, failures, last_error, next_pull from bridge.checkpoints where feed = $1', [feed]);
  return row;
};
const mirrored = async () =>
  (await db.database.query<{ record_id: string }>('select record_id from bridge.mirror order by modified')).map(
    ({ record_id: id }) => id,
  );
const versions = async () =>
  (
    await db.database.query<{ versions: number }>(
      `select (select count(*) from bridge.mirror)::int
         + (select count(*) from bridge.mirror_history)::int as versions`,
    )
  )[0]?.versions;
const notify = (feed: string) =>
  db.database.query(
    "insert into bridge.inbox (source, trigger, feed, body, received) values ('main', 'X', $1, 'x', now())",
    [feed],
  );
const waiting = async () =>
  (
    await db.database.query<{ n: number }>(
      'select count(*)::int as n from bridge.inbox join bridge.checkpoints using (source, feed) where id > answered',
    )
  )[0]?.n;

const award = (n: number) => lotAwardRecord(idOf(n), idOf(1), [{ supplier: idOf(2) }]);

describe('a pull', () => {
  test('refreshes the statistics during a first read, so that lookups do not scan the whole table', async () => {
    const { pull } = await startPuller({ pageSize: 600 });
    source.append('awards', ...Array.from({ length: 1_300 }, (_, n) => award(n + 10)));
    await pull('awards', never);
    // They are made beside the read, which does not wait for them.
    const known = async () => {
      const [row] = await db.database.query<{ records: number; columns: number }>(
        `select (select reltuples::int from pg_class where oid = 'bridge.mirror'::regclass) as records,
           (select count(*)::int from pg_stats where schemaname = 'bridge' and tablename = 'mirror') as columns`,
      );
      return row;
    };
    await expect.poll(async () => (await known())?.records, { timeout: 10_000 }).toBeGreaterThanOrEqual(1_200);
    expect((await known())?.columns).toBeGreaterThan(0);
  });

  test('reads the whole feed page by page at first, and then the new records', async () => {
    const { pull, count } = await startPuller();
    const first = [award(10), award(11), award(12), award(13), award(14)];
    source.append('awards', ...first);
    await pull('awards', never);
    expect(await mirrored()).toEqual(first.map(({ id }) => id));
    expect((await checkpoint())?.watermark).toBe(first[4]?.modified);
    const include = 'include=sourcing_events&include=suppliers';
    expect(source.asked).toEqual([
      `awards?page_size=2&${include}`,
      `awards?page_size=2&${include}&cursor=${idOf(11)}`,
      `awards?page_size=2&${include}&cursor=${idOf(13)}`,
    ]);

    clock.advance(pollMs);
    const later = award(15);
    source.append('awards', later);
    await pull('awards', never);
    // A microsecond before the watermark: it does not matter whether the bound is inclusive.
    const after = encodeURIComponent(addMicros(first[4]?.modified ?? '', -1));
    expect(source.asked[3]).toContain(`modified_after=${after}`);
    expect(await mirrored()).toHaveLength(6);
    expect(await count('changed')).toBe(6);
    // The records are a microsecond apart.
    expect(await count('known'), 'the record at the watermark and the one at the inclusive bound').toBe(2);
  });

  test('takes the record at the inclusive bound as unchanged: no version, no mark, no flow woken', async () => {
    const { pull, woken } = await startPuller();
    source.append('awards', award(10));
    await pull('awards', never);
    const before = woken.length;
    clock.advance(pollMs);
    await pull('awards', never);
    expect(source.asked).toHaveLength(2);
    expect(await versions()).toBe(1);
    expect(woken).toHaveLength(before);
  });

  test('loses none of several records with the same stamp, at the end of a page or at the watermark', async () => {
    const { pull } = await startPuller();
    const modified = nextModified();
    const tied = [10, 11, 12, 13, 14].map((n) => ({ ...award(n), modified }));
    source.append('awards', ...tied);
    await pull('awards', never);
    clock.advance(pollMs);
    source.append('awards', { ...award(15), modified });
    await pull('awards', never);
    expect((await mirrored()).sort()).toEqual([10, 11, 12, 13, 14, 15].map(idOf));
  });

  test('keeps the version before a changed record, and takes an older one only where the source was set back', async () => {
    const { pull } = await startPuller();
    const old = award(10);
    const changed = { ...award(10), lot_name: 'changed' };
    source.append('awards', old);
    await pull('awards', never);
    clock.advance(pollMs);
    source.append('awards', changed);
    await pull('awards', never);
    expect(await versions()).toBe(2);
    const held = async () => {
      const [row] = await db.database.query<{ body: string }>('select body from bridge.mirror');
      return JSON.parse(row?.body ?? '') as { lot_name: string };
    };
    // A replica that lags shows the old version again.
    source.records.set('awards', [old]);
    await readAgain(20);
    expect(await held()).toMatchObject({ lot_name: 'changed' });
    expect(await versions()).toBe(2);
    // It is still shown after the lateness bound: the source was set back.
    await readAgain(20);
    expect((await held()).lot_name).toBe(old['lot_name']);
    expect(await versions()).toBe(3);

    async function readAgain(seconds: number): Promise<void> {
      await db.database.query("update bridge.checkpoints set watermark = null, next_pull = 'epoch'");
      clock.advance(seconds * 1_000);
      await pull('awards', never);
    }
  });

  test('takes another body with the same stamp: the one that was read last counts', async () => {
    const { pull } = await startPuller();
    const record = award(10);
    source.append('awards', record);
    await pull('awards', never);
    clock.advance(pollMs);
    source.append('awards', { ...record, lot_name: 'other' });
    await pull('awards', never);
    const [held] = await db.database.query<{ body: string }>('select body from bridge.mirror');
    expect(JSON.parse(held?.body ?? '')).toMatchObject({ lot_name: 'other' });
  });

  test('is made on schedule, or for a notification', async () => {
    const { pull } = await startPuller();
    await pull('awards', never);
    await pull('awards', never);
    expect(source.asked).toHaveLength(1);
    for (let count = 0; count < 2; count += 1) await notify('awards');
    await pull('awards', never);
    expect(source.asked).toHaveLength(2);
    expect(await waiting()).toBe(0);
    const answered = await db.database.query<{ last_id: number }>('select after_id, last_id from bridge.answers');
    const newest = await db.database.query<{ id: number }>('select max(id) as id from bridge.inbox');
    expect(answered, 'which pull has answered them').toEqual([{ after_id: 0, last_id: newest[0]?.id }]);
  });

  test('is made again for a notification that came during it', async () => {
    const { pull } = await startPuller();
    source.append('awards', award(10));
    let announced = false;
    source.onRequest = async (_query, response) => {
      if (announced) return undefined;
      announced = true;
      // This page was made before the change that the notification announces.
      const data = [...(source.records.get('awards') ?? [])];
      source.append('awards', award(11));
      await notify('awards');
      response.writeHead(200, { 'content-type': 'application/json', 'feed-order': 'commit' });
      response.end(JSON.stringify({ data, next: null }));
      return true;
    };
    await pull('awards', never);
    expect(await mirrored()).toEqual([idOf(10), idOf(11)]);
    expect(await waiting()).toBe(0);
  });

  test('is made by one of two pullers at once, and a wake-up of the other is not lost', async () => {
    const [a, b] = await Promise.all([startPuller(), startPuller()]);
    source.append('awards', award(10), award(11), award(12));
    let pulls = 0;
    source.onRequest = async (query) => {
      pulls += 1;
      expect(pulls, 'never two requests at once').toBe(1);
      if (!query.has('cursor') && source.asked.length === 1) {
        // A notification whose wake-up reaches the process that does not hold the lease.
        await notify('awards');
        await b.pull('awards', never);
      }
      pulls -= 1;
      return undefined;
    };
    await Promise.all([a.pull('awards', never), a.pull('awards', never)]);
    await b.pull('awards', never);
    expect(await mirrored()).toHaveLength(3);
    expect(await versions()).toBe(3);
    expect(await waiting()).toBe(0);
  });
});

describe('an interrupted pull', () => {
  test('goes on after the last page that was stored, and loses nothing', async () => {
    const records = [10, 11, 12, 13, 14].map(award);
    source.append('awards', ...records);
    const stop = new AbortController();
    source.onRequest = (query) => {
      if (query.get('cursor') === idOf(11)) stop.abort(new Error('the process stops'));
      return undefined;
    };
    const first = await startPuller();
    await first.pull('awards', stop.signal);
    expect(await mirrored()).toHaveLength(2);
    expect(await checkpoint()).toMatchObject({ watermark: records[1]?.modified, failures: 0, last_error: null });
    source.onRequest = () => undefined;
    const second = await startPuller();
    await second.pull('awards', never);
    expect(await mirrored()).toEqual(records.map(({ id }) => id));
    expect(await versions()).toBe(5);
  });

  test('of a feed that was empty at first goes on after the last page, too, however few pages the quota allows', async () => {
    await db.database.query("update bridge.checkpoints set source_profile = '{}'");
    const { pull } = await startPuller();
    await pull('awards', never);
    const records = Array.from({ length: 20 }, (_each, index) => award(10 + index));
    source.append('awards', ...records);
    let left = 0;
    source.onRequest = (_query, response) => {
      left -= 1;
      if (left >= 0) return false;
      response.writeHead(429, { 'retry-after': '60' }).end();
      return true;
    };
    const held: number[] = [];
    for (let minute = 0; minute < 5; minute += 1) {
      clock.advance(2 * pollMs);
      left = 6;
      await pull('awards', never);
      held.push((await mirrored()).length);
    }
    // Two of the requests prove the order; later reads begin with the record of the watermark.
    expect(new Set(held.slice(0, 3)).size, 'each of the first pulls comes further').toBe(3);
    expect(held.at(-1)).toBe(20);
    expect(await checkpoint()).toMatchObject({ watermark: records.at(-1)?.modified, failures: 0, last_error: null });
  });

  test('whose process dies in the middle of a page leaves nothing of that page', async () => {
    const records = [10, 11, 12, 13].map(award);
    source.append('awards', ...records);
    const first = await startPuller();
    source.onRequest = async (query) => {
      if (query.get('cursor') === idOf(11)) await first.process.die();
      return undefined;
    };
    await first.pull('awards', never).catch(() => undefined);
    const held = await mirrored();
    const watermark = (await checkpoint())?.watermark;
    // The page before may be in the middle of being stored while this one is requested.
    expect([null, records[1]?.modified, records[3]?.modified]).toContain(watermark);
    expect(records.filter(({ modified }) => modified <= (watermark ?? '')).map(({ id }) => id)).toEqual(held);
    source.onRequest = () => undefined;
    const second = await startPuller();
    clock.advance(10 * pollMs);
    await second.pull('awards', never);
    expect(await mirrored()).toEqual(records.map(({ id }) => id));
  });

  test.each(['the answer', 'an error'])(
    'that has lost its lease when %s comes ends without an error, and writes nothing',
    async (what) => {
      source.append('awards', award(10));
      const [first, second] = [await startPuller(), await startPuller()];
      source.onRequest = async (_query, response) => {
        source.onRequest = () => undefined;
        // The process was paused; another one has taken the lease over, and has finished its pull.
        await db.database.query(`update bridge.leases set expires = clock_timestamp() - interval '1 ms'`);
        await second.pull('awards', never);
        if (what === 'the answer') return undefined;
        response.writeHead(500).end();
        return true;
      };
      const state = async () => (await db.database.query('select xmin::text, * from bridge.checkpoints'))[0];
      await first.pull('awards', never);
      expect(source.asked).toHaveLength(2);
      expect(await checkpoint()).toMatchObject({ failures: 0, last_error: null });
      const before = await state();
      await first.pull('awards', never);
      expect(await state()).toEqual(before);
    },
  );

  test('does not move the watermark, waits longer each time despite notifications, and recovers', async () => {
    source.append('awards', award(10), award(11), award(12));
    const { pull } = await startPuller();
    source.onRequest = (_query, response) => {
      response.writeHead(500).end();
      return true;
    };
    const waits: number[] = [];
    for (let count = 0; count < 12; count += 1) {
      const beganMs = clock.nowMs();
      await pull('awards', never);
      const asked = source.asked.length;
      for (let again = 0; again < 3; again += 1) {
        await notify('awards');
        await pull('awards', never);
      }
      expect(source.asked, 'no request while it waits').toHaveLength(asked);
      const nextMs = Date.parse((await checkpoint())?.next_pull ?? '');
      waits.push(nextMs - beganMs);
      clock.advance(nextMs - clock.nowMs());
    }
    expect(await checkpoint()).toMatchObject({
      watermark: null,
      failures: 12,
      last_error: expect.stringContaining('500'),
    });
    // 2 s, doubled each time up to 5 minutes, and up to a fifth more.
    for (const [index, waitMs] of waits.entries()) {
      const leastMs = Math.min(300_000, 2_000 * 2 ** index);
      expect(waitMs).toBeGreaterThanOrEqual(leastMs);
      expect(waitMs).toBeLessThanOrEqual(leastMs * 1.2);
    }
    source.onRequest = () => undefined;
    await pull('awards', never);
    expect(await checkpoint()).toMatchObject({ failures: 0, last_error: null });
    expect(await mirrored()).toHaveLength(3);
    expect(await waiting()).toBe(0);
  });

  test('begins a new row of failures where it has come further', async () => {
    source.append('awards', ...Array.from({ length: 30 }, (_, index) => award(10 + index)));
    const { pull } = await startPuller();
    let answered = 0;
    source.onRequest = (_query, response) => {
      answered -= 1;
      if (answered >= 0) return false;
      response.writeHead(500).end();
      return true;
    };
    const seen: unknown[] = [];
    let before = '';
    for (const requests of [4, 4, 0, 0, 4]) {
      answered = requests;
      const beganMs = clock.nowMs();
      await pull('awards', never);
      const { failures, next_pull: next, watermark } = (await checkpoint()) ?? {};
      const waitMs = Date.parse(next ?? '') - beganMs;
      const further = (watermark ?? '') > before;
      seen.push({ further, failures, waits: [2, 4, 8].find((seconds) => waitMs <= seconds * 1_200) });
      before = watermark ?? '';
      clock.advance(waitMs);
    }
    expect(seen).toEqual([
      { further: true, failures: 1, waits: 2 },
      { further: true, failures: 1, waits: 2 },
      { further: false, failures: 2, waits: 4 },
      { further: false, failures: 3, waits: 8 },
      { further: true, failures: 1, waits: 2 },
    ]);
  });

  test('is not made again while notifications are throttled, however many come', async () => {
    const { pull } = await startPuller({ throttleMs: 4_000 });
    await pull('awards', never);
    const asked = source.asked.length;
    for (let count = 0; count < 3; count += 1) {
      clock.advance(1_300);
      await notify('awards');
      await pull('awards', never);
    }
    expect(source.asked).toHaveLength(asked);
    clock.advance(200);
    await pull('awards', never);
    expect(source.asked).toHaveLength(asked + 1);
    expect(await waiting()).toBe(0);
  });

  test('that has to wait for the quota has not failed, and no notification ends its wait', async () => {
    const { pull } = await startPuller();
    source.onRequest = (_query, response) => {
      response.writeHead(429, { 'retry-after': '40' }).end();
      return true;
    };
    await pull('awards', never);
    await notify('awards');
    clock.advance(39_000);
    await pull('awards', never);
    expect(source.asked).toHaveLength(1);
    expect(await checkpoint()).toMatchObject({ failures: 0, last_error: expect.stringContaining('429') });
    source.onRequest = () => undefined;
    clock.advance(20_000);
    await pull('awards', never);
    expect(await checkpoint()).toMatchObject({ failures: 0, last_error: null });
    expect(await waiting()).toBe(0);
  });

  test('waits as long as Retry-After says', async () => {
    const { pull } = await startPuller();
    source.onRequest = (_query, response) => {
      response.writeHead(429, { 'retry-after': '600' }).end();
      return true;
    };
    await pull('awards', never);
    expect((await checkpoint())?.next_pull).toBe(addMicros(timestampNow(clock), 600_000_000));
  });

  test.each([
    ['an id', { id: undefined }, 'id is missing'],
    ['a time that can be read', { modified: 'yesterday' }, 'modified must be'],
    ['an id that can be stored', { id: 'a\0b' }, 'id cannot be stored'],
  ])('by a record without %s keeps the pages before it, and says which record it is', async (_what, fault, text) => {
    const { pull } = await startPuller();
    const records = [10, 11, 12].map(award);
    source.append('awards', ...records, { ...award(13), ...fault } as never);
    await pull('awards', never);
    expect(await mirrored()).toEqual([idOf(10), idOf(11)]);
    const state = await checkpoint();
    expect(state).toMatchObject({ watermark: records[1]?.modified, failures: 1 });
    expect(state?.last_error).toContain('Record 1');
    expect(state?.last_error).toContain(text);
    expect(state?.last_error).toContain('bridge checkpoint set main/awards');
  });
});

describe('a feed that does not declare its order', () => {
  test('is read at once, and its watermark advances once the records are older than the lateness bound', async () => {
    const { pull } = await startPuller();
    source.commitOrdered = false;
    const records = [award(10), award(11), award(12)];
    source.append('awards', ...records);
    await pull('awards', never);
    expect(await mirrored()).toEqual([idOf(10), idOf(11), idOf(12)]);
    expect(await checkpoint()).toMatchObject({ watermark: null, failures: 0 });
    clock.advance(31_000);
    await pull('awards', never);
    expect((await checkpoint())?.watermark).toBe(records[2]?.modified);
  });

  test('shows a record that was committed late, before records that were read already', async () => {
    const { pull } = await startPuller();
    source.commitOrdered = false;
    const [late, ...early] = [award(10), award(11), award(12)];
    source.append('awards', ...early);
    await pull('awards', never);
    if (late) source.records.set('awards', [late, ...early]);
    clock.advance(31_000);
    await pull('awards', never);
    expect(await mirrored()).toEqual([idOf(10), idOf(11), idOf(12)]);
  });

  test('is scanned in windows that fit a page', async () => {
    const { pull } = await startPuller();
    source.commitOrdered = false;
    const records = Array.from({ length: 25 }, (_, index) => ({
      ...award(10 + index),
      modified: `2029-01-01T01:00:${index + 10}.000000Z`,
    }));
    source.append('awards', ...records);
    await pull('awards', never);
    clock.advance(31_000);
    await pull('awards', never);
    expect(await mirrored()).toHaveLength(25);
    expect((await checkpoint())?.watermark).toBe(records.at(-1)?.modified);
  });
});

test('a first read that goes on at a page is followed at once by a read of what changed before that page', async () => {
  source.commitOrdered = false;
  // Their stamps lie in the future, and stay equal when they change: no window scan reaches them today.
  const [first, ...others] = [10, 11, 12].map((n) => ({ ...award(n), modified: '2099-01-01T00:00:00.000000Z' }));
  if (!first) throw new Error('no award');
  source.records.set('awards', [first, ...others]);
  const { pull } = await startPuller();
  source.onRequest = (query, response) => {
    if (query.get('cursor') !== idOf(11)) return undefined;
    response.writeHead(503).end();
    return true;
  };
  await pull('awards', never);
  expect(await mirrored()).toHaveLength(2);
  source.onRequest = () => undefined;
  source.records.set('awards', [{ ...first, awards: [] }, ...others]);
  await notify('awards');
  clock.advance(10_000);
  await pull('awards', never);
  expect(await waiting()).toBe(0);
  const [held] = await db.database.query<{ body: string }>('select body from bridge.mirror where record_id = $1', [
    first.id,
  ]);
  expect(JSON.parse(held?.body ?? '')).toMatchObject({ id: first.id, awards: [] });
  expect(source.asked.at(-3), 'the first read has gone on').toContain(`cursor=${idOf(11)}`);
});

describe('a feed that breaks the order of commits', () => {
  test.each([
    ['on one page', [10, 12, 11], 3],
    ['from page to page', [10, 12, 11], 2],
  ])('(%s) is read in windows from then on, from the beginning, and says why', async (_what, order, pageSize) => {
    const { pull } = await startPuller({ pageSize });
    const made = new Map([10, 11, 12].map((n) => [n, award(n)]));
    source.append('awards', ...order.map((n) => made.get(n) as never));
    await pull('awards', never);
    const [state] = await db.database.query<{ why: string; watermark: string | null; broken: string | null }>(
      `select source_profile ->> 'orderBrokenWhy' as why, source_profile ->> 'orderBroken' as broken, watermark
       from bridge.checkpoints where feed = 'awards'`,
    );
    expect(state?.why).toBe(`${made.get(11)?.modified} comes after ${made.get(12)?.modified}`);
    expect(state).toMatchObject({ watermark: null, broken: expect.any(String) });
    expect(await mirrored()).toEqual([idOf(10), idOf(11), idOf(12)]);
    // From now on its declaration is not believed: the watermark waits for the lateness bound.
    clock.advance(31_000);
    await pull('awards', never);
    expect((await checkpoint())?.watermark).toBe(made.get(12)?.modified);
  });

  test('is read from the beginning although a pull still follows the order while an audit finds that', async () => {
    const { pull } = await startPuller();
    source.append('awards', award(10), award(11), award(12));
    let found = false;
    source.onRequest = async (query) => {
      if (found || !query.has('cursor')) return undefined;
      found = true;
      const feed = { source: 'main', feed: 'awards' };
      const broken = { why: 'an audit has found a record', now: timestampNow(clock) };
      await db.database.transaction((tx) => saveOrderBroken(tx, feed, broken));
      return undefined;
    };
    await pull('awards', never);
    expect(await mirrored()).toEqual([idOf(10), idOf(11), idOf(12)]);
    expect((await checkpoint())?.watermark).toBeNull();
  });
});

describe('pages that lead nowhere', () => {
  test.each([
    ['the same next link again', { data: 'record', next: '/api/feeds/awards?cursor=1' }],
    ['a next link without records', { data: 'none', next: '/api/feeds/awards?cursor=1' }],
  ])(
    '(%s) are not followed for ever, and fail the pull only where nothing could be read',
    async (_what, { data, next }) => {
      const { pull } = await startPuller();
      const record = award(10);
      source.onRequest = (_query, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ data: data === 'none' ? [] : [record], next }));
        return true;
      };
      await pull('awards', never);
      const first = source.asked.length;
      // Where no record is known, windows look for one, down to a microsecond.
      expect(first).toBeLessThanOrEqual(data === 'none' ? 70 : 6);
      const { failures, last_error: error } = (await checkpoint()) ?? {};
      expect([failures, error?.includes('"next" returns to what was shown')]).toEqual(
        data === 'none' ? [1, true] : [0, undefined],
      );
      if (data !== 'none') return;
      // It is not done with each pull: after a failure a notification does not count.
      await notify('awards');
      await pull('awards', never);
      expect(source.asked).toHaveLength(first);
    },
  );
});

describe('marking', () => {
  const flow = flowOf({ name: 'erp' });
  const marked = async (name = 'erp') =>
    (
      await db.database.query<{ key: string; wanted: number }>(
        'select key, wanted from bridge.flow_documents where flow = $1 and due is not null order by key',
        [name],
      )
    ).map(({ key, wanted }) => [key, wanted]);
  const deliverAll = () => db.database.query('update bridge.flow_documents set due = null, reconciled = wanted');
  const keyOf = (event: number, supplier: number) => `${idOf(event)}/${idOf(supplier)}`;

  test('happens in the transaction that stores the record: both are visible at once', async () => {
    await registerFlows(db.database, [flow], timestampNow(clock));
    const { pull } = await startPuller();
    source.append('awards', lotAwardRecord(idOf(10), idOf(1), [{ supplier: idOf(2) }, { supplier: idOf(3) }]));
    // When marking the documents fails, the record is rolled back, too.
    await db.database.query(
      `create function refuse() returns trigger as 'begin raise exception ''no''; end' language plpgsql`,
    );
    await db.database.query('create trigger refuse before insert on bridge.flow_documents execute function refuse()');
    await pull('awards', never);
    expect(await mirrored()).toEqual([]);
    expect((await checkpoint())?.watermark).toBeNull();
    await db.database.query('drop trigger refuse on bridge.flow_documents');
    clock.advance(pollMs);
    await pull('awards', never);
    expect(await marked()).toEqual([
      [keyOf(1, 2), 1],
      [keyOf(1, 3), 1],
    ]);
  });

  test('reaches a supplier that has lost its award, and all suppliers of a changed event, and no others', async () => {
    await registerFlows(db.database, [flow], timestampNow(clock));
    const { pull } = await startPuller();
    source.append(
      'awards',
      lotAwardRecord(idOf(10), idOf(1), [{ supplier: idOf(2) }, { supplier: idOf(3) }]),
      lotAwardRecord(idOf(11), idOf(9), [{ supplier: idOf(2) }]),
    );
    await pull('awards', never);
    await deliverAll();
    clock.advance(pollMs);
    source.append('awards', lotAwardRecord(idOf(10), idOf(1), [{ supplier: idOf(3) }]));
    await pull('awards', never);
    expect(await marked()).toEqual([
      [keyOf(1, 2), 2],
      [keyOf(1, 3), 2],
    ]);
    await deliverAll();
    source.append('sourcing-events', eventRecord(idOf(1), [idOf(2), idOf(3)]));
    await pull('sourcing-events', never);
    expect(await marked()).toEqual([
      [keyOf(1, 2), 3],
      [keyOf(1, 3), 3],
    ]);
  });

  test('takes a UUID in upper case as the same one', async () => {
    await registerFlows(db.database, [flow], timestampNow(clock));
    const { pull } = await startPuller();
    const id = 'ABCDEF00-0000-4000-8000-00000000000A';
    const record = lotAwardRecord(id, id, [{ supplier: id }]);
    source.append('awards', record);
    await pull('awards', never);
    clock.advance(pollMs);
    source.append('awards', { ...record, id: id.toLowerCase(), modified: nextModified() });
    await pull('awards', never);
    expect(await mirrored()).toEqual([id.toLowerCase()]);
    expect((await marked())[0]?.[0]).toBe(`${id.toLowerCase()}/${id.toLowerCase()}`);
  });

  test('marks all documents of a flow that is registered later or anew, and none of other flows', async () => {
    await registerFlows(db.database, [flow], timestampNow(clock));
    const { pull } = await startPuller();
    source.append('awards', ...[10, 11, 12].map((n) => lotAwardRecord(idOf(n), idOf(n), [{ supplier: idOf(2) }])));
    await pull('awards', never);
    await deliverAll();
    const second = flowOf({ name: 'later' });
    await registerFlows(db.database, [flow, second], timestampNow(clock));
    expect(await marked('later')).toHaveLength(3);
    expect(await marked()).toHaveLength(0);
    await deliverAll();
    await registerFlows(db.database, [flow, second], timestampNow(clock));
    expect(await marked('later'), 'nothing has changed').toHaveLength(0);
    await registerFlows(db.database, [{ ...flow, quantity_column: 'Volume' }, second], timestampNow(clock));
    expect(await marked()).toHaveLength(3);
    expect(await marked('later')).toHaveLength(0);
  });

  test('skips a flow that is no longer configured; once it is back, all its documents are marked', async () => {
    await registerFlows(db.database, [flow], timestampNow(clock));
    const { pull } = await startPuller();
    source.append('awards', lotAwardRecord(idOf(10), idOf(1), [{ supplier: idOf(2) }]));
    await pull('awards', never);
    await deliverAll();
    await registerFlows(db.database, [], timestampNow(clock));
    clock.advance(pollMs);
    source.append('awards', lotAwardRecord(idOf(10), idOf(1), [{ supplier: idOf(3) }]));
    await pull('awards', never);
    expect(await marked()).toEqual([]);
    await registerFlows(db.database, [flow], timestampNow(clock));
    expect((await marked()).map(([key]) => key)).toEqual([keyOf(1, 2), keyOf(1, 3)]);
  });

  test('misses no document when flows are registered during pulls of several feeds of one event', async () => {
    const { pull } = await startPuller({ pageSize: 3 });
    const count = 30;
    source.append(
      'awards',
      ...Array.from({ length: count }, (_, n) => lotAwardRecord(idOf(100 + n), idOf(1), [{ supplier: idOf(200 + n) }])),
    );
    source.append('sourcing-events', eventRecord(idOf(1), []));
    const flows = Array.from({ length: 6 }, (_, n) => flowOf({ name: `flow-${n}` }));
    const registering = (async () => {
      for (const [index] of flows.entries())
        await registerFlows(db.database, flows.slice(0, index + 1), timestampNow(clock));
    })();
    await Promise.all([pull('awards', never), pull('sourcing-events', never), registering]);
    for (const { name } of flows) expect(await marked(name)).toHaveLength(count);
  });

  test('of awards makes what waits for its end due when it has read to the end, also if it has found nothing', async () => {
    const waiting = flowOf({ name: 'erp', documents: ['award', 'event-awards'] });
    await registerFlows(db.database, [waiting], timestampNow(clock));
    const { pull, woken } = await startPuller();
    source.append('awards', lotAwardRecord(idOf(10), idOf(1), [{ supplier: idOf(2) }]));
    await pull('awards', never);
    // The pusher has looked at both: they are looked at again later.
    const later = addMicros(timestampNow(clock), 2 * pollMs * 1_000);
    await db.database.query(`update bridge.flow_documents set due = $1, error_type = 'not-yet'`, [later]);
    const wakesBefore = woken.length;
    clock.advance(pollMs);
    await pull('awards', never);
    expect(woken.length).toBe(wakesBefore + 1);
    expect(await db.database.query('select kind, due from bridge.flow_documents order by kind')).toEqual([
      { kind: 'award', due: later },
      { kind: 'event-awards', due: timestampNow(clock) },
    ]);
  });
});
