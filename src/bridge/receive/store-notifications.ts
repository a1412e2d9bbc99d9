import { createHash } from 'node:crypto';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { type Database, prepared, type Sql } from '#platform/database/database.ts';

export interface ReceivedNotification {
  source: string;
  trigger: string;
  /** The feed that it speaks of; undefined for what is only acknowledged. */
  feed: FeedName | undefined;
  body: Buffer;
  received: Timestamp;
}

const insert = prepared(
  `insert into bridge.inbox (source, body_hash, trigger, feed, body, received, processed)
   select *, case when feed is null then received end
   from unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
     as notification (source, body_hash, trigger, feed, body, received)
   on conflict (source, body_hash) do nothing
   returning body_hash`,
);

/** Stores them in one statement, hence one commit; tells for each whether it was new. The same bytes are stored once. */
export async function storeNotifications(
  database: Database,
  notifications: readonly ReceivedNotification[],
): Promise<('new' | 'known')[]> {
  const hashes = notifications.map(({ source, body }) => ({
    hash: createHash('sha256').update(body).digest(),
    id: source,
  }));
  // One statement cannot touch a row twice, and would not have to.
  const first = new Map<string, number>();
  const ids = hashes.map(({ hash, id }) => `${id} ${hash.toString('base64')}`);
  for (const [index, id] of ids.entries()) if (!first.has(id)) first.set(id, index);
  const distinct = [...first.values()];
  const pick = <T>(of: (index: number) => T) => distinct.map(of);
  const at = (index: number) => notifications[index] as ReceivedNotification;
  const inserted = await database.query<{ body_hash: Buffer }>(insert, [
    pick((index) => at(index).source),
    pick((index) => hashes[index]?.hash),
    pick((index) => at(index).trigger),
    pick((index) => at(index).feed ?? null),
    pick((index) => at(index).body.toString('utf8')),
    pick((index) => at(index).received),
  ]);
  const fresh = new Set(inserted.map((row) => row.body_hash.toString('base64')));
  return hashes.map(({ hash }, index) =>
    fresh.has(hash.toString('base64')) && first.get(ids[index] ?? '') === index ? 'new' : 'known',
  );
}

/** Deletes worked notifications that are older than `keptDays`. */
export async function pruneInbox(sql: Sql, now: Timestamp, keptDays: number): Promise<void> {
  await sql.query('delete from bridge.inbox where processed is not null and received < $1', [
    addMicros(now, -keptDays * 86_400_000_000),
  ]);
}
