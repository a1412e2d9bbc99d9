import { createHash } from 'node:crypto';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { byteaArray, textArray } from '#platform/database/binary-array.ts';
import type { Database } from '#platform/database/database.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';

export interface ReceivedNotification {
  source: string;
  trigger: string;
  /** The feed that the puller reads because of it; undefined for a notification that is only acknowledged. */
  feed: FeedName | undefined;
  body: Buffer;
  received: Timestamp;
}

/** In the order of the unique key: two processes that store the same notifications cannot deadlock. */
const insert = prepared(
  `insert into bridge.inbox (source, body_hash, trigger, feed, body, received, processed)
   select *, case when feed is null then received end
   from unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
     as notification (source, body_hash, trigger, feed, body, received)
   order by source, body_hash
   on conflict (source, body_hash) do nothing
   returning source, body_hash`,
);

/**
 * Stores notifications in one statement, hence one commit. Returns for each whether it was new: the same bytes of a
 * source are stored once. Rejects when the database does not take them; then none is stored.
 */
export async function storeNotifications(
  database: Database,
  notifications: readonly ReceivedNotification[],
): Promise<('new' | 'known')[]> {
  const received = notifications.map((notification) => {
    const hash = createHash('sha256').update(notification.body).digest();
    return { ...notification, hash, id: idOf(notification.source, hash) };
  });
  const distinct = [...new Map(received.map((notification) => [notification.id, notification])).values()];
  const inserted = await database.query<{ source: string; body_hash: Buffer }>(insert, [
    textArray(distinct.map(({ source }) => source)),
    byteaArray(distinct.map(({ hash }) => hash)),
    textArray(distinct.map(({ trigger }) => trigger)),
    textArray(distinct.map(({ feed }) => feed ?? null)),
    textArray(distinct.map(({ body }) => body.toString('utf8'))),
    distinct.map((notification) => notification.received),
  ]);
  const newIds = new Set(inserted.map((row) => idOf(row.source, row.body_hash)));
  // Deleted at its first use: when the same bytes are in one commit twice, only one of them is new.
  return received.map(({ id }) => (newIds.delete(id) ? 'new' : 'known'));
}

function idOf(source: string, hash: Buffer): string {
  return `${source} ${hash.toString('base64')}`;
}

/**
 * Deletes notifications that are older than `keptDays`, including those that no pull has answered. A notification only
 * makes a pull start sooner: a feed that could not be read for that long, or is no longer configured, does not need it.
 */
export async function pruneInbox(sql: Sql, now: Timestamp, keptDays: number): Promise<void> {
  await sql.query('delete from bridge.inbox where received < $1', [addMicros(now, -keptDays * 86_400_000_000)]);
}
