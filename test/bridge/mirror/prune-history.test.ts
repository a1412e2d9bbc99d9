import { beforeEach, expect, test } from 'vitest';
import { createHistoryPruning } from '#bridge/mirror/prune-history.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';

const now = '2030-01-01T00:00:00.000000Z';
let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
  return () => db.drop();
});

/** Versions that were replaced so many hours ago. */
const addHistory = (versions: number, hoursAgo: number) =>
  db.database.query(
    `insert into bridge.mirror_history (source, feed, record_id, modified, content_hash, body, seen, replaced)
     select 'main', 'awards', n || '/' || $2::int, $3, '', '{}', $3, $3::timestamptz - $2::int * interval '1 hour'
     from generate_series(1, $1) n`,
    [versions, hoursAgo, now],
  );
const left = async () =>
  (await db.database.query<{ n: number }>('select count(*)::int as n from bridge.mirror_history'))[0]?.n;

test('versions that were replaced longer ago than the setting are deleted; younger and current ones stay', async () => {
  await db.database.query(
    `insert into bridge.mirror (source, feed, record_id, modified, content_hash, body, seen)
     values ('main', 'awards', 'old', '2001-01-01', '', '{}', '2001-01-01')`,
  );
  await addHistory(3, 25);
  await addHistory(2, 23);
  await createHistoryPruning({ database: db.database, clock: testClock(), days: 1 })();
  expect(await left()).toBe(2);
  expect(await db.database.query('select record_id from bridge.mirror')).toEqual([{ record_id: 'old' }]);
});

test('housekeeping prunes once an hour', async () => {
  const clock = testClock();
  const prune = createHistoryPruning({ database: db.database, clock, days: 1 });
  await addHistory(1, 25);
  await prune();
  expect(await left()).toBe(0);
  await addHistory(1, 26);
  clock.advance(59 * 60_000);
  await prune();
  expect(await left()).toBe(1);
  clock.advance(60_000);
  await prune();
  expect(await left()).toBe(0);
});
