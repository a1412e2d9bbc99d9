/** The page of events costs the same, wherever it is in the list: an export reads them all. */
import { expect, test } from 'vitest';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { findEventPage } from '#bridge/operate/history/list-events.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createTestDatabase } from '../../../harness/test-database.ts';
import { eventRecord, idOf } from '../../parts.ts';

const { database } = await createTestDatabase();
await database.query(
  `insert into bridge.mirror (source, feed, record_id, modified, content_hash, body, seen)
   select source, 'sourcing-events', 'event ' || n, '2030-01-01'::timestamptz + n / 2 * interval '1 second', '', '{}',
     now()
   from generate_series(1, 4000) n, unnest(array['east', 'west']) as s (source)`,
);
await database.query('analyze bridge.mirror');

test('pages of two sources, with events of one time, show each event once, the newest first', async () => {
  const seen: string[] = [];
  let after: Awaited<ReturnType<typeof findEventPage>>['events'][number] | undefined;
  for (let hasMore = true; hasMore; ) {
    const page = await findEventPage(database, { sources: ['east', 'west'] }, { limit: 999, after });
    seen.push(...page.events.map(({ modified, source, id }) => `${modified} ${source} ${id}`));
    ({ hasMore } = page);
    after = page.events.at(-1);
  }
  expect(new Set(seen).size).toBe(8_000);
  expect(seen).toEqual(seen.toSorted().toReversed());
});

interface Plan {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

/** How many rows of the mirror the plan has looked at. */
function rowsRead(plan: Plan): number {
  const own = plan['Relation Name'] === 'mirror' ? plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0) : 0;
  return (plan.Plans ?? []).reduce((sum, part) => sum + rowsRead(part), own);
}

test('a page in the middle of the list reads no row of a page beyond it', async () => {
  let read = 0;
  const explained: Sql = {
    ...database,
    query: async (text, params) => {
      const [row] = await database.query<{ 'QUERY PLAN': readonly { Plan: Plan }[] }>(
        `explain (analyze, format json) ${typeof text === 'string' ? text : text.text}`,
        params,
      );
      read = row?.['QUERY PLAN'][0] ? rowsRead(row['QUERY PLAN'][0].Plan) : Number.NaN;
      return [];
    },
  };
  const after = { modified: timestampFromMs(Date.UTC(2030, 0, 1, 0, 16, 40)), source: 'east', id: 'event 2000' };
  await findEventPage(explained, { sources: ['east'] }, { limit: 10, after });
  // The page, one more that shows whether another follows, and those of the same second at both of its ends.
  expect(read).toBeGreaterThan(10);
  expect(read).toBeLessThan(20);
});

test('an event whose members are not what the contract says hides no other event', async () => {
  const { database } = await createTestDatabase();
  const records = [
    eventRecord(idOf(1), [idOf(50)], { is_test: true }),
    eventRecord(idOf(2), [], { is_test: 'perhaps', suppliers: 'none', status: 7 }),
    eventRecord(idOf(3), []),
  ];
  const now = '2030-01-01T00:00:00.000000Z';
  await database.transaction((tx) =>
    storeRecords(tx, { source: 'main', feed: 'sourcing-events', now, records, shownSince: undefined }),
  );
  const { events } = await findEventPage(database, { sources: ['main'] }, { limit: 10 });
  expect(events.map(({ id, isTest, suppliers, status }) => [id, isTest, suppliers, status])).toEqual([
    [idOf(3), false, 0, 'CLOSED'],
    [idOf(2), false, 0, '7'],
    [idOf(1), true, 1, 'CLOSED'],
  ]);
});
