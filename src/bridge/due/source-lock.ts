import type { Sql } from '#platform/database/database.ts';

/** Keeps these locks apart from anybody else's advisory locks in the same database. */
const lockSpace = 0x5b_50_ace;

/**
 * Until the end of the transaction nobody else stores records of these sources or registers flows for them. Both decide
 * which documents are marked by reading what the other writes, so two at once would each miss what the other has not
 * committed yet, and a document would stay as it was.
 */
export async function lockSources(tx: Sql, sources: Iterable<string>): Promise<void> {
  // One after the other and in order: two that need the same ones do not wait for each other in a circle.
  for (const source of [...new Set(sources)].sort())
    await tx.query('select pg_advisory_xact_lock($1, hashtext($2))', [lockSpace, source]);
}
