/**
 * The rows of `bridge.checkpoints`, one for each feed, and the notifications that ask for a pull. One operation a
 * function. The theory stands in `docs/checkpoints.md`.
 *
 * A row makes one promise: everything that the source stamped up to `watermark` is in the mirror. Every function that
 * advances the watermark runs in the transaction that stored the records, so a crash cannot break the promise.
 */

import type { Timestamp } from '#contract/timestamp.ts';
import { prepared, type Sql, withoutFlush } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { AppError } from '#platform/errors.ts';
import type { FirstSeen } from '../range/closed-bound.ts';
import type { SourceProfile } from './source-profile.ts';

export interface FeedId {
  readonly source: string;
  readonly feed: string;
}

/**
 * Makes the feeds' checkpoints where there are none, and makes them due: a change that was announced while no process
 * listened is read now. One statement for all feeds, which locks them in the same order in every process.
 */
export async function openCheckpoints(sql: Sql, feeds: readonly FeedId[], now: Timestamp): Promise<void> {
  await sql.query(
    `insert into bridge.checkpoints (source, feed, next_pull, created)
     select distinct source, feed, $3::timestamptz, $3::timestamptz from unnest($1::text[], $2::text[]) as own (source, feed)
     order by source, feed
     on conflict (source, feed) do update set next_pull = least(bridge.checkpoints.next_pull, excluded.next_pull)`,
    [feeds.map(({ source }) => source), feeds.map(({ feed }) => feed), now],
  );
}

/**
 * Makes every feed and every open backfill due that waits for a later time than now. For a clock that was set back: a
 * time that was computed before lies too far in the future. A wait that was right ends early, which costs one request.
 */
export async function makeWaitingFeedsDue(sql: Sql, now: Timestamp): Promise<void> {
  await sql.query('update bridge.checkpoints set next_pull = $1 where next_pull > $1', [now]);
  await sql.query('update bridge.backfills set next_try = $1 where next_try > $1 and finished is null', [now]);
}

/** A pull that is due: where it starts, and which notifications it answers. */
export interface DuePull {
  /** Everything of the feed up to here is in the mirror; null before the first page. */
  readonly watermark: Timestamp | null;
  /** The checkpoint must still have this generation whenever the pull writes. */
  readonly generation: number;
  readonly firstSeen: FirstSeen;
  /** When a pull has last read the feed to its end; null: it is read for the first time, or again from its beginning. */
  readonly lastPull: Timestamp | null;
  /** How many pulls in a row have failed. */
  readonly failures: number;
  readonly profile: SourceProfile;
  /** When the feed is due by its schedule. */
  readonly nextPull: Timestamp;
  /** It is due by its schedule, not only because of a notification. */
  readonly scheduled: boolean;
  /** The id of the last notification that had come when the pull began; null: none waits. */
  readonly lastNotification: number | null;
  /** The notifications with ids up to this one have been answered by earlier pulls. */
  readonly answered: number;
}

/**
 * A feed is due by its schedule or because a notification waits. After a failure only the schedule counts, however many
 * notifications arrive; and while notifications are throttled they do not count either.
 */
const isDue = `(c.next_pull <= $1 or (c.failures = 0 and (c.throttled_until <= $1) is not false and exists (
  select from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.id > c.answered)))`;

export async function readDueFeeds(sql: Sql, now: Timestamp): Promise<FeedId[]> {
  return sql.query<FeedId>(`select source, feed from bridge.checkpoints c where ${isDue}`, [now]);
}

/** Returns undefined when the feed is not due. */
export async function readDuePull(sql: Sql, { source, feed }: FeedId, now: Timestamp): Promise<DuePull | undefined> {
  const [row] = await sql.query<DuePull>(duePull, [now, source, feed]);
  return row;
}

// Prepared: to plan it takes longer than to run it.
const duePull = prepared(
  `select watermark, generation, first_seen as "firstSeen", last_pull as "lastPull", failures,
     source_profile as profile, next_pull as "nextPull", next_pull <= $1 as scheduled, answered, (
     select id from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.id > c.answered
     order by id desc limit 1) as "lastNotification"
   from bridge.checkpoints c where source = $2 and feed = $3 and ${isDue}`,
);

