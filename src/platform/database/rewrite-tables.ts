/**
 * Rewrites tables, so that the files of the database hold nothing of what was changed or deleted in them: PostgreSQL leaves
 * old versions of rows in its files, and frequent values in its statistics, and a backup would have them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { hasErrorCode } from '../errors.ts';
import type { Database } from './database.ts';
import { lockNotAvailable } from './lock.ts';
import type { Sql } from './sql.ts';

/** Nobody can use a table while it is rewritten: a larger one is left to a quiet hour. */
const bytesMax = 1_000_000_000;
const lockWaitMs = 2_000;
const tries = 5;

export interface RewrittenTables {
  readonly rewritten: readonly string[];
  /** Too large, in use, or owned by another role; their names fit into `vacuum (full, analyze) …`. */
  readonly left: readonly string[];
}

/** Each table is locked while it is rewritten, and waits for a lock only for moments, so that others do not wait behind it. */
export async function rewriteTables(database: Database, tables: readonly string[]): Promise<RewrittenTables> {
  const rewritten: string[] = [];
  const left: string[] = [];
  await database.session(async (session) => {
    await session.query(`set lock_timeout = ${lockWaitMs}`);
    // The statistics after all that they are of.
    for (const table of new Set([...tables, 'pg_catalog.pg_statistic']))
      ((await rewrite(session, table)) ? rewritten : left).push(table);
    await session.query('reset lock_timeout');
    // A backup copies whole segments of the write-ahead log: the next one begins in another than what was written so far.
    await session.query(
      `select pg_switch_wal() where has_function_privilege('pg_switch_wal()', 'execute') and not pg_is_in_recovery()`,
    );
  });
  return { rewritten, left };
}

async function rewrite(session: Sql, table: string): Promise<boolean> {
  const [row] = await session.query<{ may: boolean }>(
    `select pg_has_role(relowner, 'usage') and pg_total_relation_size(oid) <= $2 as may from pg_class
     where oid = to_regclass($1)`,
    [table, bytesMax],
  );
  if (row?.may !== true) return false;
  for (let tried = 1; tried <= tries; tried += 1)
    try {
      await session.query(`vacuum (full, analyze) ${table}`);
      return true;
    } catch (error) {
      if (!hasErrorCode(error, lockNotAvailable)) throw error;
      await sleep(tried * 200);
    }
  return false;
}
