/**
 * The reads of a feed without a filter, in its checkpoint: how far they have come. One operation a function. They find
 * the records that have no `modified`, which match no filter by time.
 *
 * A read of many pages may skip a record that moves between them. So the feed is read in passes, until a pass after the
 * first one has found no record without a time that was not known before.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import type { FeedId } from './checkpoint-store.ts';

/** How far the reads without a filter have come. */
interface UnfilteredState {
  /** When the last pass came to its end; null until then. */
  readonly finished: Timestamp | null;
  readonly pass: number;
  readonly next: string | null;
  /** When the pass goes on; null: now. */
  readonly due: Timestamp | null;
}

export async function readUnfiltered(sql: Sql, { source, feed }: FeedId): Promise<UnfilteredState> {
  const [row] = await sql.query<UnfilteredState>(
    `select unfiltered as finished, unfiltered_pass as pass, unfiltered_next as next, unfiltered_due as due
     from bridge.checkpoints where source = $1 and feed = $2`,
    [source, feed],
  );
  return row ?? { finished: null, pass: 0, next: null, due: null };
}

/**
 * Stores at which page the pass goes on, and how many records without a time its last page has added. In the passes
 * that follow a full audit they are its late arrivals; they say nothing about the lateness bound.
 */
export async function saveUnfilteredPage(
  tx: Sql,
  { source, feed }: FeedId,
  { next, found }: { next: string | undefined; found: number },
): Promise<void> {
  await tx.query(
    `with audit as (
       update bridge.backfills b set late_arrivals = b.late_arrivals + $4
       from bridge.checkpoints c where c.source = $1 and c.feed = $2 and b.id = c.unfiltered_audit and $4 > 0
     )
     update bridge.checkpoints set unfiltered_next = $3, unfiltered_found = unfiltered_found + $4,
       late_arrivals = late_arrivals + case when unfiltered_audit is null then 0 else $4 end
     where source = $1 and feed = $2`,
    [source, feed, next ?? null, found],
  );
}

/** Begins the pass again: the page to go on with may no longer exist. */
export async function restartUnfilteredPass(tx: Sql, { source, feed }: FeedId): Promise<void> {
  await tx.query(
    'update bridge.checkpoints set unfiltered_next = null, unfiltered_found = 0 where source = $1 and feed = $2',
    [source, feed],
  );
}

/** With more passes than this the records change faster than they can be read: audits find what is left. */
const passesMax = 12;

/**
 * Ends a pass. It was the last one when its answer was a single page, which is a snapshot, or when it was not the first
 * one and has found nothing; else another one follows.
 */
export async function finishUnfilteredPass(
  tx: Sql,
  { source, feed }: FeedId,
  { isSnapshot, now }: { isSnapshot: boolean; now: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set
       unfiltered = case when $3 or unfiltered_pass > 0 and unfiltered_found = 0 or unfiltered_pass >= $5
         then coalesce(unfiltered, $4) end,
       unfiltered_pass = unfiltered_pass + 1, unfiltered_found = 0, unfiltered_next = null, unfiltered_due = null,
       unfiltered_why = null
     where source = $1 and feed = $2`,
    [source, feed, isSnapshot, now, passesMax],
  );
}

/** A pass whose pages broke off twice in a row is tried again after this. */
const brokenPassWait = '1 hour';

/**
 * The pages broke off: another pass tries again from the beginning, at once where the one before came to its end, as the
 * service may only have changed how it pages. Windows read all records that have a time.
 */
export async function breakUnfilteredPass(
  tx: Sql,
  { source, feed }: FeedId,
  { why, now }: { why: string; now: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set unfiltered_pass = greatest(unfiltered_pass, 1), unfiltered_found = 0,
       unfiltered_next = null, unfiltered_why = $4,
       unfiltered_due = $3::timestamptz + case when unfiltered_why is null then interval '0' else $5::interval end
     where source = $1 and feed = $2`,
    [source, feed, now, storableText(why), brokenPassWait],
  );
}
