/**
 * The rows of `bridge.checkpoints`, one for each feed, and the notifications that ask for a pull. One operation a
 * function. The theory stands in `docs/checkpoints.md`.
 *
 * A row makes one promise: everything that the source stamped up to `watermark` is in the mirror. Every function that
 * advances the watermark runs in the transaction that stored the records, so a crash cannot break the promise.
 *
 * In a feed that does not declare its order, the watermark must not pass the first-seen bound: a stamp that the bridge
 * has known for the lateness bound at least. `noteFirstSeen` computes it from samples. Example with a lateness of 30 s:
 *
 * | pull at  | newest stamp | `newest_noted` at    | `first_seen_bound` | the sample before                          |
 * |----------|--------------|----------------------|--------------------|--------------------------------------------|
 * | 10:00:00 | 09:59:58     | 09:59:58 at 10:00:00 | null               | none: the first one                        |
 * | 10:00:20 | 10:00:15     | 09:59:58 at 10:00:00 | null               | 20 s old: too young                        |
 * | 10:00:40 | 10:00:33     | 10:00:33 at 10:00:40 | 09:59:58           | 40 s old: the bound; a new sample is taken |
 * | 10:01:10 | 10:01:02     | 10:01:02 at 10:01:10 | 10:00:33           | 30 s old: the bound; a new sample is taken |
 *
 * Only our own clock measures the age of a sample, and it measures a difference. So the bound holds although the
 * source's clock, or ours, is wrong by a day.
 */

