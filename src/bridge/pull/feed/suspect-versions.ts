/**
 * Suspect versions (`bridge.suspect_versions`) and the ranges that are to be read again (`bridge.rereads`).
 *
 * A version that is older than the one in the mirror is suspect. A replica that lags shows one, but only for a moment;
 * a source that was set back shows it for good. It is believed if the source still shows it after the lateness bound,
 * and until that is known the watermark does not pass it. Example with a lateness of 30 s; the mirror holds award A
 * with the stamp 10:00:00, and the watermark stands at 09:40:00:
 *
 * | time     | a scan shows          | what happens                                                              |
 * |----------|-----------------------|---------------------------------------------------------------------------|
 * | 10:05:00 | A stamped 09:50:00    | A is suspect since 10:05:00. The range (09:49:59.999999, 09:50:00] is to  |
 * |          |                       | be read again at 10:05:30. The watermark stops at 09:49:59.999999.        |
 * | 10:05:20 | A stamped 09:50:00    | It has been shown for 20 s: it stays suspect.                             |
 * | 10:05:30 | either: nothing there | The replica had lagged. A is no longer suspect; the mirror is unchanged.  |
 * |          | or: A of 09:50:00     | It has been shown for 30 s: the source was set back. The mirror takes it. |
 */

import type { OlderVersion } from '#bridge/mirror/store-records.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FeedId } from './checkpoint-store.ts';
import type { Range } from './time-range.ts';

/**
 * Records that these older versions were shown, and returns those that have been shown for `latenessMs`. These are no
 * longer suspect: the caller stores them in the same transaction. The others are read again once they have been suspect
 * for that long.
 */
export async function recordSuspects(
  tx: Sql,
  { source, feed }: FeedId,
  shown: readonly OlderVersion[],
  options: { now: Timestamp; latenessMs: number },
): Promise<OlderVersion[]> {
  if (shown.length === 0) return [];
  const { now, latenessMs } = options;
  const rows = await tx.query<{ record_id: string; first_shown: Timestamp }>(
    `insert into bridge.suspect_versions as d
       (source, feed, record_id, modified, content_hash, body, first_shown, last_shown)
     select $1, $2, shown.*, $3::timestamptz, $3::timestamptz
     from unnest($4::text[], $5::timestamptz[], $6::bytea[], $7::text[]) as shown
     on conflict (source, feed, record_id) do update set
       -- A first time that is still to come was recorded before the clock was set back: the version counts as new.
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
  const firstShownBefore = addMicros(now, -latenessMs * 1_000);
  const believed = shown.filter(({ recordId }) => (firstShown.get(recordId) ?? now) <= firstShownBefore);
  await dropSuspects(
    tx,
    { source, feed },
    believed.map(({ recordId }) => recordId),
  );
  const stillSuspect = shown.filter((version) => !believed.includes(version));
  for (const { recordId, modified } of stillSuspect)
    await scheduleReread(
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

/**
 * Drops the suspect versions of a range that a complete read of it, from `since` to `now`, did not show: a replica had
 * lagged. A last time later than `now` was recorded before the clock was set back; that version is dropped, too.
 */
export async function dropSuspectsNotShown(
  tx: Sql,
  { source, feed }: FeedId,
  range: Reread & { since: Timestamp; now: Timestamp },
): Promise<void> {
  await tx.query(
    `delete from bridge.suspect_versions
     where source = $1 and feed = $2 and modified > $3 and modified <= $4 and (last_shown < $5 or last_shown > $6)`,
    [source, feed, range.after, range.to, range.since, range.now],
  );
}

/** A range that is to be read again; unlike other ranges it always has a beginning. */
export interface Reread extends Range {
  readonly after: Timestamp;
}

/**
 * Stores that the range is to be read again at `due`: by the first pull from then on, which is due at that time. A
 * range that is scheduled twice is read at the later time.
 */
export async function scheduleReread(
  tx: Sql,
  { source, feed }: FeedId,
  { after, to, due }: Reread & { due: Timestamp },
): Promise<void> {
  await tx.query(
    `with scheduled as (
       insert into bridge.rereads (source, feed, range_start, range_end, due) values ($1, $2, $3, $4, $5)
       on conflict (source, feed, range_start, range_end) do update set due = greatest(bridge.rereads.due, excluded.due)
     )
     update bridge.checkpoints set next_pull = least(next_pull, $5) where source = $1 and feed = $2 and failures = 0`,
    [source, feed, after, to, due],
  );
}

/** A range that is due later than `latest` was scheduled before the clock was set back: it is due now. */
interface DueTimes {
  readonly now: Timestamp;
  readonly latest: Timestamp;
}

/** Returns the ranges that are to be read again now, the one that has waited longest first; `tries` have failed. */
export async function readDueRereads(
  sql: Sql,
  { source, feed }: FeedId,
  { now, latest }: DueTimes,
): Promise<(Reread & { readonly tries: number })[]> {
  return sql.query(
    `select range_start as after, range_end as "to", tries from bridge.rereads
     where source = $1 and feed = $2 and (due <= $3 or due > $4) order by due, range_start`,
    [source, feed, now, latest],
  );
}

/** The range of $3 and $4, unless it was scheduled once more for a later time meanwhile. */
const dueReread = 'source = $1 and feed = $2 and range_start = $3 and range_end = $4 and (due <= $5 or due > $6)';

/** Stores that a range could not be read to its end, and when it is due once more; as `finishReread` does. */
export async function postponeReread(
  tx: Sql,
  { source, feed }: FeedId,
  { after, to }: Reread,
  { now, latest, due }: DueTimes & { due: Timestamp },
): Promise<void> {
  const params = [source, feed, after, to, now, latest, due];
  await tx.query(`update bridge.rereads set due = $7, tries = tries + 1 where ${dueReread}`, params);
}

/** Deletes a range that was read again, unless it was scheduled once more for a later time meanwhile. */
export async function finishReread(
  tx: Sql,
  { source, feed }: FeedId,
  { after, to }: Reread,
  { now, latest }: DueTimes,
): Promise<void> {
  await tx.query(`delete from bridge.rereads where ${dueReread}`, [source, feed, after, to, now, latest]);
}
