/**
 * The rows of `bridge.backfills`: ranges of time that are read again beside the live pull. One operation a function.
 * Several may be open for a feed at once; one worker takes turns with them.
 */

import { storableText } from '#bridge/storable-text.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { FeedId } from '../feed/checkpoint-store.ts';

/** `range`: a person has asked for it. `audit`: counts what was missed. `full`: that, and tells what has vanished. */
export type BackfillKind = 'range' | 'audit' | 'full';

export interface Backfill {
  readonly id: number;
  readonly source: string;
  readonly feed: string;
  readonly kind: BackfillKind;
  readonly from: Timestamp;
  readonly to: Timestamp;
  /** Everything up to here is in the mirror; null at the beginning. */
  readonly position: Timestamp | null;
  readonly records: number;
  readonly changed: number;
  /** Of an audit: what the mirror should have had and had not. */
  readonly lateArrivals: number;
  readonly asked: Timestamp;
  readonly finished: Timestamp | null;
  readonly cancelled: Timestamp | null;
  readonly failures: number;
  readonly lastError: string | null;
}

const columns = `id, source, feed, kind, range_start as "from", range_end as "to", position, records, changed,
  late_arrivals as "lateArrivals", asked, finished, cancelled, failures, last_error as "lastError"`;

/** Gives its number. */
export async function insertBackfill(
  tx: Sql,
  { source, feed }: FeedId,
  asked: { kind: BackfillKind; from: Timestamp; to: Timestamp; now: Timestamp },
): Promise<number> {
  const [row] = await tx.query<{ id: number }>(
    `insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try)
     values ($1, $2, $3, $4, $5, $6, $6) returning id`,
    [source, feed, asked.kind, asked.from, asked.to, asked.now],
  );
  if (!row) throw new AppError('internal', 'A backfill was not stored.');
  return row.id;
}

const latestMost = 100;

/** The open ones and the latest others, or those of these numbers; newest first. */
export async function readBackfills(sql: Sql, ids?: readonly number[]): Promise<Backfill[]> {
  return sql.query<Backfill>(
    `select ${columns} from bridge.backfills where $1::bigint[] is null or id = any($1)
     order by finished is null and cancelled is null desc, id desc limit case when $1 is null then ${latestMost} end`,
    [ids ?? null],
  );
}

export async function isBackfillOpen(
  sql: Sql,
  { source, feed }: FeedId,
  kinds: readonly BackfillKind[],
): Promise<boolean> {
  const rows = await sql.query(
    `select from bridge.backfills
     where source = $1 and feed = $2 and kind = any($3) and finished is null and cancelled is null limit 1`,
    [source, feed, kinds],
  );
  return rows.length > 0;
}

/** Those that are to be worked on now, oldest first. */
export async function readDueBackfills(sql: Sql, { source, feed }: FeedId, now: Timestamp): Promise<Backfill[]> {
  return sql.query<Backfill>(
    `select ${columns} from bridge.backfills
     where source = $1 and feed = $2 and finished is null and cancelled is null and next_try <= $3 order by id`,
    [source, feed, now],
  );
}

/** The feeds that have one to be worked on now. */
export async function feedsToBackfill(sql: Sql, now: Timestamp): Promise<FeedId[]> {
  return sql.query<FeedId>(
    `select distinct source, feed from bridge.backfills
     where finished is null and cancelled is null and next_try <= $1`,
    [now],
  );
}

/** Notes what was stored, in the same transaction. False when it was cancelled meanwhile: nothing is to be stored then. */
export async function advanceBackfill(
  tx: Sql,
  id: number,
  step: { position: Timestamp | undefined; records: number; changed: number; lateArrivals: number },
): Promise<boolean> {
  const rows = await tx.query(
    `update bridge.backfills set position = greatest(position, $2::timestamptz), records = records + $3,
       changed = changed + $4, late_arrivals = late_arrivals + $5, failures = 0, last_error = null
     where id = $1 and finished is null and cancelled is null returning id`,
    [id, step.position ?? null, step.records, step.changed, step.lateArrivals],
  );
  return rows.length > 0;
}

/** Gives it as it ended; undefined when it had ended before. */
export async function finishBackfill(tx: Sql, id: number, now: Timestamp): Promise<Backfill | undefined> {
  const [row] = await tx.query<Backfill>(
    `update bridge.backfills set finished = $2, last_error = null
     where id = $1 and finished is null and cancelled is null returning ${columns}`,
    [id, now],
  );
  return row;
}

/** Does nothing to one that has ended: the end of the transaction that ended it may not have been seen. */
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

/** What it has stored stays. Gives it as it was cancelled; undefined when it had ended before. */
export async function markCancelled(tx: Sql, id: number, now: Timestamp): Promise<Backfill | undefined> {
  const [row] = await tx.query<Backfill>(
    `update bridge.backfills set cancelled = $2 where id = $1 and finished is null and cancelled is null
     returning ${columns}`,
    [id, now],
  );
  return row;
}
