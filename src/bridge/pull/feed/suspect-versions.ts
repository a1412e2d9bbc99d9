/**
 * Versions in suspectVersions, and ranges to be read once more: `bridge.suspect_versions` and `bridge.rereads`. A version that is older than
 * the one held may come from a replica that lags, and then only for a moment; or the source was set back. It is believed
 * when it is still shown after the lateness bound, for which its stamp is read again then. The watermark waits for it.
 */

import type { OlderVersion } from '#bridge/mirror/store-records.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { FeedId } from './checkpoint-store.ts';

/**
 * Notes that these were shown; gives those that have been shown for `latenessMs`, which are in suspectVersions no more: the caller
 * stores them in the same transaction. The others are read again when their time has come.
 */
export async function suspectVersions(
  tx: Sql,
  { source, feed }: FeedId,
  shown: readonly OlderVersion[],
  options: { now: Timestamp; latenessMs: number },
): Promise<OlderVersion[]> {
  if (shown.length === 0) return [];
  const { now, latenessMs } = options;
  const rows = await tx.query<{ record_id: string; first_shown: Timestamp }>(
    `insert into bridge.suspect_versions as d (source, feed, record_id, modified, content_hash, body, first_shown, last_shown)
     select $1, $2, shown.*, $3::timestamptz, $3::timestamptz
     from unnest($4::text[], $5::timestamptz[], $6::bytea[], $7::text[]) as shown
     on conflict (source, feed, record_id) do update set
       -- One of a time that is yet to come was noted by a clock that has been set back.
       first_shown = case when d.modified = excluded.modified and d.content_hash = excluded.content_hash
         and d.first_shown <= excluded.first_shown then d.first_shown else excluded.first_shown end,
       modified = excluded.modified, content_hash = excluded.content_hash, body = excluded.body,
       last_shown = excluded.last_shown
     returning record_id, first_shown`,
    [
      source,
      feed,
      now,
      shown.map(({ recordId }) => recordId),
      shown.map(({ modified }) => modified),
      shown.map(({ hash }) => hash),
      shown.map(({ body }) => body),
    ],
  );
  const firstShown = new Map(rows.map((row) => [row.record_id, row.first_shown]));
  const longAgo = addMicros(now, -latenessMs * 1_000);
  const believed = shown.filter(({ recordId }) => (firstShown.get(recordId) ?? now) <= longAgo);
  await dropSuspects(
    tx,
    { source, feed },
    believed.map(({ recordId }) => recordId),
  );
  const open = shown.filter((version) => !believed.includes(version));
  for (const { recordId, modified } of open)
    await rereadLater(
      tx,
      { source, feed },
      {
        after: addMicros(modified, -1),
        to: modified,
        due: addMicros(firstShown.get(recordId) ?? now, latenessMs * 1_000),
      },
    );
  return believed;
}

async function dropSuspects(tx: Sql, { source, feed }: FeedId, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx.query('delete from bridge.suspect_versions where source = $1 and feed = $2 and record_id = any($3)', [
    source,
    feed,
    ids,
  ]);
}

/** What a complete reading of the range did not show any more was a replica's. */
export async function dropSuspectsNotShown(
  tx: Sql,
  { source, feed }: FeedId,
  range: { after: Timestamp; to: Timestamp; since: Timestamp; now: Timestamp },
): Promise<void> {
  await tx.query(
    `delete from bridge.suspect_versions
     where source = $1 and feed = $2 and modified > $3 and modified <= $4 and (last_shown < $5 or last_shown > $6)`,
    [source, feed, range.after, range.to, range.since, range.now],
  );
}

export interface Reread {
  readonly after: Timestamp;
  readonly to: Timestamp;
}

/** The range is read again at `due`, by the next pull then. Asked twice, it is read at the later time. */
export async function rereadLater(
  tx: Sql,
  { source, feed }: FeedId,
  { after, to, due }: Reread & { due: Timestamp },
): Promise<void> {
  await tx.query(
    `with asked as (
       insert into bridge.rereads (source, feed, range_start, range_end, due) values ($1, $2, $3, $4, $5)
       on conflict (source, feed, range_start, range_end) do update set due = greatest(bridge.rereads.due, excluded.due)
     )
     update bridge.checkpoints set next_pull = least(next_pull, $5) where source = $1 and feed = $2 and failures = 0`,
    [source, feed, after, to, due],
  );
}

/** `latest`: what is due later than that was noted by a clock that has been set back, and is due now. */
interface DueTimes {
  readonly now: Timestamp;
  readonly latest: Timestamp;
}

export async function readDueRereads(sql: Sql, { source, feed }: FeedId, { now, latest }: DueTimes): Promise<Reread[]> {
  return sql.query<Reread>(
    `select range_start as after, range_end as "to" from bridge.rereads
     where source = $1 and feed = $2 and (due <= $3 or due > $4) order by due, range_start`,
    [source, feed, now, latest],
  );
}

export async function endReread(
  tx: Sql,
  { source, feed }: FeedId,
  { after, to }: Reread,
  { now, latest }: DueTimes,
): Promise<void> {
  await tx.query(
    `delete from bridge.rereads
     where source = $1 and feed = $2 and range_start = $3 and range_end = $4 and (due <= $5 or due > $6)`,
    [source, feed, after, to, now, latest],
  );
}

/** What of the current mirror stands in a range: the ids that an answer for it should show. */
export async function readKnownIds(
  sql: Sql,
  { source, feed }: FeedId,
  { after, to }: { after: Timestamp | undefined; to: Timestamp },
  limit: number,
): Promise<Set<string>> {
  const rows = await sql.query<{ record_id: string }>(
    `select record_id from bridge.mirror
     where source = $1 and feed = $2 and modified <= $4 and modified > coalesce($3, 'epoch'::timestamptz)
       and missing_since is null
     limit $5`,
    [source, feed, after ?? null, to, limit],
  );
  return new Set(rows.map((row) => row.record_id));
}
