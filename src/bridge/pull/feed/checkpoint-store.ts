/** The rows of `bridge.checkpoints`, and the notifications that ask for a pull. One operation a function. */

import { storableText } from '#bridge/storable-text.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { SourceProfile } from './source-profile.ts';

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

/**
 * For a clock that was set back: what waits for a time of the clock as it was is due now. A wait that was right costs a
 * request by that.
 */
export async function endWaits(sql: Sql, now: Timestamp): Promise<void> {
  await sql.query('update bridge.checkpoints set next_pull = $1 where next_pull > $1', [now]);
  await sql.query('update bridge.backfills set next_try = $1 where next_try > $1 and finished is null', [now]);
}

/** A pull that is due: where it starts, and what it answers. */
export interface DuePull {
  /** Everything of the feed up to here is in the mirror; null before the first page. */
  readonly watermark: Timestamp | null;
  /** What the checkpoint must still be at whenever this pull writes. */
  readonly generation: number;
  /** What the feed declared last; null before the first page. */
  readonly commitOrdered: boolean | null;
  /** What an audit has raised the lateness bound to. */
  readonly latenessMs: number | null;
  readonly unfiltered: Timestamp | null;
  readonly unfilteredNext: string | null;
  readonly profile: SourceProfile | null;
  /** It is its time, or it was asked for; not only a notification. */
  readonly scheduled: boolean;
  /** The notifications that were waiting when it began. What comes later asks for another pull. */
  readonly notifications: readonly number[];
}

/** By schedule, or by a notification; after a failure only when its wait is over, however many notifications come. */
const isDue = `(c.next_pull <= $1 or (c.failures = 0 and (c.throttled_until <= $1) is not false and exists (
  select from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.processed is null)))`;

/** The feeds that are due. */
export async function feedsDue(sql: Sql, now: Timestamp): Promise<FeedId[]> {
  return sql.query<FeedId>(`select source, feed from bridge.checkpoints c where ${isDue}`, [now]);
}

/** Undefined when the feed is not due. */
export async function readDuePull(sql: Sql, { source, feed }: FeedId, now: Timestamp): Promise<DuePull | undefined> {
  const [row] = await sql.query<DuePull>(
    `select watermark, generation, commit_ordered as "commitOrdered", lateness_ms as "latenessMs", unfiltered,
       unfiltered_next as "unfilteredNext", source_profile as profile, next_pull <= $1 as scheduled, array(
       select id from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.processed is null
     ) as notifications
     from bridge.checkpoints c where source = $2 and feed = $3 and ${isDue}`,
    [now, source, feed],
  );
  return row;
}

/** What is known of how a feed has to be read. */
export interface FeedTraits {
  readonly commitOrdered: boolean | null;
  readonly latenessMs: number | null;
  readonly profile: SourceProfile | null;
}

export async function readFeedTraits(sql: Sql, { source, feed }: FeedId): Promise<FeedTraits> {
  const [row] = await sql.query<FeedTraits>(
    `select commit_ordered as "commitOrdered", lateness_ms as "latenessMs", source_profile as profile from bridge.checkpoints
     where source = $1 and feed = $2`,
    [source, feed],
  );
  return row ?? { commitOrdered: null, latenessMs: null, profile: null };
}

/** Until the end of the transaction; whoever locks a source, too, locks the checkpoint before. */
export async function lockCheckpoint(tx: Sql, { source, feed }: FeedId): Promise<void> {
  await tx.query('select from bridge.checkpoints where source = $1 and feed = $2 for no key update', [source, feed]);
}

/** A person has set or reset the checkpoint while it was worked on: what was read belongs to another beginning. */
export class CheckpointMoved extends AppError {
  constructor({ source, feed }: FeedId) {
    super('conflict', `The checkpoint of ${source}/${feed} was set while the feed was read.`, {
      recovery: { do: 'retry' },
    });
    this.name = 'CheckpointMoved';
  }
}

/** Locks the checkpoint until the end of the transaction; throws CheckpointMoved when a person has set it since. */
export async function holdCheckpoint(tx: Sql, feed: FeedId, generation: number): Promise<void> {
  const [row] = await tx.query<{ generation: number }>(
    'select generation from bridge.checkpoints where source = $1 and feed = $2 for no key update',
    [feed.source, feed.feed],
  );
  if (row?.generation !== generation) throw new CheckpointMoved(feed);
}

export async function readNotificationBodies(sql: Sql, ids: readonly number[]): Promise<string[]> {
  const rows = await sql.query<{ body: string }>('select body from bridge.inbox where id = any($1)', [ids]);
  return rows.map(({ body }) => body);
}

export async function answerNotifications(tx: Sql, ids: readonly number[], now: Timestamp): Promise<void> {
  if (ids.length > 0) await tx.query('update bridge.inbox set processed = $2 where id = any($1)', [ids, now]);
}

/**
 * In the transaction that stored everything up to it. It never goes back by itself, and does not pass a version that is
 * in suspectVersions. Gives where it stands then.
 */
export async function moveWatermark(
  tx: Sql,
  { source, feed }: FeedId,
  watermark: Timestamp,
): Promise<Timestamp | null> {
  const [row] = await tx.query<{ watermark: Timestamp | null }>(
    `update bridge.checkpoints c set watermark = greatest(c.watermark, least($3::timestamptz, (
       select min(d.modified) - interval '1 microsecond' from bridge.suspect_versions d
       where d.source = $1 and d.feed = $2 and (c.watermark is null or d.modified > c.watermark))))
     where source = $1 and feed = $2 returning watermark`,
    [source, feed, watermark],
  );
  return row?.watermark ?? null;
}

