/**
 * Deletes submissions and jobs with their attempts once they are old. What became of a requisition stands with its event,
 * which is kept.
 */
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';

const batchSize = 100;
const hourMs = 60 * 60_000;

/** Returns a function that deletes one batch of each when it is called, and after the last not again for an hour. */
export function createIntakePruning({ database, clock, days }: { database: Sql; clock: Clock; days: number }) {
  let nextMs = Number.NEGATIVE_INFINITY;
  return async (): Promise<void> => {
    if (clock.nowMs() < nextMs) return;
    const until = timestampFromMs(clock.nowMs() - days * 24 * hourMs);
    // An attempt goes with its submission.
    const submissions = await database.query(
      `delete from bridge.intake_submissions where ctid = any(array(
         select ctid from bridge.intake_submissions where ended < $1 order by ended limit ${batchSize}
         for update skip locked))
       returning 1`,
      [until],
    );
    if (submissions.length < batchSize) nextMs = clock.nowMs() + hourMs;
  };
}
