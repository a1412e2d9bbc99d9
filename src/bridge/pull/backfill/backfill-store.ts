/**
 * The rows of `bridge.backfills`: what is read again beside the pull. One operation a function.
 * Several backfills of a feed may be open at once; one worker reads them in turns.
 */

import { oldestOfBackfill, type RangeReading } from '#bridge/mirror/read-progress.ts';
import { withoutTime } from '#bridge/mirror/read-version.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { AppError } from '#platform/errors.ts';
import type { FeedId } from '../feed/checkpoint-store.ts';

/**
 * `range`: an operator has asked for it. `audit`: reads a window again and counts late arrivals. `full`: reads the
 * whole feed again, counts late arrivals and finds records that have vanished. `untimed`: reads the feed without a filter,
 * for the records that have no time and so lie in no window.
 */
export type BackfillKind = 'range' | 'audit' | 'full' | 'untimed';

export interface Backfill {
  readonly id: number;
  readonly source: string;
  readonly feed: string;
  readonly kind: BackfillKind;
  readonly from: Timestamp;
  readonly to: Timestamp;
  /** Everything of the range up to here has been read; null before the first window. */
  readonly position: Timestamp | null;
  readonly records: number;
  readonly changed: number;
  /** Of an audit: records that the mirror lacked, or held otherwise, although the watermark had passed them. */
  readonly lateArrivals: number;
  readonly asked: Timestamp;
  readonly finished: Timestamp | null;
  readonly cancelled: Timestamp | null;
  readonly failures: number;
  readonly lastError: string | null;
}

const columns = `id, source, feed, kind, range_start as "from", range_end as "to", position, records, changed,
  late_arrivals as "lateArrivals", asked, finished, cancelled, failures, last_error as "lastError"`;

export interface AskedBackfill extends FeedId {
  readonly kind: BackfillKind;
  readonly from: Timestamp;
  readonly to: Timestamp;
}

/** Opens a backfill and returns its number. */
export async function insertBackfill(
  tx: Sql,
  feed: FeedId,
  { now, ...asked }: Pick<AskedBackfill, 'kind' | 'from' | 'to'> & { now: Timestamp },
): Promise<number> {
  const [id] = await insertBackfills(tx, [{ ...feed, ...asked }], now);
  if (id === undefined) throw new AppError('internal', 'A backfill was not stored.');
  return id;
}

/** Opens backfills and returns their numbers. */
export async function insertBackfills(tx: Sql, asked: readonly AskedBackfill[], now: Timestamp): Promise<number[]> {
  const rows = await tx.query<{ id: number }>(
    `insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try)
     select source, feed, kind, range_start, range_end, $6, $6
     from unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[])
       as asked (source, feed, kind, range_start, range_end) returning id`,
    [
      asked.map(({ source }) => source),
      asked.map(({ feed }) => feed),
      asked.map(({ kind }) => kind),
      asked.map(({ from }) => from),
      asked.map(({ to }) => to),
      now,
    ],
  );
  return rows.map(({ id }) => id);
}

/**
 * Opens the reading of the records without a time. `passes`: so often the whole feed was read before; `all`: one page has
 * shown it, so there is nothing left to read. Does nothing where one is open.
 */
export async function openUntimedRead(
  tx: Sql,
  { source, feed }: FeedId,
  { passes, now }: { passes: 0 | 1 | 'all'; now: Timestamp },
): Promise<void> {
  await tx.query(
    `insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try, position, finished)
     select $1, $2, 'untimed', $3, $3, $4, $4, case when $5 then $3::timestamptz end, case when $6 then $4::timestamptz end
     where not exists (select from bridge.backfills where source = $1 and feed = $2 and kind = 'untimed'
       and finished is null and cancelled is null)`,
    [source, feed, withoutTime, now, passes !== 0, passes === 'all'],
  );
}

const latestMax = 100;

/**
 * Returns the open backfills and the latest others, or those with these numbers; the open ones first, then the newest.
 */
export async function readBackfills(sql: Sql, ids?: readonly number[]): Promise<(Backfill & RangeReading)[]> {
  return sql.query<Backfill & RangeReading>(
    `select ${columns}, ${oldestOfBackfill} from bridge.backfills b where $1::bigint[] is null or id = any($1)
     order by finished is null and cancelled is null desc, id desc limit case when $1 is null then ${latestMax} end`,
    [ids ?? null],
  );
}

/** Returns the open backfills of the feed whose wait is over, oldest first. */
export async function readDueBackfills(sql: Sql, { source, feed }: FeedId, now: Timestamp): Promise<Backfill[]> {
  return sql.query<Backfill>(
    `select ${columns} from bridge.backfills
     where source = $1 and feed = $2 and finished is null and cancelled is null and next_try <= $3 order by id`,
    [source, feed, now],
  );
}

/** Returns the feeds that have an open backfill whose wait is over. */
export async function readFeedsToBackfill(sql: Sql, now: Timestamp): Promise<FeedId[]> {
  return sql.query<FeedId>(
    `select distinct source, feed from bridge.backfills
     where finished is null and cancelled is null and next_try <= $1`,
    [now],
  );
}

/**
 * Stores the progress of a backfill, in the transaction that stored the records. Only a position that has advanced ends
 * a row of failures: one that shows the same records and stops at the same place again has come no further. Returns
 * false when the backfill was cancelled meanwhile: the caller then rolls back.
 */
export async function advanceBackfill(
  tx: Sql,
  id: number,
  step: { position: Timestamp | undefined; records: number; changed: number; lateArrivals: number },
): Promise<boolean> {
  const rows = await tx.query(
    `update bridge.backfills set position = greatest(position, $2::timestamptz), records = records + $3,
       changed = changed + $4, late_arrivals = late_arrivals + $5,
       failures = case when $2 > coalesce(position, '-infinity') then 0 else failures end,
       last_error = case when $2 > coalesce(position, '-infinity') then null else last_error end
     where id = $1 and finished is null and cancelled is null returning id`,
    [id, step.position ?? null, step.records, step.changed, step.lateArrivals],
  );
  return rows.length > 0;
}

/** Ends a backfill and returns its final row; undefined when it had ended before. */
export async function finishBackfill(tx: Sql, id: number, now: Timestamp): Promise<Backfill | undefined> {
  const [row] = await tx.query<Backfill>(
    `update bridge.backfills set finished = $2, last_error = null
     where id = $1 and finished is null and cancelled is null returning ${columns}`,
    [id, now],
  );
  return row;
}

/**
 * Stores a failure, and tries again from `next` on. Does nothing to a backfill that has ended: the commit that ended it
 * may have succeeded although its answer was lost.
 */
export async function failBackfill(
  tx: Sql,
  id: number,
  { error, next }: { error: string; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.backfills set failures = failures + 1, last_error = $2, next_try = $3
     where id = $1 and finished is null and cancelled is null`,
    [id, storableText(error), next],
  );
}

/**
 * Cancels a backfill; the records that it has stored stay. Returns the cancelled row; undefined when it had ended
 * before.
 */
export async function markCancelled(tx: Sql, id: number, now: Timestamp): Promise<Backfill | undefined> {
  const [row] = await tx.query<Backfill>(
    `update bridge.backfills set cancelled = $2 where id = $1 and finished is null and cancelled is null
     returning ${columns}`,
    [id, now],
  );
  return row;
}