export interface FinishedPull {
  readonly notifications: readonly number[];
  readonly now: Timestamp;
  readonly next: Timestamp;
  /** Notifications wait until then. */
  readonly throttledUntil: Timestamp;
  readonly commitOrdered: boolean;
  /** It has read the feed without a filter, to its end. */
  readonly unfiltered: boolean;
}

/** The feed has been read to its end: what asked for it is answered; the next look is on schedule, or at a reread. */
export async function finishPull(tx: Sql, { source, feed }: FeedId, pull: FinishedPull): Promise<void> {
  await answerNotifications(tx, pull.notifications, pull.now);
  await tx.query(
    `update bridge.checkpoints set last_pull = $4, failures = 0, last_error = null, commit_ordered = $5,
       throttled_until = $7,
       next_pull = least($3::timestamptz, (select min(due) from bridge.rereads where source = $1 and feed = $2)),
       unfiltered = case when $6 then coalesce(unfiltered, $4) else unfiltered end,
       unfiltered_next = case when $6 then null else unfiltered_next end
     where source = $1 and feed = $2`,
    [source, feed, pull.next, pull.now, pull.commitOrdered, pull.unfiltered, pull.throttledUntil],
  );
}

/** Where the walk without a filter goes on after a restart; null: from its beginning. */
export async function saveUnfilteredNext(tx: Sql, { source, feed }: FeedId, next: string | null): Promise<void> {
  await tx.query('update bridge.checkpoints set unfiltered_next = $3 where source = $1 and feed = $2', [
    source,
    feed,
    next,
  ]);
}

/**
 * The newest stamp in the mirror that is not later than `until`; null when there is none. `expected`: of the records that
 * no sweep has missed, so that the feed should show it.
 */
export async function readNewest(
  sql: Sql,
  { source, feed }: FeedId,
  until: Timestamp,
  { expected } = { expected: false },
): Promise<Timestamp | null> {
  const [row] = await sql.query<{ modified: Timestamp }>(
    `select modified from bridge.mirror where source = $1 and feed = $2 and modified <= $3
       ${expected ? 'and missing_since is null' : ''}
     order by modified desc limit 1`,
    [source, feed, until],
  );
  return row?.modified ?? null;
}

/** What is known of a feed that does not declare its order. */
export interface ScanState {
  readonly scanned: Timestamp | null;
  readonly watermark: Timestamp | null;
  /** A stamp that has been known for the lateness bound at least. */
  readonly firstSeenBound: Timestamp | null;
}

/**
 * Notes what is newest now, and lets what was noted before `longAgo` noteFirstSeen. What was noted at a time that is yet to come
 * begins anew: the clock has been set back.
 */
export async function noteFirstSeen(
  tx: Sql,
  { source, feed }: FeedId,
  seen: { newest: Timestamp; now: Timestamp; longAgo: Timestamp },
): Promise<ScanState> {
  const [row] = await tx.query<ScanState>(
    `update bridge.checkpoints set
       first_seen_bound = case when newest_noted_at <= $5 then greatest(first_seen_bound, newest_noted)
         else first_seen_bound end,
       newest_noted = case when newest_noted_at > $5 and newest_noted_at <= $4 then newest_noted else $3 end,
       newest_noted_at = case when newest_noted_at > $5 and newest_noted_at <= $4 then newest_noted_at else $4 end
     where source = $1 and feed = $2 returning scanned, watermark, first_seen_bound as "firstSeenBound"`,
    [source, feed, seen.newest, seen.now, seen.longAgo],
  );
  return row ?? { scanned: null, watermark: null, firstSeenBound: null };
}

export async function markScanned(tx: Sql, { source, feed }: FeedId, now: Timestamp): Promise<void> {
  await tx.query('update bridge.checkpoints set scanned = $3 where source = $1 and feed = $2', [source, feed, now]);
}

/** The service answers only without `include`: nobody needs to find that out again. */
export async function rememberNoIncludes(sql: Sql, { source, feed }: FeedId): Promise<void> {
  await sql.query(
    `update bridge.checkpoints set source_profile = coalesce(source_profile, '{}') || '{"includes": []}' where source = $1 and feed = $2`,
    [source, feed],
  );
}

/** How many pulls in a row have failed. */
export async function readFailures(sql: Sql, { source, feed }: FeedId): Promise<number> {
  const [row] = await sql.query<{ failures: number }>(
    'select failures from bridge.checkpoints where source = $1 and feed = $2',
    [source, feed],
  );
  return row?.failures ?? 0;
}

/**
 * What asked for it stays waiting; nothing is asked again before `next`. `restart`: a walk without a filter begins anew.
 * Does nothing to a checkpoint that a person has set meanwhile.
 */
export async function failPull(
  tx: Sql,
  { source, feed }: FeedId,
  pull: {
    error: string;
    next: Timestamp;
    /** It had to wait for the source's quota: nothing is wrong. */
    hadToWait: boolean;
    restart: boolean;
    generation: number | undefined;
  },
): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set next_pull = $3, throttled_until = $3, last_error = $4,
       failures = failures + case when $7 then 0 else 1 end,
       unfiltered_next = case when $5 then null else unfiltered_next end
     where source = $1 and feed = $2 and ($6::bigint is null or generation = $6)`,
    [source, feed, pull.next, storableText(pull.error), pull.restart, pull.generation ?? null, pull.hadToWait],
  );
}

/** What was learnt replaces what was known; a feed without a checkpoint is not read here. */
export async function saveSourceProfile(sql: Sql, { source, feed }: FeedId, profile: SourceProfile): Promise<void> {
  await sql.query('update bridge.checkpoints set source_profile = $3 where source = $1 and feed = $2', [
    source,
    feed,
    JSON.stringify(profile),
  ]);
}
