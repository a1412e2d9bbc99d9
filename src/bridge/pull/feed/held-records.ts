/** What the mirror holds of a feed: an answer of the source is compared with it. One operation a function. */

import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FeedId } from './checkpoint-store.ts';

/**
 * Returns the newest stamp in the mirror that is not later than `until`; null when there is none. With `expected`, only
 * of records that no full audit has missed: the feed should show them.
 */
export async function readNewestStamp(
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

/** Returns the oldest stamp in the mirror; undefined when no record has a time. */
export async function readOldestStamp(sql: Sql, { source, feed }: FeedId): Promise<Timestamp | undefined> {
  const [row] = await sql.query<{ modified: Timestamp }>(
    `select modified from bridge.mirror where source = $1 and feed = $2 and modified > 'epoch'
     order by modified limit 1`,
    [source, feed],
  );
  return row?.modified;
}

/**
 * Returns the ids of the records whose current version lies in the range, at most `limit` of them: an answer for that
 * range should show them. Records that a full audit has missed are left out.
 */
export async function readKnownIds(
  sql: Sql,
  { source, feed }: FeedId,
  { after, to }: { after: Timestamp | undefined; to?: Timestamp },
  limit: number,
): Promise<Set<string>> {
  const rows = await sql.query<{ record_id: string }>(
    `select record_id from bridge.mirror
     where source = $1 and feed = $2 and modified <= coalesce($4, 'infinity'::timestamptz)
       and modified > coalesce($3, 'epoch'::timestamptz) and missing_since is null
     limit $5`,
    [source, feed, after ?? null, to ?? null, limit],
  );
  return new Set(rows.map((row) => row.record_id));
}
