/**
 * The inbox: a log of the verified notifications. A row is added and never changed, and it is in no index but the one
 * by which a puller finds what waits for its feed (`checkpoint-store.ts`).
 */
import { nameJobs } from '#bridge/mirror/jobs-to-read.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { deleteOldRows } from '#platform/database/delete-old-rows.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';

export interface ReceivedNotification {
  source: string;
  trigger: string;
  /** The feed that the puller reads because of it; undefined for a notification that is only acknowledged. */
  feed: FeedName | undefined;
  /** The job that the notification is about; undefined where it is about none that makes something. */
  job?: string | undefined;
  /** JSON in valid UTF-8, as it was received: perhaps with a byte order mark, which PostgreSQL does not read as JSON. */
  body: Buffer;
  receivedMs: number;
  /** Its place in a trace (`traceparent`), while traces are sent. */
  trace?: string | undefined;
}

const intoInbox = prepared(`insert into bridge.inbox (source, trigger, feed, body, received, trace)
   select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])`);

/**
 * The same, and each job is to be read. Whether a flow takes jobs is not asked: the settings of this process may be older
 * than those of the one that reads them, and a notification does not come twice.
 */
const withJobs = prepared(`with named as (
    ${nameJobs('unnest($7::text[], $8::text[], $9::timestamptz[]) as n (source, job, received)')})
  insert into bridge.inbox (source, trigger, feed, body, received, trace)
  select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])`);

const byteOrderMark = /^\uFEFF/;

/**
 * A sender waits some ten seconds for its answer. A database, or a pooler before it, that hangs without breaking the
 * connection is given up before, so that the sender learns that it must send again, and the next write takes another one.
 */
const storeWithinMs = 7_000;

/**
 * Stores notifications, one at least, in one statement, hence one commit. Rejects when the database
 * does not take them in time: they may be stored all the same.
 */
export async function storeNotifications(
  database: Database,
  notifications: readonly ReceivedNotification[],
): Promise<void> {
  const limits = { withinMs: storeWithinMs };
  const ofJobs = notifications.filter(({ job }) => job !== undefined);
  if (ofJobs.length > 0) {
    const jobs = [
      ofJobs.map(({ source }) => source),
      ofJobs.map(({ job }) => job),
      ofJobs.map(({ receivedMs }) => new Date(receivedMs).toISOString()),
    ];
    await database.execute(withJobs, [...paramsOf(notifications), ...jobs], limits);
  } else await database.execute(intoInbox, paramsOf(notifications), limits);
}

function paramsOf(notifications: readonly ReceivedNotification[]): unknown[] {
  return [
    notifications.map(({ source }) => source),
    notifications.map(({ trigger }) => trigger),
    notifications.map(({ feed }) => feed ?? null),
    notifications.map(({ body }) => body.toString().replace(byteOrderMark, '')),
    notifications.map(({ receivedMs }) => new Date(receivedMs).toISOString()),
    notifications.map(({ trace }) => trace ?? null),
  ];
}

/**
 * Deletes notifications that are older than `keptDays`, including those that no pull has answered, a bounded number of them.
 * A notification only makes a pull start sooner: a feed that could not be read for that long, or is no longer configured,
 * does not need it. Returns whether none is left.
 */
export async function pruneInbox(sql: Sql, now: Timestamp, keptDays: number): Promise<boolean> {
  const before = addMicros(now, -keptDays * 86_400_000_000);
  const answers = await deleteOldRows(sql, { table: 'bridge.answers', column: 'answered', before });
  return (await deleteOldRows(sql, { table: 'bridge.inbox', column: 'received', before })) && answers;
}
