/** The rows of a comparison's feeds and windows, and the mirror's records of a window, one operation a function. */
import type { FeedName } from '#contract/feed.ts';
import { missingMeansDeleted } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { withoutTime } from '../mirror/read-version.ts';
import type { FeedId } from '../pull/feed/checkpoint-store.ts';
import type { Range } from '../pull/feed/time-range.ts';

/** A feed of a run, and how far it was compared. */
export interface ComparedFeed {
  readonly feed: FeedName;
  /** The watermark when the comparison of the feed began; null: the feed was never read to an end. */
  readonly upper: Timestamp | null;
  readonly position: Timestamp | null;
  readonly ended: Timestamp | null;
  readonly granularityMicros: number | undefined;
}

/** A version of a record; the hash is that of its content, in hexadecimal. */
export interface HashedRecord {
  readonly recordId: string;
  readonly modified: Timestamp;
  readonly hash: string;
}

export interface FeedFinding {
  readonly record: string;
  readonly finding: 'missing' | 'different' | 'gone';
  readonly modified: Timestamp;
}

/** Returns the feed of the run as it stands; begins it when there is none yet. */
export async function beginFeed(
  sql: Sql,
  { run, source, feed }: { run: number; source: string; feed: FeedName },
): Promise<ComparedFeed> {
  await sql.query(
    `insert into bridge.reconciliation_feeds (run, feed, upper)
     values ($1, $3, (select watermark from bridge.checkpoints where source = $2 and feed = $3))
     on conflict (run, feed) do nothing`,
    [run, source, feed],
  );
  const [row] = await sql.query<Omit<ComparedFeed, 'granularityMicros'> & { granularityMicros: number | null }>(
    `select f.feed, f.upper, f.position, f.ended,
       (c.source_profile ->> 'granularityMicros')::bigint as "granularityMicros"
     from bridge.reconciliation_feeds f left join bridge.checkpoints c on c.source = $2 and c.feed = f.feed
     where f.run = $1 and f.feed = $3`,
    [run, source, feed],
  );
  if (!row) throw new AppError('internal', 'The comparison of a feed was not stored.');
  return { ...row, granularityMicros: row.granularityMicros ?? undefined };
}

/**
 * Returns the mirror's records of the range, and those with these ids wherever they are. Records that the source is known
 * to have deleted are left out, and those without a time, which lie in no range.
 */
export async function readMirrorWindow(
  sql: Sql,
  { source, feed }: FeedId,
  { after, to }: Range,
  ids: readonly string[],
): Promise<HashedRecord[]> {
  return sql.query<HashedRecord>(
    `select record_id as "recordId", modified, encode(content_hash, 'hex') as hash from bridge.mirror
     where source = $1 and feed = $2 and gone is null and modified <> $6
       and (record_id = any($5) or (modified <= $4 and modified > coalesce($3, '-infinity'::timestamptz)))`,
    [source, feed, after ?? null, to, ids, withoutTime],
  );
}

/** What a window has come to. */
export interface ComparedFeedWindow {
  readonly run: number;
  readonly feed: FeedName;
  readonly range: Range;
  readonly source: { readonly records: number; readonly hash: string };
  readonly mirror: { readonly records: number; readonly hash: string };
  readonly findings: readonly FeedFinding[];
}

/**
 * Stores the window and moves the feed's position behind it, in one transaction. Throws AppError `conflict` when another
 * process has come further: nothing is written then.
 */
export async function storeFeedWindow(database: Database, window: ComparedFeedWindow): Promise<void> {
  const { run, feed, range, source, mirror } = window;
  const findings = missingMeansDeleted(feed)
    ? window.findings
    : // Such a feed hides records for a time, and shows them again with their old stamps.
      window.findings.filter(({ finding }) => finding !== 'gone');
  await database.transaction(async (tx) => {
    const moved = await tx.query(
      `update bridge.reconciliation_feeds f set position = $3 from bridge.reconciliations r
       where f.run = $1 and f.feed = $2 and f.ended is null and f.position is not distinct from $4::timestamptz
         and r.id = f.run and r.ended is null and r.given_up is null returning f.feed`,
      [run, feed, range.to, range.after ?? null],
    );
    if (moved.length === 0)
      throw new AppError('conflict', `Another process goes on with this comparison of the feed ${feed}.`);
    await tx.query(
      `insert into bridge.reconciliation_windows
         (run, feed, range_start, range_end, source_records, source_hash, mirror_records, mirror_hash)
       values ($1, $2, $3, $4, $5, $6, $7, $8)`,
      [run, feed, range.after ?? null, range.to, source.records, source.hash, mirror.records, mirror.hash],
    );
    await tx.query(
      `insert into bridge.reconciliation_feed_findings (run, feed, record_id, finding, modified)
       select $1, $2, f.record, f.finding, f.modified
       from unnest($3::text[], $4::text[], $5::timestamptz[]) as f (record, finding, modified)
       on conflict (run, feed, record_id) do nothing`,
      [
        run,
        feed,
        findings.map(({ record }) => record),
        findings.map(({ finding }) => finding),
        findings.map(({ modified }) => modified),
      ],
    );
  });
}

/** Returns the ids of records that a window lacked, and that the mirror still has as it had them. */
export async function readMaybeGone(sql: Sql, run: number, { source, feed }: FeedId): Promise<ReadonlySet<string>> {
  await sql.query(
    `delete from bridge.reconciliation_feed_findings f using bridge.mirror m
     where f.run = $1 and f.feed = $3 and f.finding = 'gone'
       and m.source = $2 and m.feed = f.feed and m.record_id = f.record_id and (m.modified <> f.modified or m.gone is not null)`,
    [run, source, feed],
  );
  const rows = await sql.query<{ record: string }>(
    `select record_id as record from bridge.reconciliation_feed_findings where run = $1 and feed = $2 and finding = 'gone'`,
    [run, feed],
  );
  return new Set(rows.map(({ record }) => record));
}

/** Takes the findings of these records back: the source shows them elsewhere. */
export async function takeBackGone(
  sql: Sql,
  { run, feed }: { run: number; feed: FeedName },
  records: readonly string[],
): Promise<void> {
  if (records.length === 0) return;
  await sql.query(
    `delete from bridge.reconciliation_feed_findings
     where run = $1 and feed = $2 and finding = 'gone' and record_id = any($3)`,
    [run, feed, records],
  );
}

/** Writes that the feed was compared, or why not; repeated, it changes nothing. */
export async function endFeed(
  sql: Sql,
  { run, feed, notCompared }: { run: number; feed: FeedName; notCompared: string | null },
  now: Timestamp,
): Promise<void> {
  await sql.query(
    `update bridge.reconciliation_feeds set ended = $3, not_compared = $4 where run = $1 and feed = $2 and ended is null`,
    [run, feed, now, notCompared],
  );
}
