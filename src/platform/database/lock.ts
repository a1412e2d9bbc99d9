/** A lock that one process at a time holds while it works, across processes. */
import { type AppError, hasErrorCode } from '../errors.ts';
import type { Database } from './database.ts';

/**
 * Runs `work` while nobody else runs work under this name. The lock is that of a transaction, which does nothing else: it
 * is free as soon as this process or its connection ends, and a pooler may share sessions. Throws `held` when another
 * process holds the lock for longer than `waitMs`.
 */
export async function withLock<T>(
  database: Database,
  { name, waitMs, held }: { name: string; waitMs: number; held: AppError },
  work: () => Promise<T>,
): Promise<T> {
  return database.transaction(async (tx) => {
    // The transaction is idle while the work runs, and may be for as long as that takes.
    await tx.query(
      `select set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', '0', true)`,
      [String(waitMs)],
    );
    try {
      await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 5))', [name]);
    } catch (cause) {
      throw hasErrorCode(cause, lockNotAvailable) ? held : cause;
    }
    return work();
  });
}

/** SQLSTATE */
export const lockNotAvailable = '55P03';
