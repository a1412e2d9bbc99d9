import { expect, test } from 'vitest';
import { pruneInbox } from '#bridge/receive/store-notifications.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createTestDatabase } from '../../harness/test-database.ts';

const { database } = await createTestDatabase();

test('old notifications and answers go in batches, ten a call, and the others stay', async () => {
  await database.query(
    `insert into bridge.inbox (source, trigger, body, received)
       select 'main', 'T', '{}', case when n % 4 = 0 then '2030-01-10Z'::timestamptz else '2030-01-01Z' end
       from generate_series(1, 72000) n;
     insert into bridge.answers (source, feed, after_id, last_id, pull, answered)
       values ('main', 'awards', 0, 1, gen_random_uuid(), '2030-01-01Z'), ('main', 'awards', 1, 2, gen_random_uuid(), '2030-01-10Z')`,
  );
  const batches: number[] = [];
  const counted: Sql = {
    ...database,
    query: async (...args) => {
      const rows = await database.query<never>(...args);
      batches.push(rows.length);
      return rows;
    },
  };
  expect(await pruneInbox(counted, '2030-01-16T00:00:00.000000Z', 14)).toBe(false);
  expect(batches).toEqual([1, ...Array.from({ length: 10 }, () => 5_000)]);
  expect(await pruneInbox(counted, '2030-01-16T00:00:00.000000Z', 14)).toBe(true);
  expect(batches.slice(11)).toEqual([0, 4_000]);
  const left = await database.query(
    `select (select count(*)::int from bridge.inbox) as inbox, (select count(*)::int from bridge.answers) as answers,
       (select count(*)::int from bridge.inbox where received < '2030-01-02Z') as old`,
  );
  expect(left).toEqual([{ inbox: 18_000, answers: 1, old: 0 }]);
});
