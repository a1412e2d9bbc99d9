/**
 * What the planner knows of the mirror. PostgreSQL looks at its tables once a minute; a first reading stores a million
 * records in that time, and as long as a table counts as empty, each page is looked up by walking over all that is in it.
 */
import type { Sql } from '#platform/database/database.ts';

/** It is looked after so many records, and again when there are ten times as many as at the last look. */
const firstLookAfter = 1_000;
const lookAgainFactor = 10;

/** Gives what is to be told, after its commit, how many records a page has changed. Rejects when the database is away. */
export function createFreshStatistics(sql: Sql): (changed: number) => Promise<void> {
  let stored = 0;
  let nextLook = firstLookAfter;
  return async (changed) => {
    stored += changed;
    if (stored < nextLook) return;
    nextLook = stored * lookAgainFactor;
    const [known] = await sql.query<{ rows: number }>(
      `select reltuples::float8 as rows from pg_class where oid = 'bridge.mirror'::regclass`,
    );
    // Another process that looks just now has it done for us.
    if (known && known.rows < stored) await sql.query('analyze (skip_locked) bridge.mirror, bridge.flow_documents');
  };
}
