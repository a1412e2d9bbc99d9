/**
 * Records that a source does not have any more. No feed says so: it is inferred when two complete sweeps of the whole
 * feed both lacked a record. A source that lost its index, or an API key that sees less than before, looks the same, so
 * when very many are missing at once nothing is taken back, and a person is told.
 */

import { documentKeysOf } from '#bridge/documents/document-keys.ts';
import { markDocuments, markDocumentsOfEvents } from '#bridge/due/mark-documents.ts';
import { lockSources } from '#bridge/due/source-lock.ts';
import { withoutTime } from '#bridge/mirror/read-version.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { FeedId } from '../feed/checkpoint-store.ts';
import type { Range } from '../windows/window-scan.ts';
import type { Backfill } from './backfill-store.ts';

/**
 * Where a missing record is a deleted one. Bids and answers are missing, too, while their event is a draft, and come back
 * with their old times when it is published again (API document, "Rules common to all feeds" 6).
 */
const tellingFeeds: readonly string[] = ['sourcing-events', 'awards'] satisfies FeedName[];

/** More than both at once are not believed. */
const vanishedMax = { count: 10, share: 0.05 };

/**
 * Marks what the mirror holds of a range and a complete answer did not show. What was stored after the answer was asked
 * for is left out. A record that is shown again is marked no more (`storeRecords`).
 */
export async function markMissing(
  tx: Sql,
  { source, feed }: FeedId,
  range: Range,
  shown: { ids: readonly string[]; observed: Timestamp; now: Timestamp },
): Promise<void> {
  if (!tellingFeeds.includes(feed)) return;
  await tx.query(
    `update bridge.mirror set missing_since = $3
     where source = $1 and feed = $2 and modified > coalesce($4::timestamptz, '-infinity') and modified <= $5
       and record_id <> all($6) and seen < $7 and missing_since is null and modified <> $8`,
    [source, feed, shown.now, range.after ?? null, range.to, shown.ids, shown.observed, withoutTime],
  );
}

export interface Vanished {
  readonly gone: number;
  /** Set: so many were missing that none was taken back. */
  readonly refused: string | undefined;
}

/**
 * After a complete sweep, in the transaction that ends it: what a sweep before it lacked, too, is gone, and its documents
 * are marked. Nothing is inferred while the live pull is behind: a record that has changed stands elsewhere.
 */
export async function judgeMissing(
  tx: Sql,
  feed: FeedId & { feed: FeedName },
  sweep: Backfill,
  options: { latenessMs: number; now: Timestamp },
): Promise<Vanished> {
  const { now, latenessMs } = options;
  if (!tellingFeeds.includes(feed.feed)) return { gone: 0, refused: undefined };
  const [before] = await tx.query<{ finished: Timestamp }>(
    `select b.finished from bridge.backfills b join bridge.checkpoints c using (source, feed)
     where b.source = $1 and b.feed = $2 and b.kind = 'full' and b.id <> $3 and b.finished <= $4
       and c.failures = 0 and c.last_pull >= b.finished + $5 * interval '1 ms'
     order by b.finished desc limit 1`,
    [feed.source, feed.feed, sweep.id, addMicros(sweep.asked, -latenessMs * 1_000), latenessMs],
  );
  if (!before) return { gone: 0, refused: undefined };
  await lockSources(tx, [feed.source]);
  const [count] = await tx.query<{ missing: number; held: number }>(
    `select count(*) filter (where missing_since <= $3 and modified <= $4)::int as missing, count(*)::int as held
     from bridge.mirror where source = $1 and feed = $2 and gone is null`,
    [feed.source, feed.feed, before.finished, sweep.to],
  );
  const { missing = 0, held = 0 } = count ?? {};
  if (missing > vanishedMax.count && missing > held * vanishedMax.share)
    return {
      gone: 0,
      refused:
        `${missing} of ${held} records were missing in two complete readings of the feed. So many are not taken for ` +
        'deleted: nothing is withdrawn. Look whether the API key still sees everything.',
    };
  const gone = await tx.query<{ record_id: string; body: string }>(
    `update bridge.mirror set gone = $4
     where source = $1 and feed = $2 and gone is null and missing_since <= $3 and modified <= $5
     returning record_id, body`,
    [feed.source, feed.feed, before.finished, now, sweep.to],
  );
  const keys = gone.flatMap(({ body }) => documentKeysOf(feed.feed, JSON.parse(body) as unknown));
  await markDocuments(tx, { source: feed.source }, keys, now);
  const events = gone.map((row) => row.record_id);
  if (feed.feed === 'sourcing-events') await markDocumentsOfEvents(tx, feed.source, events, now);
  return { gone: gone.length, refused: undefined };
}
