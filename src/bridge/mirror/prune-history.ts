import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';

const batchSize = 5_000;
/** What calls it has other things to do. */
const batchesPerCall = 10;
const hourMs = 60 * 60_000;
const dayMs = 24 * hourMs;

/**
 * Deletes the versions that were replaced more than `days` ago, in batches that each commit by themselves, at most
 * `batchesMax` of them; the current version of a record is never among them. Several at once share the work. Gives how
 * many it has deleted, and whether that was all; a failure leaves the rest for the next time.
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

/** Prunes when it is called: at most once an hour when there is little, a bounded part of it when there is much. */
export function createHistoryPruning(options: { database: Sql; clock: Clock; days: number }): () => Promise<void> {
  const { database, clock, days } = options;
  let nextMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (clock.nowMs() < nextMs) return;
    const { finished } = await pruneHistory(database, timestampNow(clock), days, batchesPerCall);
    if (finished) nextMs = clock.nowMs() + hourMs;
  };
}
