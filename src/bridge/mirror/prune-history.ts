import { addMicros } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { deleteOldRows } from '#platform/database/delete-old-rows.ts';
import type { Sql } from '#platform/database/sql.ts';

const hourMs = 60 * 60_000;
const dayMicros = 24 * hourMs * 1_000;

/**
 * Returns a function that deletes versions that were replaced more than `days` ago: a bounded number of them at a time,
 * and after the last one not again for an hour. The current version of a record is never deleted.
 */
export function createHistoryPruning(options: { database: Sql; clock: Clock; days: number }): () => Promise<void> {
  const { database, clock, days } = options;
  let nextMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (clock.nowMs() < nextMs) return;
    const before = addMicros(timestampNow(clock), -days * dayMicros);
    const isDone = await deleteOldRows(database, { table: 'bridge.mirror_history', column: 'replaced', before });
    if (isDone) nextMs = clock.nowMs() + hourMs;
  };
}
