import { beforeEach, expect, test } from 'vitest';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { loadAwardsOfEvents } from '#bridge/mirror/assemble/awards-of-events.ts';
import { makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { eventRecord, flowOf, idOf, lotAwardRecord, nextModified } from '../../parts.ts';

const event = idOf(1);
const supplier = idOf(2);
const flow = flowOf({ documents: ['event-awards'] });
const at = (second: number) => `2030-01-01T00:00:0${second}.000000Z`;

let db: TestDatabase;

beforeEach(async () => {
  db = await createTestDatabase();
  await registerFlows(db.database, [flow], at(0));
  await db.database.query(`insert into bridge.checkpoints (source, feed, next_pull) values ('main', 'awards', now())`);
  return () => db.drop();
});

const store = (second: number, feed: FeedName, ...records: Record<string, unknown>[]) =>
  db.database.transaction((tx) => storeRecords(tx, { source: 'main', feed, records, now: at(second) }));
const readToEnd = (second: number) =>
  db.database.query('update bridge.checkpoints set watermark = $1, last_pull = $2', [nextModified(), at(second)]);
const lot = (n: number, cost: string) => lotAwardRecord(idOf(10 + n), event, [{ supplier, cost }]);
const key = { kind: 'event-awards', key: event };

test('a page that comes, and a pull that ends, while a document is made do not make it of a part of the awards', async () => {
  await store(1, 'sourcing-events', eventRecord(event, [supplier]));
  await store(1, 'awards', lot(1, '1'), lot(2, '2'));
  await readToEnd(1);
  const complete = await makeDocuments(db.database, flow, [key]);
  expect(complete.get(`event-awards ${event}`)).toMatchObject({ document: { total_cost: '3' } });

  await store(2, 'awards', lot(1, '10'));
  let reads = 0;
  const sql: Sql = {
    ...db.database,
    query: async (statement, params) => {
      const rows = await db.database.query(statement, params);
      reads += /bridge\.checkpoints|feed = 'awards'/.test(typeof statement === 'string' ? statement : '') ? 1 : 0;
      if (reads === 1) {
        reads += 1;
        await store(3, 'awards', lot(2, '20'));
        await readToEnd(3);
      }
      return rows as never;
    },
  };
  const made = await makeDocuments(sql, flow, [key]);
  expect(reads).toBeGreaterThan(2);
  expect(made.get(`event-awards ${event}`)).toMatchObject({ made: 'not-yet' });
});

test('all awards of an event are read, however many pages of rows they are, and none of another event', async () => {
  const count = 1_001;
  await store(1, 'awards', ...Array.from({ length: count }, (_, n) => lot(n, '1')));
  await store(1, 'awards', lotAwardRecord(idOf(9_999), idOf(3), [{ supplier }]));
  const held = await loadAwardsOfEvents(db.database, 'main', [event, idOf(4)]);
  expect([...held].map(([id, { awards }]) => [id, awards.length])).toEqual([
    [event, count],
    [idOf(4), 0],
  ]);
});

test('documents of whole events are made together only while their records fit into the memory that is meant for it', async () => {
  const other = idOf(3);
  await store(1, 'sourcing-events', eventRecord(event, [supplier]), eventRecord(other, [supplier]));
  await store(1, 'awards', lot(1, '1'), lotAwardRecord(idOf(99), other, [{ supplier }]));
  await readToEnd(1);
  const keys = [key, { kind: 'event-awards', key: other }];
  expect((await makeDocuments(db.database, flow, keys)).size).toBe(2);
  expect([...(await makeDocuments(db.database, flow, keys, { bytesMax: 1 })).keys()]).toEqual([
    `event-awards ${event}`,
  ]);
});
