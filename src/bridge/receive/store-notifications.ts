/**
 * The inbox: a log of the verified notifications. A row is added and never changed, and it is in no index but the one
 * by which a puller finds what waits for its feed (`checkpoint-store.ts`).
 */
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { textArray, timeArray, utf8Array } from '#platform/database/binary-array.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';

export interface ReceivedNotification {
  source: string;
  trigger: string;
  /** The feed that the puller reads because of it; undefined for a notification that is only acknowledged. */
  feed: FeedName | undefined;
  /** JSON in valid UTF-8, as it was received. */
  body: Buffer;
  receivedMs: number;
  /** Its place in a trace (`traceparent`), while traces are sent. */
  trace?: string | undefined;
}

const insert = prepared(
  `insert into bridge.inbox (source, trigger, feed, body, received)
   select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[])`,
);

const insertTraced = prepared(
  `insert into bridge.inbox (source, trigger, feed, body, received, trace)
   select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])`,
);

/** Stores notifications in one statement, hence one commit. Rejects when the database does not take them. */
export async function storeNotifications(sql: Sql, notifications: readonly ReceivedNotification[]): Promise<void> {
  const isTraced = notifications.some(({ trace }) => trace !== undefined);
  await sql.query(isTraced ? insertTraced : insert, [
    textArray(notifications.map(({ source }) => source)),
    textArray(notifications.map(({ trigger }) => trigger)),
    textArray(notifications.map(({ feed }) => feed ?? null)),
    utf8Array(notifications.map(({ body }) => body)),
    timeArray(notifications.map(({ receivedMs }) => receivedMs)),
    ...(isTraced ? [textArray(notifications.map(({ trace }) => trace ?? null))] : []),
  ]);
}

/**
 * Deletes notifications that are older than `keptDays`, including those that no pull has answered. A notification only
 * makes a pull start sooner: a feed that could not be read for that long, or is no longer configured, does not need it.
 */
export async function pruneInbox(sql: Sql, now: Timestamp, keptDays: number): Promise<void> {
  const before = addMicros(now, -keptDays * 86_400_000_000);
  await sql.query('delete from bridge.inbox where received < $1', [before]);
  await sql.query('delete from bridge.answers where answered < $1', [before]);
}