import type { Timestamp } from '#contract/timestamp.ts';
import { prepared, type Sql, withoutFlush } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { AppError } from '#platform/errors.ts';
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
    `insert into bridge.checkpoints (source, feed, next_pull)
     select distinct source, feed, $3::timestamptz from unnest($1::text[], $2::text[]) as own (source, feed)
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
  /** Whether the last pull followed the order of commits; null before the first page. */
  readonly commitOrdered: boolean | null;
  /** When the declared order was proved; null when it was not. */
  readonly orderProved: Timestamp | null;
  /** Since when the feed is not believed when it declares the order of commits. */
  readonly orderBroken: Timestamp | null;
  /** The lateness bound, where an audit has raised it; null otherwise. */
  readonly latenessMs: number | null;
  /** When the reads without a filter came to their end; null until then. */
  readonly unfiltered: Timestamp | null;
  /** Which of these reads is under way; 0 is the first. */
  readonly unfilteredPass: number;
  /** The page at which it goes on; null: at its beginning. */
  readonly unfilteredNext: string | null;
  /** When the feed was last scanned in windows; null: never. */
  readonly scanned: Timestamp | null;
  /** How many pulls in a row have failed. */
  readonly failures: number;
  readonly profile: SourceProfile | null;
  /** The pull is due by its schedule, not only because of a notification. */
  readonly scheduled: boolean;
  /** The id of the last notification that had come when the pull began; null: none waits. */
  readonly lastNotification: number | null;
  /** The notifications with ids up to this one have been answered by earlier pulls. */
  readonly answered: number;
  /** Ranges of the feed are to be read again, now or later. */
  readonly hasRereads: boolean;
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
  `select watermark, generation, scanned, commit_ordered as "commitOrdered", order_proved as "orderProved",
     order_broken as "orderBroken", lateness_ms as "latenessMs", unfiltered, unfiltered_pass as "unfilteredPass",
     unfiltered_next as "unfilteredNext", failures, source_profile as profile,
     next_pull <= $1 as scheduled, answered,
     exists (select from bridge.rereads r where r.source = c.source and r.feed = c.feed) as "hasRereads", (
     select id from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.id > c.answered
     order by id desc limit 1) as "lastNotification"
   from bridge.checkpoints c where source = $2 and feed = $3 and ${isDue}`,
);

/** What is known of how a feed has to be read. */
export interface FeedTraits {
  readonly commitOrdered: boolean | null;
  readonly latenessMs: number | null;
  readonly profile: SourceProfile | null;
}

/** Returns nulls for a feed that has no checkpoint. */
export async function readFeedTraits(sql: Sql, { source, feed }: FeedId): Promise<FeedTraits> {
  const [row] = await sql.query<FeedTraits>(
    `select commit_ordered as "commitOrdered", lateness_ms as "latenessMs", source_profile as profile
     from bridge.checkpoints where source = $1 and feed = $2`,
    [source, feed],
  );
  return row ?? { commitOrdered: null, latenessMs: null, profile: null };
}

/**
 * Locks the checkpoint until the end of the transaction. A transaction that locks a source, too, locks the checkpoint
 * first: all do it in this order, so they cannot deadlock.
 */
export async function lockCheckpoint(tx: Sql, { source, feed }: FeedId): Promise<void> {
  await tx.query(lockCheckpointRow, [source, feed]);
}

const lockCheckpointRow = prepared(
  'select generation from bridge.checkpoints where source = $1 and feed = $2 for no key update',
);

/** An operator has set or reset the checkpoint during the pull: the pages that were read belong to the old position. */
export class CheckpointMoved extends AppError {
  constructor({ source, feed }: FeedId) {
    super('conflict', `The checkpoint of ${source}/${feed} was set while the feed was read.`, {
      recovery: { do: 'retry' },
    });
    this.name = 'CheckpointMoved';
  }
}

/**
 * Locks the checkpoint until the end of the transaction. Throws CheckpointMoved when it no longer has this generation:
 * an operator has set it since.
 */
export async function lockCheckpointAt(tx: Sql, feed: FeedId, generation: number): Promise<void> {
  const [row] = await tx.query<{ generation: number }>(lockCheckpointRow, [feed.source, feed.feed]);
  if (row?.generation !== generation) throw new CheckpointMoved(feed);
}

/**
 * Returns the bodies of the notifications of a feed with ids after `answered` and up to `last`, as they were received:
 * JSON, which was not parsed before. Returns undefined when there are more than `max`, or when one of these ids may be
 * missing: a receiver that is storing notifications at this moment has drawn its ids, and commits them later.
 */
export async function readNotificationBodies(
  sql: Sql,
  { source, feed }: FeedId,
  { answered, last, max }: { answered: number; last: number; max: number },
): Promise<string[] | undefined> {
  // First the locks: what a receiver that held one before has committed is seen by the second statement.
  const [store] = await sql.query<{ busy: boolean }>(
    `select exists (select from pg_locks where locktype = 'relation' and relation = 'bridge.inbox'::regclass
     and database = (select oid from pg_database where datname = current_database())
     and mode = 'RowExclusiveLock') as busy`,
  );
  if (store?.busy !== false) return undefined;
  const rows = await sql.query<{ body: string }>(
    'select body from bridge.inbox where source = $1 and feed = $2 and id > $3 and id <= $4 limit $5',
    [source, feed, answered, last, max + 1],
  );
  return rows.length > max ? undefined : rows.map(({ body }) => body);
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

/**
 * Advances the watermark, in the transaction that stored everything up to it, and returns where it stands then. It
 * never goes back here, and it stops one microsecond before a suspect version. Counts the changed versions, too.
 */
export async function moveWatermark(
  tx: Sql,
  { source, feed }: FeedId,
  { watermark, changed }: { watermark: Timestamp; changed: number },
): Promise<Timestamp | null> {
  const [row] = await tx.query<{ watermark: Timestamp | null }>(watermarkMove, [source, feed, watermark, changed]);
  return row?.watermark ?? null;
}

// Prepared: to plan it takes longer than to run it.
const watermarkMove = prepared(
  `update bridge.checkpoints c set watermark = greatest(c.watermark, least($3::timestamptz, (
     select min(d.modified) - interval '1 microsecond' from bridge.suspect_versions d
     where d.source = $1 and d.feed = $2 and (c.watermark is null or d.modified > c.watermark)))),
     changes = changes + $4
   where source = $1 and feed = $2 returning watermark`,
);

/** Counts changed versions for the charts, in the transaction that stores them. */
export async function countChanges(tx: Sql, { source, feed }: FeedId, changed: number): Promise<void> {
  await tx.query('update bridge.checkpoints set changes = changes + $3 where source = $1 and feed = $2', [
    source,
    feed,
    changed,
  ]);
}

export interface FinishedPull extends AnsweredNotifications {
  readonly next: Timestamp;
  /** Until then no notification asks for a pull. */
  readonly throttledUntil: Timestamp;
  readonly commitOrdered: boolean;
  /** Why the watermark stands still; null: it does not; undefined: as before. */
  readonly stalledBy: string | null | undefined;
}

/**
 * Stores that the feed has been read to its end. The notifications are answered; the next pull comes by schedule, or
 * earlier where a range is to be read again. Its transaction does not wait for the disk, and stores nothing else: if a
 * server that crashes undoes it, the feed is still due, and is read once more from where its pages have brought it.
 */
export async function finishPull(tx: Sql, { source, feed }: FeedId, pull: FinishedPull): Promise<void> {
  const { stalledBy } = pull;
  const answered = markAnswered(tx, { source, feed }, pull);
  const finished = tx.query(storeEnd, [
    source,
    feed,
    pull.next,
    pull.now,
    pull.commitOrdered,
    pull.throttledUntil,
    stalledBy === undefined,
    stalledBy ?? null,
  ]);
  await Promise.all([answered, finished]);
}

// Prepared: to plan it takes longer than to run it.
const storeEnd = prepared(
  `update bridge.checkpoints set last_pull = $4, failures = 0, last_error = null, commit_ordered = $5,
     throttled_until = $6,
     next_pull = least($3::timestamptz, (select min(due) from bridge.rereads where source = $1 and feed = $2)),
     stalled_since = case when $7 then stalled_since when $8::text is null then null
       else coalesce(stalled_since, $4) end,
     stalled_why = case when $7 then stalled_why else $8 end
   where source = $1 and feed = $2 returning ${withoutFlush}`,
);

/** Stores that the declared order of commits was proved: from now on the feed is read by following it. */
export async function saveOrderProved(tx: Sql, { source, feed }: FeedId, now: Timestamp): Promise<void> {
  await tx.query(
    'update bridge.checkpoints set order_proved = coalesce(order_proved, $3) where source = $1 and feed = $2',
    [source, feed, now],
  );
}

/** Stores that the watermark advances with the pages from now on: the next attempt, too, goes on there. */
export async function saveFollowed(tx: Sql, { source, feed }: FeedId): Promise<void> {
  await tx.query('update bridge.checkpoints set commit_ordered = true where source = $1 and feed = $2', [source, feed]);
}

/**
 * Stores that the feed does not keep the order that it declares: from now on it is read in windows. What was read by
 * following the order may lack records, so the watermark returns to the beginning, and the feed is read once more.
 */
export async function saveOrderBroken(
  tx: Sql,
  { source, feed }: FeedId,
  { why, now }: { why: string; now: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set order_broken = coalesce(order_broken, $3), order_broken_why = $4,
       order_proved = null, commit_ordered = false,
       watermark = case when order_proved is null then watermark end,
       unfiltered = case when order_proved is null then unfiltered end,
       unfiltered_pass = case when order_proved is null then unfiltered_pass else 1 end,
       unfiltered_next = case when order_proved is null then unfiltered_next end
     where source = $1 and feed = $2`,
    [source, feed, now, storableText(why)],
  );
}