/** What is known of how a feed has to be read. */
export async function readProfile(sql: Sql, { source, feed }: FeedId): Promise<SourceProfile> {
  const [row] = await sql.query<{ profile: SourceProfile }>(
    'select source_profile as profile from bridge.checkpoints where source = $1 and feed = $2',
    [source, feed],
  );
  return row?.profile ?? {};
}

/**
 * Locks the checkpoint until the end of the transaction. A transaction that locks a source, too, locks the checkpoint
 * first: all do it in this order, so they cannot deadlock.
 */
export async function lockCheckpoint(tx: Sql, { source, feed }: FeedId): Promise<void> {
  await tx.query(lockCheckpointRow, [source, feed]);
}

/** The same of several feeds, in one order in every process: two of them cannot deadlock. */
export async function lockCheckpoints(tx: Sql, feeds: readonly FeedId[]): Promise<void> {
  await tx.query(
    `select from bridge.checkpoints where (source, feed) in (select * from unnest($1::text[], $2::text[]))
     order by source, feed for no key update`,
    [feeds.map(({ source }) => source), feeds.map(({ feed }) => feed)],
  );
}

const lockCheckpointRow = prepared(
  'select generation from bridge.checkpoints where source = $1 and feed = $2 for no key update',
);

/**
 * An operator has set or reset the checkpoint during the pull, or an audit has: the pages that were read belong to the old
 * position.
 */
export class CheckpointMoved extends AppError {
  constructor({ source, feed }: FeedId) {
    super('conflict', `The checkpoint of ${source}/${feed} was set while the feed was read.`, {
      recovery: { do: 'retry' },
    });
    this.name = 'CheckpointMoved';
  }
}

/**
 * Locks the checkpoint until the end of the transaction. Throws CheckpointMoved when it no longer has this generation: it
 * was set since.
 */
export async function lockCheckpointAt(tx: Sql, feed: FeedId, generation: number): Promise<void> {
  const [row] = await tx.query<{ generation: number }>(lockCheckpointRow, [feed.source, feed.feed]);
  if (row?.generation !== generation) throw new CheckpointMoved(feed);
}

/** What a pull has answered. */
export interface AnsweredNotifications {
  /** The id of the pull. */
  readonly pull: string;
  /** The last notification that it answers; null: none had come. */
  readonly lastNotification: number | null;
  readonly now: Timestamp;
}

/** Stores that the pull has answered the feed's notifications up to the last one. */
export async function markAnswered(tx: Sql, { source, feed }: FeedId, answer: AnsweredNotifications): Promise<void> {
  if (answer.lastNotification === null) return;
  await tx.query(
    `with before as (
       select answered from bridge.checkpoints where source = $1 and feed = $2 and answered < $3),
     moved as (
       update bridge.checkpoints set answered = $3 where source = $1 and feed = $2 and answered < $3)
     insert into bridge.answers (source, feed, after_id, last_id, pull, answered)
     select $1, $2, before.answered, $3, $4, $5 from before on conflict do nothing`,
    [source, feed, answer.lastNotification, answer.pull, answer.now],
  );
}

/** Advances the watermark, in the transaction that stored everything up to it; it never goes back here. */
export async function moveWatermark(tx: Sql, { source, feed }: FeedId, watermark: Timestamp): Promise<void> {
  await tx.query(watermarkMove, [source, feed, watermark]);
}

// Prepared: to plan it takes longer than to run it.
const watermarkMove = prepared(
  'update bridge.checkpoints set watermark = greatest(watermark, $3) where source = $1 and feed = $2',
);

export interface FinishedPull extends AnsweredNotifications {
  readonly next: Timestamp;
  /** Until then no notification asks for a pull. */
  readonly throttledUntil: Timestamp;
  readonly firstSeen: FirstSeen;
  /** Why the watermark stands still although newer records are known; null: it does not; undefined: as before. */
  readonly stalledBy: string | null | undefined;
}

/**
 * Stores that the feed has been read to its end. The notifications are answered; the next pull comes by schedule. Its
 * transaction does not wait for the disk, and stores nothing else: if a server that crashes undoes it, the feed is still
 * due, and is read once more from where its pages have brought it.
 */
