/** Deletes old versions from the mirror's history. */
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';

const batchSize = 5_000;
/** Pruning runs within the sweep, which has other work to do. */
const batchesPerCall = 10;
const hourMs = 60 * 60_000;
const dayMs = 24 * hourMs;

/**
 * Deletes the versions that were replaced more than `days` ago, in at most `batchesMax` batches; each batch is a
 * transaction of its own. The current version of a record is never deleted. Several processes may prune at once and
 * share the work. Returns how many versions were deleted, and whether none is left; a failure leaves the rest for the
 * next call.
 */
export async function pruneHistory(
  database: Sql,
  now: Timestamp,
  days: number,
  batchesMax = Number.POSITIVE_INFINITY,
): Promise<{ deleted: number; finished: boolean }> {
  const until = timestampFromMs(msFromTimestamp(now) - days * dayMs);
  let deleted = 0;
  for (let batches = 1; ; batches += 1) {
    const rows = await database.query(
      `delete from bridge.mirror_history where ctid = any(array(
         select ctid from bridge.mirror_history where replaced < $1 order by replaced limit ${batchSize}
         for update skip locked))
       returning 1`,
      [until],
    );
    deleted += rows.length;
    if (rows.length < batchSize) return { deleted, finished: true };
    if (batches >= batchesMax) return { deleted, finished: false };
  }
}

/**
 * Returns a function that prunes when it is called: a bounded number of batches at a time, and after the last of them
 * not again for an hour.
 */
export function createHistoryPruning(options: { database: Sql; clock: Clock; days: number }): () => Promise<void> {
  const { database, clock, days } = options;
  let nextMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (clock.nowMs() < nextMs) return;
    const { finished } = await pruneHistory(database, timestampNow(clock), days, batchesPerCall);
    if (finished) nextMs = clock.nowMs() + hourMs;
  };
}
