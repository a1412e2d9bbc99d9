/**
 * A unit of work: one transaction, and the wake-ups that follow its commit. The wake-ups are a courtesy: a process that
 * dies before it sends them loses nothing, because each lane's sweep finds in SQL what is due.
 */
import type { Database, Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Signals } from '#platform/queue.ts';

/** What waits to be worked: submissions and jobs by organisation, rounds by event, notifications by webhook. */
export type ServiceLane = 'supplier-changes' | 'jobs' | 'file-jobs' | 'rounds' | 'deliveries';

export interface UnitOfWork {
  readonly tx: Sql;
  /** Wakes the lane's worker for `key` once the transaction has committed. */
  wake(lane: ServiceLane, key: string): void;
}

export type RunUnitOfWork = <T>(work: (unit: UnitOfWork) => Promise<T>) => Promise<T>;

/** Creates the runner. It throws what `work` throws, with everything rolled back and nobody woken. */
export function createUnitOfWork(deps: {
  database: Pick<Database, 'transaction'>;
  signals: Pick<Signals, 'signal'>;
}): RunUnitOfWork {
  return async (work) => {
    let woken = new Map<ServiceLane, Set<string>>();
    const result = await deps.database.transaction(async (tx) => {
      // A deadlock makes the transaction run again: what the first try wanted to wake is forgotten.
      woken = new Map();
      return work({
        tx,
        wake: (lane, key) => {
          const keys = woken.get(lane) ?? new Set();
          woken.set(lane, keys.add(key));
        },
      });
    });
    // Not waited for: the answer is true already, and the sweep makes up for a signal that is lost.
    for (const [lane, keys] of woken) void deps.signals.signal(lane, [...keys]);
    return result;
  };
}

/** Whether work failed because the database was away, or undid it in favour of another's: it is due again, unchanged. */
export function isWorthRepeating(error: unknown): boolean {
  if (error instanceof AppError) return error.code === 'unavailable';
  return error instanceof Error && 'code' in error && String(error.code).startsWith('40');
}
