/** Brings back into step what a comparison has found to differ, once a person has agreed. */
import { replayDocuments } from '#bridge/ledger/flows/control-flows.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { FindingName } from './finding-names.ts';
import { readFoundKeys } from './reconciliation-store.ts';

/** What a replay brings back into step. */
export const repairedFindings: readonly FindingName[] = ['changed', 'missing', 'cancelled', 'orphaned'];

/**
 * Makes the documents due that differ, and returns their number: the ERP is asked again before anything is written. Throws
 * AppError `conflict` where it is another number than the person has agreed to.
 */
export async function repairRun(
  database: Database,
  { id, flow }: { id: number; flow: string },
  expected: number,
  now: Timestamp,
): Promise<number> {
  const found = await readFoundKeys(database, id, repairedFindings);
  const count = found.reduce((sum, { keys }) => sum + keys.length, 0);
  if (count !== expected)
    throw new AppError(
      'conflict',
      `${count} documents of this comparison differ, and not the ${expected} that were shown.`,
    );
  let replayed = 0;
  for (const { kind, keys } of found) replayed += await replayDocuments(database, { flow, kinds: [kind], keys }, now);
  return replayed;
}
