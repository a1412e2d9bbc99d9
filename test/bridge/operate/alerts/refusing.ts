/** Refused notifications, counted and stored as a receiver does. */
import { createRefusals, type RefusalReason } from '#bridge/receive/refusals.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';

export async function addRefusals(
  database: Database,
  clock: Clock,
  count: number,
  reason: RefusalReason = 'wrong-signature',
): Promise<void> {
  const refusals = createRefusals({ log: silentLogger, clock, sources: new Set(['main']) });
  for (let n = 0; n < count; n += 1) refusals.refused('main', reason);
  await refusals.save(database);
}
