/**
 * What an operator can do to the reading of a feed while processes run: set or reset its checkpoint, start or cancel a
 * backfill, request an audit. Each command is one transaction. A pull or backfill that is under way stores nothing
 * afterwards of what it has begun before.
 */
import { openAskedAudit } from '#bridge/pull/backfill/audit-store.ts';
import { insertBackfill, markCancelled, readBackfills } from '#bridge/pull/backfill/backfill-store.ts';
import { type FeedId, lockCheckpoint } from '#bridge/pull/feed/checkpoint-store.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';

export { readBackfills } from '#bridge/pull/backfill/backfill-store.ts';

/**
 * Sets the watermark. The next pull reads the feed from there on and is due at once. Returns a sentence for the
 * operator that says what happens. Throws AppError `not-found` for a feed that was never read here, `invalid` for a
 * time in the future.
 */
export async function setCheckpoint(
  database: Database,
  feed: FeedId,
  watermark: Timestamp,
  now: Timestamp,
): Promise<string> {
  if (watermark > now)
    throw new AppError(
      'invalid',
      `A checkpoint cannot be set to ${watermark}, which is in the future: records written until then would be lost.`,
    );
  return database.transaction(async (tx) => {
    const before = await moveCheckpoint(tx, feed, watermark, now);
    const name = `${feed.source}/${feed.feed}`;
    if (before !== null && watermark <= before)
      return `${name} is read again from ${watermark} on. The mirror stays, and only what differs is delivered.`;
    return (
      `${name} is read from ${watermark} on. What changed between ${before ?? 'the beginning'} and then is not read, ` +
      'unless an audit or a backfill of that time reads it.'
    );
  });
}

/**
 * Clears the watermark: the whole feed is read again. The mirror stays, so no document is delivered twice. Returns and
 * throws as `setCheckpoint` does.
 */
export async function resetFeed(database: Database, feed: FeedId, now: Timestamp): Promise<string> {
  return database.transaction(async (tx) => {
    await moveCheckpoint(tx, feed, null, now);
    return (
      `${feed.source}/${feed.feed} is read again from its beginning. ` +
      'The mirror stays, and only what differs is delivered.'
    );
  });
}

/** Returns where the watermark stood. A feed that is read from its beginning may prove its order anew. */
async function moveCheckpoint(
  tx: Sql,
  { source, feed }: FeedId,
  watermark: Timestamp | null,
  now: Timestamp,
): Promise<Timestamp | null> {
  const [held] = await tx.query<{ watermark: Timestamp | null }>(
    'select watermark from bridge.checkpoints where source = $1 and feed = $2 for no key update',
    [source, feed],
  );
  if (!held) throw neverRead({ source, feed });
  await tx.query(
    `update bridge.checkpoints set watermark = $3, generation = generation + 1, next_pull = $4, failures = 0,
       last_error = null, stalled_why = null
     where source = $1 and feed = $2`,
    [source, feed, watermark, now],
  );
  if (watermark === null) await forgetFeed(tx, { source, feed }, now);
  return held.watermark;
}

async function forgetFeed(tx: Sql, { source, feed }: FeedId, now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.checkpoints set created = $3, last_pull = null, first_seen = '{}',
       source_profile = source_profile - array['orderProved', 'orderBroken', 'orderBrokenWhy']
     where source = $1 and feed = $2`,
    [source, feed, now],
  );
  // The records without a time are read anew, too.
  await tx.query(`delete from bridge.backfills where source = $1 and feed = $2 and kind = 'untimed'`, [source, feed]);
}

/**
 * Requests that a range of time, both ends included, is read again, and returns the number of the backfill. A process
 * with the role pull does the work. Throws AppError `invalid` when the range is empty, `not-found` for a feed that was
 * never read here.
 */
export async function startBackfill(
  database: Database,
  { source, feed, from, to }: FeedId & { from: Timestamp; to: Timestamp },
  now: Timestamp,
): Promise<number> {
  if (from > to) throw new AppError('invalid', `A backfill from ${from} to ${to} ends before it begins.`);
  return database.transaction(async (tx) => {
    await requireCheckpoint(tx, { source, feed });
    return insertBackfill(tx, { source, feed }, { kind: 'range', from, to, now });
  });
}

/**
 * Cancels a backfill or an audit; what it has stored stays. The next audit comes after its usual interval. Does nothing
 * for one that has ended, or that does not exist.
 */
export async function cancelBackfill(database: Database, id: number, now: Timestamp): Promise<void> {
  await database.transaction(async (tx) => {
    const [backfill] = await readBackfills(tx, [id]);
    if (!backfill) return;
    // The worker locks the checkpoint before the backfill, too: in this order they cannot deadlock.
    await lockCheckpoint(tx, backfill);
    await markCancelled(tx, id, now);
  });
}

/**
 * Requests an audit of the whole feed. When one is already running, another one runs beside it. Throws AppError
 * `not-found` for a feed that was never read here.
 */
export async function requestAudit(database: Database, feed: FeedId, now: Timestamp): Promise<void> {
  await database.transaction(async (tx) => {
    await requireCheckpoint(tx, feed);
    await openAskedAudit(tx, feed, now);
  });
}

async function requireCheckpoint(tx: Sql, { source, feed }: FeedId): Promise<void> {
  const [held] = await tx.query('select 1 as held from bridge.checkpoints where source = $1 and feed = $2', [
    source,
    feed,
  ]);
  if (!held) throw neverRead({ source, feed });
}

function neverRead({ source, feed }: FeedId): AppError {
  return new AppError('not-found', `The feed ${source}/${feed} has no checkpoint: it was never read here.`);
}
