/** After the erasure of a source nothing names it, and what belongs to another one is as it was. */
import { expect, test } from 'vitest';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { eraseSource, isKnownSource } from '#bridge/operate/erasure/erase-source.ts';
import { openCheckpoints } from '#bridge/pull/feed/checkpoint-store.ts';
import { storeNotifications } from '#bridge/receive/store-notifications.ts';
import { documentKinds } from '#connector/documents.ts';
import { timestampNow } from '#platform/clock.ts';
import { allText } from '../../../harness/all-text.ts';
import { killedAfter } from '../../../harness/killed-after.ts';
import { eventRecord, idOf } from '../../parts.ts';
import { createFakeErp } from '../../push/fake-erp.ts';
import { createPusher, event, type Pusher, supplier } from '../../push/pusher.ts';

/** What a source has: `n` keeps the ids of two sources apart. */
async function fill({ db: { database }, clock }: Pusher, source: string, n: number): Promise<void> {
  const now = timestampNow(clock);
  await openCheckpoints(database, [{ source, feed: 'awards' }], now);
  await database.transaction(async (tx) => {
    for (const name of ['before', 'after'])
      await storeRecords(tx, {
        source,
        feed: 'sourcing-events',
        records: [eventRecord(n === 1 ? event : idOf(n), [supplier(0)], { name: `${name} of ${source}` })],
        now,
      });
    await storeResources(tx, {
      source,
      kind: 'supplier-master',
      objects: [{ external_id: `V-${n}`, name: source, fields: {}, contacts: [] }],
      observed: now,
      now,
    });
  });
  await storeNotifications(database, [
    { source, trigger: 'T', feed: 'awards', body: Buffer.from('{}'), receivedMs: clock.nowMs() },
  ]);
  await database.query(
    `insert into bridge.alerts (channel, kind, subject, id, since, summary, action)
       values ('email', 'k', 'feed ${source}/awards', '${idOf(n)}', '${now}', 's', 'a');
     insert into bridge.intakes (name, source, stream, connector, next_read) values ('in-${source}', '${source}', 's', 'c', '${now}');
     insert into bridge.intake_records (intake, erp_key, source, content_hash, body, first_seen, seen)
       values ('in-${source}', 'E', '${source}', '\\x00', '{}', '${now}', '${now}');
     insert into bridge.intake_events (id, intake, source, make, group_key, state, created, ready)
       values ('${idOf(n)}', 'in-${source}', '${source}', 'event', 'g', 'made', '${now}', '${now}');
     insert into bridge.intake_members (event, intake, erp_key, lots, need_hash)
       values ('${idOf(n)}', 'in-${source}', 'E', 1, '\\x00')`,
  );
}

async function twoSources(): Promise<Pusher> {
  const pusher = await createPusher(1, { documents: [...documentKinds] });
  await fill(pusher, 'main', 1);
  const erp = createFakeErp({ kinds: [...documentKinds] });
  await (await pusher.worker(erp)).push();
  await pusher.db.database.query(
    `insert into bridge.flows (name, source, kinds) values ('other-flow', 'other', '{sourcing-event}')`,
  );
  await fill(pusher, 'other', 2);
  return pusher;
}

const linesOf = async ({ db }: Pusher) =>
  (await allText(db.database, 'bridge')).filter((line) => !/^bridge\.(migrations|leases) /.test(line)).sort();

test('nothing of it is left, and nothing of another one has changed', async () => {
  const pusher = await twoSources();
  const before = await linesOf(pusher);
  const ofOther = before.filter((line) => line.includes('other'));
  expect(ofOther.length).toBeGreaterThan(10);
  const removed = await eraseSource(pusher.db.database, 'main');
  const after = await linesOf(pusher);
  expect(after.filter((line) => /\bmain\b|\(erp,|,erp,/.test(line))).toEqual([]);
  expect(after.filter((line) => line.includes('other'))).toEqual(ofOther);
  expect(Object.values(removed).reduce((sum, rows) => sum + rows, 0)).toBeGreaterThan(12);
  expect(removed).toMatchObject({ 'bridge.flow_documents': expect.any(Number), 'bridge.attempts': expect.any(Number) });
  expect([await isKnownSource(pusher.db.database, 'main'), await isKnownSource(pusher.db.database, 'other')]).toEqual([
    false,
    true,
  ]);
});

test('killed at any statement, it goes on', async () => {
  const pusher = await twoSources();
  const { database } = pusher.db;
  let kills = 0;
  for (let statements = 1; ; statements += 1) {
    const outcome = await eraseSource(killedAfter(database, statements), 'main').catch((error: unknown) => error);
    if (!(outcome instanceof Error)) break;
    expect(outcome.message).toBe('killed');
    kills += 1;
  }
  expect(kills).toBeGreaterThan(10);
  expect((await linesOf(pusher)).filter((line) => /\bmain\b|\(erp,|,erp,/.test(line))).toEqual([]);
});
