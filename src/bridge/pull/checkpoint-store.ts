/** The rows of `bridge.checkpoints`, and the notifications that ask for a pull. One operation a function. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';

export interface Checkpoint {
  /** Everything of the feed up to here is in the mirror; null before the first pull. */
  readonly watermark: Timestamp | null;
  readonly failures: number;
}

/** Makes the feed's checkpoint if there is none, and makes it due: what was announced while nobody listened is read now. */
export async function openCheckpoint(sql: Sql, source: string, feed: string, now: Timestamp): Promise<void> {
  await sql.query(
    `insert into bridge.checkpoints (source, feed, next_pull) values ($1, $2, $3)
     on conflict (source, feed) do update set next_pull = least(bridge.checkpoints.next_pull, excluded.next_pull)`,
    [source, feed, now],
  );
}

export async function readCheckpoint(sql: Sql, source: string, feed: string): Promise<Checkpoint> {
  const [row] = await sql.query<Checkpoint>(
    'select watermark, failures from bridge.checkpoints where source = $1 and feed = $2',
    [source, feed],
  );
  return row ?? { watermark: null, failures: 0 };
}

/** In the transaction that stored everything up to it. It never goes back by itself. */
export async function advanceWatermark(tx: Sql, source: string, feed: string, watermark: Timestamp): Promise<void> {
  await tx.query(`update bridge.checkpoints set watermark = greatest(watermark, $3) where source = $1 and feed = $2`, [
    source,
    feed,
    watermark,
  ]);
}

/** The notifications that are waiting for this feed when a pull begins: those are the ones that it answers. */
export async function waitingNotifications(sql: Sql, source: string, feed: string): Promise<number[]> {
  const rows = await sql.query<{ id: number }>(
    'select id from bridge.inbox where source = $1 and feed = $2 and processed is null',
    [source, feed],
  );
  return rows.map((row) => row.id);
}

/** The feed has been read to its end: what asked for it is worked, and the next look is on schedule. */
export async function finishPull(
  tx: Sql,
  pull: { source: string; feed: string; notifications: readonly number[]; now: Timestamp; next: Timestamp },
): Promise<void> {
  await tx.query('update bridge.inbox set processed = $2 where id = any($1)', [pull.notifications, pull.now]);
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, last_pull = $4, failures = 0, last_error = null
     where source = $1 and feed = $2`,
    [pull.source, pull.feed, pull.next, pull.now],
  );
}

/** What asked for it stays waiting; nothing is asked again before `next`. */
export async function failPull(
  tx: Sql,
  pull: { source: string; feed: string; error: string; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, failures = failures + 1, last_error = $4
     where source = $1 and feed = $2`,
    [pull.source, pull.feed, pull.next, pull.error.slice(0, 2_000)],
  );
}

/** The feeds that are due: by schedule, or by a notification unless the last pull failed and its wait is not over. */
export async function feedsDue(sql: Sql, now: Timestamp): Promise<{ source: string; feed: string }[]> {
  return sql.query<{ source: string; feed: string }>(
    `select source, feed from bridge.checkpoints c
     where next_pull <= $1
       or (failures = 0 and exists (
         select from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.processed is null))`,
    [now],
  );
}
