import { createHash } from 'node:crypto';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { byteaArray, textArray } from '#platform/database/binary-array.ts';
import { type Database, prepared, type Sql } from '#platform/database/database.ts';

export interface ReceivedNotification {
  source: string;
  trigger: string;
  /** The feed that is to be read because of it; undefined for what is only acknowledged. */
  feed: FeedName | undefined;
  body: Buffer;
  received: Timestamp;
}

/** In the order of the unique key: two processes that store the same ones never wait for each other in a circle. */
const insert = prepared(
  `insert into bridge.inbox (source, body_hash, trigger, feed, body, received, processed)
   select *, case when feed is null then received end
   from unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
     as notification (source, body_hash, trigger, feed, body, received)
   order by source, body_hash
   on conflict (source, body_hash) do nothing
   returning source, body_hash`,
);

/** Stores them in one statement, hence one commit; tells for each whether it was new. The same bytes are stored once. */
export async function storeNotifications(
  database: Database,
  notifications: readonly ReceivedNotification[],
): Promise<('new' | 'known')[]> {
  const received = notifications.map((one) => {
    const hash = createHash('sha256').update(one.body).digest();
    return { ...one, hash, id: idOf(one.source, hash) };
  });
  const distinct = [...new Map(received.map((one) => [one.id, one])).values()];
  const inserted = await database.query<{ source: string; body_hash: Buffer }>(insert, [
    textArray(distinct.map(({ source }) => source)),
    byteaArray(distinct.map(({ hash }) => hash)),
    textArray(distinct.map(({ trigger }) => trigger)),
    textArray(distinct.map(({ feed }) => feed ?? null)),
    textArray(distinct.map(({ body }) => body.toString('utf8'))),
    distinct.map((one) => one.received),
  ]);
  const fresh = new Set(inserted.map((row) => idOf(row.source, row.body_hash)));
  // Taken out at its first sight: of the same bytes twice in one commit only one is new.
  return received.map(({ id }) => (fresh.delete(id) ? 'new' : 'known'));
}

function idOf(source: string, hash: Buffer): string {
  return `${source} ${hash.toString('base64')}`;
}

/**
 * Deletes notifications that are older than `keptDays`. Unanswered ones, too: a notification makes a pull sooner, and a
 * feed that could not be read for so long, or is not configured any more, is no sooner for it.
 */
export async function pruneInbox(sql: Sql, now: Timestamp, keptDays: number): Promise<void> {
  await sql.query('delete from bridge.inbox where received < $1', [addMicros(now, -keptDays * 86_400_000_000)]);
}
