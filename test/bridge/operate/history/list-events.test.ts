import { expect, test } from 'vitest';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { findEventPage } from '#bridge/operate/history/list-events.ts';
import { createTestDatabase } from '../../../harness/test-database.ts';
import { eventRecord, idOf } from '../../parts.ts';

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
