/**
 * The clock of a program: the database's. What is due is compared with it and stored by it, so that all processes agree,
 * and a machine whose own clock is wrong, or is set while the program runs, makes nothing due too late or too early.
 * Between two questions to the database the time runs on by the machine's steady clock, which nobody sets.
 */
import { type Clock, systemClock } from '#platform/clock.ts';
import type { Database } from './database.ts';
import { prepared } from './sql.ts';

const askEveryMs = 10_000;

export interface DatabaseClock extends Clock {
  /** Stops asking; the time runs on. */
  close(): Promise<void>;
}

/** Rejects when the database does not answer. Later it goes on by the last answer while the database is away. */
export async function createDatabaseClock(
  database: Database,
  { askEveryMs: everyMs = askEveryMs }: { askEveryMs?: number } = {},
): Promise<DatabaseClock> {
  /** What the database's time is ahead of `performance.now()`. */
  let { aheadMs } = await measure(database);
  const stop = new AbortController();

  async function keepRight(): Promise<void> {
    while (!stop.signal.aborted) {
      await systemClock.sleep(everyMs, stop.signal).catch(() => undefined);
      if (stop.signal.aborted) return;
      const measured = await measure(database).catch(() => undefined);
      if (measured && Math.abs(measured.aheadMs - aheadMs) > measured.withinMs) aheadMs = measured.aheadMs;
    }
  }

  const keeping = keepRight();
  return {
    nowMs: () => Math.round(performance.now() + aheadMs),
    sleep: (ms, signal) => systemClock.sleep(ms, signal),
    close: async () => {
      stop.abort();
      await keeping;
    },
  };
}

/** The database has read its clock at some instant between question and answer: `aheadMs` is right within `withinMs`. */
async function measure(database: Database): Promise<{ aheadMs: number; withinMs: number }> {
  const askedMs = performance.now();
  const [answer] = await database.query<{ nowMs: number }>(databaseTime, []);
  const withinMs = (performance.now() - askedMs) / 2;
  return { aheadMs: (answer?.nowMs ?? 0) - askedMs - withinMs, withinMs };
}

const databaseTime = prepared(`select extract(epoch from clock_timestamp())::float8 * 1000 as "nowMs"`);
