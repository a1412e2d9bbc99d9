/** Deletes what intakes keep for history once it is old: replaced versions, and submissions with their attempts. */
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';

const batchSize = 5_000;
const hourMs = 60 * 60_000;

/** Returns a function that deletes one batch of each when it is called, and after the last not again for an hour. */
export function createIntakePruning({ database, clock, days }: { database: Sql; clock: Clock; days: number }) {
  let nextMs = Number.NEGATIVE_INFINITY;
  return async (): Promise<void> => {
    if (clock.nowMs() < nextMs) return;
    const until = timestampFromMs(clock.nowMs() - days * 24 * hourMs);
    const versions = await database.query(
      `delete from bridge.intake_versions where ctid = any(array(
         select ctid from bridge.intake_versions where replaced < $1 order by replaced limit ${batchSize}
         for update skip locked))
       returning 1`,
      [until],
    );
    // An attempt goes with its submission.
    const submissions = await database.query(
      `delete from bridge.intake_submissions where ctid = any(array(
         select ctid from bridge.intake_submissions where ended < $1 order by ended limit 100
         for update skip locked))
       returning 1`,
      [until],
    );
    // What became of a requisition stands with its event, which is kept.
    const jobs = await database.query(
      `delete from bridge.intake_jobs where ctid = any(array(
         select ctid from bridge.intake_jobs where ended < $1 order by ended limit 1000
         for update skip locked))
       returning 1`,
      [until],
    );
    if (versions.length < batchSize && submissions.length < 100 && jobs.length < 1_000) nextMs = clock.nowMs() + hourMs;
  };
}