/** The state of the window scan, of a feed that does not declare its order. */
export interface ScanState {
  /** When the last scan was made. */
  readonly scanned: Timestamp | null;
  readonly watermark: Timestamp | null;
  /** The newest stamp that is known to have been in the feed for the lateness bound. */
  readonly firstSeenBound: Timestamp | null;
}

/**
 * Takes a sample of what is newest in the feed, and turns a sample from `firstSeenBefore` or earlier into the
 * first-seen bound (see the head of this file). A sample whose time is still to come was taken before the clock was set
 * back: it is replaced.
 */
export async function noteFirstSeen(
  tx: Sql,
  { source, feed }: FeedId,
  sample: { newest: Timestamp; now: Timestamp; firstSeenBefore: Timestamp },
): Promise<ScanState> {
  const [row] = await tx.query<ScanState>(
    `update bridge.checkpoints set
       first_seen_bound = case when newest_noted_at <= $5 then greatest(first_seen_bound, newest_noted)
         else first_seen_bound end,
       newest_noted = case when newest_noted_at > $5 and newest_noted_at <= $4 then newest_noted else $3 end,
       newest_noted_at = case when newest_noted_at > $5 and newest_noted_at <= $4 then newest_noted_at else $4 end
     where source = $1 and feed = $2 returning scanned, watermark, first_seen_bound as "firstSeenBound"`,
    [source, feed, sample.newest, sample.now, sample.firstSeenBefore],
  );
  return row ?? { scanned: null, watermark: null, firstSeenBound: null };
}

