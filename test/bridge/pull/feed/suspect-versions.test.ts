/** The SQL of suspect versions, with the times of the example at the head of the module. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { OlderVersion } from '#bridge/mirror/store-records.ts';
import { moveWatermark, openCheckpoints } from '#bridge/pull/feed/checkpoint-store.ts';
import { dropSuspectsNotShown, readDueRereads, recordSuspects } from '#bridge/pull/feed/suspect-versions.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());

const timeOf = (text: string): Timestamp => `2030-01-01T${text}Z`;
const stamp = timeOf('09:50:00.000000');
const latenessMs = 30_000;
const older: OlderVersion = { recordId: 'A', modified: stamp, hash: Buffer.from('content'), body: '{"id":"A"}' };

/** A feed whose watermark stands at 09:40:00, and in which a scan has shown A as of 09:50:00 at 10:05:00. */
async function startSuspect(source: string) {
  const { database } = db;
  const feed = { source, feed: 'awards' };
  await openCheckpoints(database, [feed], timeOf('10:05:00.000000'));
  await moveWatermark(database, feed, { watermark: timeOf('09:40:00.000000'), changed: 0 });
  const showAt = async (time: string) =>
    (await recordSuspects(database, feed, [older], { now: timeOf(`${time}.000000`), latenessMs })).map(
      ({ recordId }) => recordId,
    );
  expect(await showAt('10:05:00')).toEqual([]);
  const suspects = async () => {
    const [row] = await database.query<{ count: number }>(
      'select count(*)::int as count from bridge.suspect_versions where source = $1',
      [source],
    );
    return row?.count;
  };
  return { database, feed, showAt, suspects };
}

test('a suspect version stops the watermark, and its stamp is read again after the lateness bound', async () => {
  const { database, feed } = await startSuspect('stops');
  const stopped = timeOf('09:49:59.999999');
  expect(await moveWatermark(database, feed, { watermark: timeOf('10:04:00.000000'), changed: 0 })).toBe(stopped);
  const latest = timeOf('11:00:00.000000');
  expect(await readDueRereads(database, feed, { now: timeOf('10:05:29.999999'), latest })).toEqual([]);
  const now = timeOf('10:05:30.000000');
  expect(await readDueRereads(database, feed, { now, latest })).toEqual([{ after: stopped, to: stamp, tries: 0 }]);
});

test('it is believed once it has been shown for the lateness bound', async () => {
  const { showAt, suspects } = await startSuspect('believed');
  expect(await showAt('10:05:20')).toEqual([]);
  expect(await suspects()).toBe(1);
  expect(await showAt('10:05:30')).toEqual(['A']);
  expect(await suspects()).toBe(0);
});

test('it is dropped when a complete read of its stamp does not show it: the watermark goes on', async () => {
  const { database, feed, suspects } = await startSuspect('dropped');
  const since = timeOf('10:05:30.000000');
  const now = timeOf('10:05:31.000000');
  await dropSuspectsNotShown(database, feed, { after: timeOf('09:49:59.999999'), to: stamp, since, now });
  expect(await suspects()).toBe(0);
  const target = timeOf('10:04:00.000000');
  expect(await moveWatermark(database, feed, { watermark: target, changed: 0 })).toBe(target);
});
