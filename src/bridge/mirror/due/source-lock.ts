import type { Sql } from '#platform/database/sql.ts';

/** The first key of these advisory locks: keeps them apart from all other advisory locks in the same database. */
const lockSpace = 0x5b_50_ace;

/**
 * Locks these sources until the end of the transaction: no other transaction stores records of them or registers flows
 * for them meanwhile. Storing records reads the flows to know which documents to mark, and registering a flow reads the
 * records. Without the lock, each of two concurrent transactions would miss what the other has not committed yet, and a
 * document would not be marked.
 */
export async function lockSources(tx: Sql, sources: Iterable<string>): Promise<void> {
  // In the order of their names: two transactions that lock the same sources cannot deadlock.
  await tx.query('select pg_advisory_xact_lock($1, hashtext(source)) from unnest($2::text[]) source', [
    lockSpace,
    [...new Set(sources)].sort(),
  ]);
}
