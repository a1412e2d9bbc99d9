/** The rows of `bridge.checkpoints`, and the notifications that ask for a pull. One operation a function. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { storableText } from '../storable-text.ts';

export interface FeedId {
  readonly source: string;
  readonly feed: string;
}

/** Makes the feed's checkpoint if there is none, and makes it due: what was announced while nobody listened is read now. */
export async function openCheckpoint(sql: Sql, { source, feed }: FeedId, now: Timestamp): Promise<void> {
  await sql.query(
    `insert into bridge.checkpoints (source, feed, next_pull) values ($1, $2, $3)
     on conflict (source, feed) do update set next_pull = least(bridge.checkpoints.next_pull, excluded.next_pull)`,
    [source, feed, now],
  );
}

/** A pull that is due: where it starts, and what it answers. */
export interface DuePull {
  /** Everything of the feed up to here is in the mirror; null before the first page. */
  readonly watermark: Timestamp | null;
  /** The notifications that were waiting when it began. What comes later asks for another pull. */
  readonly notifications: readonly number[];
}

/** By schedule, or by a notification; after a failure only when its wait is over, however many notifications come. */
const isDue = `(c.next_pull <= $1 or (c.failures = 0 and exists (
  select from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.processed is null)))`;

/** The feeds that are due. */
export async function feedsDue(sql: Sql, now: Timestamp): Promise<FeedId[]> {
  return sql.query<FeedId>(`select source, feed from bridge.checkpoints c where ${isDue}`, [now]);
}

/** Undefined when the feed is not due. */
export async function readDuePull(sql: Sql, { source, feed }: FeedId, now: Timestamp): Promise<DuePull | undefined> {
  const [row] = await sql.query<DuePull>(
    `select watermark, array(
       select id from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.processed is null
     ) as notifications
     from bridge.checkpoints c where source = $2 and feed = $3 and ${isDue}`,
    [now, source, feed],
  );
  return row;
}

/** In the transaction that stored everything up to it. It never goes back by itself. */
export async function advanceWatermark(tx: Sql, { source, feed }: FeedId, watermark: Timestamp): Promise<void> {
  await tx.query('update bridge.checkpoints set watermark = greatest(watermark, $3) where source = $1 and feed = $2', [
    source,
    feed,
    watermark,
  ]);
}

/** The feed has been read to its end: what asked for it is answered, and the next look is on schedule. */
export async function finishPull(
  tx: Sql,
  { source, feed }: FeedId,
  pull: { notifications: readonly number[]; now: Timestamp; next: Timestamp },
): Promise<void> {
  await tx.query('update bridge.inbox set processed = $2 where id = any($1)', [pull.notifications, pull.now]);
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, last_pull = $4, failures = 0, last_error = null
     where source = $1 and feed = $2`,
    [source, feed, pull.next, pull.now],
  );
}

/** What is known of a feed that does not declare its order. */
export interface Unsettled {
  readonly settled: Timestamp | null;
  /** The newest stamp in the mirror; null when it is empty. */
  readonly newest: Timestamp | null;
  /** The newest stamp among the records that were stored before `longAgo`. */
  readonly seenLongAgo: Timestamp | null;
}

export async function readUnsettled(sql: Sql, { source, feed }: FeedId, longAgo: Timestamp): Promise<Unsettled> {
  const [row] = await sql.query<Unsettled>(
    `select settled,
       (select max(modified) from bridge.mirror m where m.source = c.source and m.feed = c.feed) as newest,
       (select modified from bridge.mirror m where m.source = c.source and m.feed = c.feed and m.seen <= $3
        order by modified desc limit 1) as "seenLongAgo"
     from bridge.checkpoints c where source = $1 and feed = $2`,
    [source, feed, longAgo],
  );
  return row ?? { settled: null, newest: null, seenLongAgo: null };
}

export async function markSettled(tx: Sql, { source, feed }: FeedId, now: Timestamp): Promise<void> {
  await tx.query('update bridge.checkpoints set settled = $3 where source = $1 and feed = $2', [source, feed, now]);
}

/** How many pulls in a row have failed. */
export async function readFailures(sql: Sql, { source, feed }: FeedId): Promise<number> {
  const [row] = await sql.query<{ failures: number }>(
    'select failures from bridge.checkpoints where source = $1 and feed = $2',
    [source, feed],
  );
  return row?.failures ?? 0;
}

/** What asked for it stays waiting; nothing is asked again before `next`. */
export async function failPull(
  tx: Sql,
  { source, feed }: FeedId,
  pull: { error: string; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, failures = failures + 1, last_error = $4
     where source = $1 and feed = $2`,
    [source, feed, pull.next, storableText(pull.error)],
  );
}
