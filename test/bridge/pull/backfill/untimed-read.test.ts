/** Records without a time lie in no window: pages without a filter show them, in as many passes as it takes. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { openUntimedRead } from '#bridge/pull/backfill/backfill-store.ts';
import type { FeedPage } from '#client/source-client.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { testClock } from '../../parts.ts';
import { type FeedQuery, ListSource } from '../list-source.ts';
import { startReader } from '../reader.ts';

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

/** Without a filter, an answer of 20 records may be followed by more. */
const pageSize = 20;

/** A feed of these numbers of records, and a reader that has read nothing. */
async function start({ timed, untimed }: { timed: number; untimed: number }) {
  const clock = testClock();
  const source = new ListSource(clock);
  for (let n = 0; n < timed; n += 1) source.put(`r${n}`, n, 3_600 + (timed - n) * 60);
  for (let n = 0; n < untimed; n += 1) source.rows.set(`u${n}`, { value: 1_000 + n });
  const reader = await startReader({
    database: db.database,
    liveness,
    client: source.client,
    clock,
    settings: { page_size: pageSize },
  });
  return {
    clock,
    source,
    reader,
    /** The page sizes of the passes since `from`, by their first requests. */
    passes: (from = 0) =>
      source.asked
        .slice(from)
        .flatMap((at) => ('next' in at || at.modifiedAfter || at.modifiedBefore ? [] : [at.pageSize])),
    open: (passes: 0 | 1 | 'all') =>
      db.database.transaction((tx) => openUntimedRead(tx, reader.feed, { passes, now: timestampNow(clock) })),
    rows: async () => {
      const row = await reader.readRow<{ count: number }>(
        `select count(*)::int from bridge.backfills where source = $1 and kind = 'untimed'`,
      );
      return row?.count;
    },
  };
}

test('where the feed was never read by its pages, it takes two passes of different page sizes', async () => {
  const { source, reader, passes, open } = await start({ timed: 10, untimed: 25 });
  await open(0);
  await reader.backfill();
  expect(passes()).toEqual([20, 18]);
  expect(await reader.lastOf('untimed')).toMatchObject({
    finished: expect.any(String),
    changed: 35,
    records: 70,
    late_arrivals: 0,
    last_error: null,
  });
  expect(await reader.mirror()).toEqual(source.state);
});

test('after a first read of the news that saw the whole feed, one more pass is enough', async () => {
  const { source, reader, passes } = await start({ timed: 10, untimed: 25 });
  await reader.pull();
  expect(await reader.lastOf('untimed')).toMatchObject({ finished: null });
  const asked = source.asked.length;
  await reader.backfill();
  expect(passes(asked)).toEqual([18]);
  expect(await reader.lastOf('untimed')).toMatchObject({ finished: expect.any(String), changed: 0, records: 35 });
});

test('a pass that finds a record which the one before skipped is followed by another one', async () => {
  const { source, reader, passes, open } = await start({ timed: 10, untimed: 25 });
  // Each page of the first pass lacks u7.
  source.answer = (at) => {
    const isFirstPass = passes().length === 1;
    return isFirstPass ? without(source, at, 'u7') : undefined;
  };
  await open(0);
  await reader.backfill();
  expect(passes()).toEqual([20, 18, 14]);
  expect(await reader.mirror()).toEqual(source.state);
});

/** The answer of a feed without this record. */
function without(source: ListSource, at: FeedQuery, id: string): Partial<FeedPage> {
  const { pageSize: size, skip } =
    'next' in at ? (JSON.parse(at.next) as { pageSize: number; skip: number }) : { pageSize: at.pageSize, skip: 0 };
  const rows = [...source.rows].map(([rowId, row]) => ({ id: rowId, ...row })).filter((row) => row.id !== id);
  const end = skip + size;
  return {
    records: rows.slice(skip, end),
    next: end < rows.length ? JSON.stringify({ pageSize: size, skip: end }) : undefined,
  };
}

test('a page that is refused ends the reading with its words in the row, and it begins again after a wait', async () => {
  const { clock, source, reader, passes, open } = await start({ timed: 10, untimed: 25 });
  source.answer = (at) => {
    if ('next' in at) throw new AppError('invalid', 'The cursor has expired.', { recovery: { do: 'halt' } });
    return undefined;
  };
  await open(0);
  await reader.backfill();
  expect(await reader.lastOf('untimed')).toMatchObject({
    finished: null,
    failures: 1,
    records: 20,
    last_error: 'Its pages cannot be followed: The cursor has expired.',
  });
  source.answer = () => undefined;
  const asked = source.asked.length;
  await reader.backfill();
  expect(passes(asked), 'it waits').toEqual([]);
  clock.advance(60_000);
  await reader.backfill();
  expect(passes(asked)).toEqual([20, 18]);
  expect(await reader.lastOf('untimed')).toMatchObject({ finished: expect.any(String), last_error: null });
  expect(await reader.mirror()).toEqual(source.state);
});

test('a full page that names no next one, although more follow, is a failure: nothing counts as read', async () => {
  const { source, reader, open } = await start({ timed: 0, untimed: 25 });
  // It names a next page only where it is asked for 12 records, which is what its pages hold.
  source.answer = (at) => {
    if ('next' in at) return undefined;
    const records = [...source.rows].slice(0, Math.min(12, at.pageSize)).map(([id, row]) => ({ id, ...row }));
    return { records, next: at.pageSize === 12 ? JSON.stringify({ pageSize: 12, skip: 12 }) : undefined };
  };
  await open(0);
  await reader.backfill();
  expect(await reader.lastOf('untimed')).toMatchObject({
    finished: null,
    failures: 1,
    last_error: expect.stringContaining('a page of 12 records names no next page, although more follow'),
  });
});

test('a feed that one page has shown needs no pass: its row is finished when it is made', async () => {
  const { source, reader, rows } = await start({ timed: 3, untimed: 2 });
  await reader.pull();
  expect(await reader.lastOf('untimed')).toMatchObject({ finished: expect.any(String), records: 0 });
  const asked = source.asked.length;
  await reader.audit();
  expect(source.asked).toHaveLength(asked);
  expect(await rows()).toBe(1);
});

test('while one is open, no other one is opened', async () => {
  const { reader, open, rows } = await start({ timed: 10, untimed: 25 });
  await open(0);
  await open(1);
  await open('all');
  expect(await rows()).toBe(1);
  await reader.backfill();
  await open(1);
  expect(await rows()).toBe(2);
});

test('a feed without any time is read by its news, and no further time while nothing changes', async () => {
  const { source, reader, rows } = await start({ timed: 0, untimed: 5 });
  await reader.pullFor(100);
  expect(await rows()).toBe(1);
  source.rows.set('u5', { value: 5 });
  await reader.pullFor(100);
  expect(await reader.mirror()).toEqual(source.state);
  expect(await rows()).toBe(2);
});

test('an empty feed is read without a filter once', async () => {
  const { reader, rows } = await start({ timed: 0, untimed: 0 });
  for (let round = 0; round < 3; round += 1) {
    await reader.pullFor(100);
    await reader.audit();
  }
  expect(await reader.lastOf('untimed')).toMatchObject({ finished: expect.any(String), records: 0 });
  expect(await rows()).toBe(1);
});
