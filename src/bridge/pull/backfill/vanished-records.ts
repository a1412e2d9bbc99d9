/**
 * Records that a source no longer has. No feed reports a deletion, so it is inferred: a record has vanished when two
 * complete reads of the whole feed both lacked it. A source that lost its index, or an API key that sees less than
 * before, looks the same. So when very many records are missing at once, none is withdrawn, and the operator is warned.
 */

import { documentKeysOf } from '#bridge/documents/document-keys.ts';
import { markDocuments, markDocumentsOfEvents } from '#bridge/mirror/due/mark-documents.ts';
import { lockSources } from '#bridge/mirror/due/source-lock.ts';
import { withoutTime } from '#bridge/mirror/read-version.ts';
import { type FeedName, feeds, missingMeansDeleted } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FeedId } from '../feed/checkpoint-store.ts';
import type { Range } from '../feed/time-range.ts';
import type { Backfill } from './backfill-store.ts';

/**
 * Missing records are not taken as deleted when they are more than this number and more than this share of the feed.
 */
const vanishedMax = { count: 10, share: 0.05 };

/**
 * Marks the records that the mirror holds of a range and that a complete answer did not show. A record that was stored
 * after the answer was requested is left out. `storeRecords` removes the mark when the record is shown again.
 */
export async function markMissing(
  tx: Sql,
  { source, feed }: FeedId & { feed: FeedName },
  range: Range,
  shown: { ids: readonly string[]; observed: Timestamp; now: Timestamp },
): Promise<void> {
  if (!missingMeansDeleted(feed)) return;
  await tx.query(
    `update bridge.mirror set missing_since = $3
     where source = $1 and feed = $2 and modified > coalesce($4::timestamptz, '-infinity') and modified <= $5
       and record_id <> all($6) and seen < $7 and missing_since is null and modified <> $8`,
    [source, feed, shown.now, range.after ?? null, range.to, shown.ids, shown.observed, withoutTime],
  );
}

export interface Vanished {
  /** How many records were marked as gone. */
  readonly gone: number;
  /** A text for the operator when so many records were missing that none was marked as gone; else undefined. */
  readonly refused: string | undefined;
}

/**
 * Marks the records as gone that this full audit and the one before it both lacked, and marks their documents as due.
 * It runs in the transaction that ends the audit. Nothing is inferred while the pull is behind: a record that has
 * changed since then lies elsewhere in the feed.
 */
export async function markVanished(
  tx: Sql,
  feed: FeedId & { feed: FeedName },
  audit: Backfill,
  options: { latenessMs: number; now: Timestamp },
): Promise<Vanished> {
  const { now, latenessMs } = options;
  if (!missingMeansDeleted(feed.feed)) return { gone: 0, refused: undefined };
  const [auditBefore] = await tx.query<{ finished: Timestamp }>(
    `select b.finished from bridge.backfills b join bridge.checkpoints c using (source, feed)
     where b.source = $1 and b.feed = $2 and b.kind = 'full' and b.id <> $3 and b.finished <= $4
       and c.failures = 0 and c.last_pull >= b.finished + $5 * interval '1 ms'
     order by b.finished desc limit 1`,
    [feed.source, feed.feed, audit.id, addMicros(audit.asked, -latenessMs * 1_000), latenessMs],
  );
  if (!auditBefore) return { gone: 0, refused: undefined };
  await lockSources(tx, [feed.source]);
  const [count] = await tx.query<{ missing: number; held: number }>(
    `select count(*) filter (where missing_since <= $3 and modified <= $4)::int as missing, count(*)::int as held
     from bridge.mirror where source = $1 and feed = $2 and gone is null`,
    [feed.source, feed.feed, auditBefore.finished, audit.to],
  );
  const { missing = 0, held = 0 } = count ?? {};
  if (missing > vanishedMax.count && missing > held * vanishedMax.share)
    return {
      gone: 0,
      refused:
        `${missing} of ${held} records were missing in two complete reads of the feed. So many are not taken as ` +
        'deleted: no document is withdrawn. Check whether the API key still sees all records.',
    };
  const gone = await tx.query<{ record_id: string; body: string }>(
    `update bridge.mirror set gone = $4
     where source = $1 and feed = $2 and gone is null and missing_since <= $3 and modified <= $5
     returning record_id, body`,
    [feed.source, feed.feed, auditBefore.finished, now, audit.to],
  );
  const keys = gone.flatMap(({ body }) => documentKeysOf(feed.feed, JSON.parse(body) as unknown));
  await markDocuments(tx, { source: feed.source }, keys, now);
  const events = gone.map((row) => row.record_id);
  if (feeds[feed.feed].event === 'id') await markDocumentsOfEvents(tx, { source: feed.source }, events, now);
  return { gone: gone.length, refused: undefined };
}