export async function finishPull(tx: Sql, { source, feed }: FeedId, pull: FinishedPull): Promise<void> {
  const { stalledBy } = pull;
  const answered = markAnswered(tx, { source, feed }, pull);
  const finished = tx.query(storeEnd, [
    source,
    feed,
    pull.next,
    pull.now,
    pull.throttledUntil,
    stalledBy === undefined,
    stalledBy === undefined || stalledBy === null ? null : storableText(stalledBy),
    JSON.stringify(pull.firstSeen),
  ]);
  await Promise.all([answered, finished]);
}

// Prepared: to plan it takes longer than to run it.
const storeEnd = prepared(
  `update bridge.checkpoints set last_pull = $4, failures = 0, last_error = null,
     throttled_until = $5, next_pull = $3, stalled_why = case when $6 then stalled_why else $7 end, first_seen = $8
   where source = $1 and feed = $2 returning ${withoutFlush}`,
);

/** The feed declares no order any more: where it does so again, it is proved anew. */
export async function forgetOrder(tx: Sql, { source, feed }: FeedId): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set source_profile = source_profile - 'orderProved' where source = $1 and feed = $2`,
    [source, feed],
  );
}

/** Stores what was learnt of the source; what was known before and is not in it stays. */
export async function learnProfile(sql: Sql, { source, feed }: FeedId, learnt: SourceProfile): Promise<void> {
  await sql.query(
    'update bridge.checkpoints set source_profile = source_profile || $3 where source = $1 and feed = $2',
    [source, feed, JSON.stringify(learnt)],
  );
}

/**
 * Stores that the feed does not keep the order that it declares: from now on it is read in windows. What was read by
 * following the order may lack records, so the watermark returns to the beginning, and the feed is read once more. A pull
 * that still follows the order, while an audit finds this out, stores nothing more: it would set the watermark again.
 */
export async function saveOrderBroken(
  tx: Sql,
  { source, feed }: FeedId,
  { why, now }: { why: string; now: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set generation = generation + 1,
       watermark = case when source_profile ? 'orderProved' then null else watermark end,
       source_profile = source_profile - 'orderProved' || $3
     where source = $1 and feed = $2`,
    [source, feed, JSON.stringify({ orderBroken: now, orderBrokenWhy: storableText(why) } satisfies SourceProfile)],
  );
}

/**
 * How many pulls in a row had failed before this one, which has failed, too. Where it has advanced the watermark the row
 * begins anew: of a long pull one request nearly always fails at a bad source, and to wait ever longer would let the feed
 * fall behind although each pull comes further.
 */
export async function failuresBefore(
  tx: Sql,
  { source, feed }: FeedId,
  { watermark, failures }: Pick<DuePull, 'watermark' | 'failures'>,
): Promise<number> {
  const [row] = await tx.query<{ advanced: boolean }>(
    `select coalesce(watermark > coalesce($3::timestamptz, '-infinity'), false) as advanced
     from bridge.checkpoints where source = $1 and feed = $2`,
    [source, feed, watermark],
  );
  return row?.advanced ? 0 : failures;
}

/**
 * Stores that the source refuses requests, while a pull waits for it in its place: another process that takes over does
 * not ask before `until`, and the feed's state says why.
 */
export async function saveThrottled(
  tx: Sql,
  { source, feed }: FeedId,
  { until, why }: { until: Timestamp; why: string },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, throttled_until = $3, last_error = $4
     where source = $1 and feed = $2`,
    [source, feed, until, storableText(why)],
  );
}

/**
 * Stores that a pull failed. Its notifications go on waiting, and nothing is asked of the source before `next`. Does
 * nothing when an operator has set the checkpoint since the pull began.
 */
export async function failPull(
  tx: Sql,
  { source, feed }: FeedId,
  pull: {
    error: string;
    /** How many pulls in a row had failed before. */
    failures: number;
    next: Timestamp;
    /** The source's quota was spent: the pull waits, and it does not count as a failure. */
    isRateLimited: boolean;
    generation: number | undefined;
  },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, throttled_until = $3, last_error = $4, stalled_why = $4,
       failures = $7::int + case when $6 then 0 else 1 end
     where source = $1 and feed = $2 and ($5::bigint is null or generation = $5)`,
    [source, feed, pull.next, storableText(pull.error), pull.generation ?? null, pull.isRateLimited, pull.failures],
  );
}
