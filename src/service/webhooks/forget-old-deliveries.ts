import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/**
 * Deletes deliveries that finished more than `keptDays` ago, with their attempts. Deliveries that are not finished
 * stay.
 */
export async function forgetOldDeliveries(sql: Sql, now: Timestamp, keptDays: number): Promise<void> {
  await sql.query('delete from service.deliveries where finished < $1', [addMicros(now, -keptDays * 86_400_000_000)]);
}
