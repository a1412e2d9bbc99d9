/**
 * A unit of work: one transaction, and the wake-ups that follow its commit. The wake-ups only save time: a process that
 * dies before it sends them loses nothing, because the sweep finds in SQL what is due.
 */
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Signals } from '#platform/queue.ts';

/**
 * The lanes of work. Their keys: an organisation for submissions and jobs, an event for rounds, a webhook for
 * deliveries.
 */
export type ServiceLane = 'supplier-changes' | 'jobs' | 'file-jobs' | 'rounds' | 'deliveries';

export interface UnitOfWork {
  readonly tx: Sql;
  /** Wakes the lane's worker for `key` after the transaction has committed. */
  wake(lane: ServiceLane, key: string): void;
}

/** Runs `work` in a transaction. Throws what `work` throws, with everything rolled back and no worker woken. */
export type RunUnitOfWork = <T>(work: (unit: UnitOfWork) => Promise<T>) => Promise<T>;

/** Creates the function that runs units of work. */
export function createUnitOfWork(deps: {
  database: Pick<Database, 'transaction'>;
  signals: Pick<Signals, 'signal'>;
}): RunUnitOfWork {
  return async (work) => {
    let woken = new Map<ServiceLane, Set<string>>();
    const result = await deps.database.transaction(async (tx) => {
      // After a deadlock the transaction runs again: the wake-ups of the first run are dropped.
      woken = new Map();
      return work({
        tx,
        wake: (lane, key) => {
          const keys = woken.get(lane) ?? new Set();
          woken.set(lane, keys.add(key));
        },
      });
    });
    // Not awaited: the work is committed, and the sweep finds what a lost signal would have woken.
    for (const [lane, keys] of woken) void deps.signals.signal(lane, [...keys]);
    return result;
  };
}

/**
 * Whether work failed because a part it needs was unavailable, or because the database rolled it back in favour of
 * another transaction (SQLSTATE class 40). Such work is still due, unchanged.
 */
export function isWorthRepeating(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'unavailable';
  return error instanceof Error && 'code' in error && String(error.code).startsWith('40');
}
