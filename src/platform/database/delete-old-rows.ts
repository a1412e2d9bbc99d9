import type { Sql } from './sql.ts';

const batchSize = 5_000;
/** Pruning runs within the sweep, which has other work to do, and which a stop waits for. */
const batchesPerCall = 10;

/**
 * Deletes the rows of `table` whose `column` is before `before`, in a bounded number of batches, each a transaction of its
 * own. Several processes may do it at once and share the work. Returns whether none is left; a failure leaves the rest for
 * the next call.
 */
export async function deleteOldRows(
  sql: Sql,
  { table, column, before }: { table: string; column: string; before: string },
): Promise<boolean> {
  for (let batches = 0; batches < batchesPerCall; batches += 1) {
    const deleted = await sql.query(
      `delete from ${table} where ctid = any(array(
         select ctid from ${table} where ${column} < $1 limit ${batchSize} for update skip locked))
       returning 1`,
      [before],
    );
    if (deleted.length < batchSize) return true;
  }
  return false;
}