export async function markScanned(tx: Sql, { source, feed }: FeedId, now: Timestamp): Promise<void> {
  await tx.query('update bridge.checkpoints set scanned = $3 where source = $1 and feed = $2', [source, feed, now]);
}

/** Stores that the service answers only without `include`, so that no later pull has to find it out again. */
export async function rememberNoIncludes(sql: Sql, { source, feed }: FeedId): Promise<void> {
  await sql.query(
    `update bridge.checkpoints set source_profile = coalesce(source_profile, '{}') || '{"includes": []}'
     where source = $1 and feed = $2`,
    [source, feed],
  );
}

/** Stores the step to which the source was proved to keep its bounds. */
export async function rememberGranularity(tx: Sql, { source, feed }: FeedId, micros: number): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set
       source_profile = coalesce(source_profile, '{}') || jsonb_build_object('granularityMicros', $3::bigint)
     where source = $1 and feed = $2`,
    [source, feed, micros],
  );
}

/** Stores how full a page can be, where more was seen than is known. */
export async function rememberPageCap(tx: Sql, { source, feed }: FeedId, records: number): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set
       source_profile = coalesce(source_profile, '{}') || jsonb_build_object('pageSize', $3::int)
     where source = $1 and feed = $2 and coalesce((source_profile ->> 'pageSize')::int, 0) < $3`,
    [source, feed, records],
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
    now: Timestamp;
    next: Timestamp;
    /** The source's quota was spent: the pull waits, and it does not count as a failure. */
    isRateLimited: boolean;
    /** A read without a filter begins again at its first page. */
    restart: boolean;
    generation: number | undefined;
  },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, throttled_until = $3, last_error = $4,
       failures = $9::int + case when $7 then 0 else 1 end,
       unfiltered_next = case when $5 then null else unfiltered_next end,
       stalled_since = coalesce(stalled_since, $8), stalled_why = $4
     where source = $1 and feed = $2 and ($6::bigint is null or generation = $6)`,
    [
      source,
      feed,
      pull.next,
      storableText(pull.error),
      pull.restart,
      pull.generation ?? null,
      pull.isRateLimited,
      pull.now,
      pull.failures,
    ],
  );
}

/** Replaces the feed's profile; does nothing for a feed that has no checkpoint, as this bridge does not read it. */
export async function saveSourceProfile(sql: Sql, { source, feed }: FeedId, profile: SourceProfile): Promise<void> {
  await sql.query('update bridge.checkpoints set source_profile = $3 where source = $1 and feed = $2', [
    source,
    feed,
    JSON.stringify(profile),
  ]);
}
