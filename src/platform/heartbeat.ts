/**
 * The heartbeat of a process: a row of its own that it commits every few seconds, with the database's time. It tells two
 * things. To others, that this process lives: see `bridge/ledger/leases/liveness.ts`. To `/readyz`, that the database takes what
 * is written: a statement that only reads would also succeed on a database that is read-only, whose disk is full, or
 * whose commits hang because a synchronous standby is away.
 */
import { randomInt } from 'node:crypto';
import { DatabaseError } from 'pg';
import { systemClock } from './clock.ts';
import type { Database } from './database/database.ts';
import { prepared } from './database/sql.ts';
import { AppError, errorText, hasErrorCode } from './errors.ts';
import type { Logger } from './log.ts';

const beatEveryMs = 3_000;
/** A commit that takes longer counts as failed. */
const withinMs = 1_500;
const retryMs = 500;
/** A beat may wait for a connection of the pool, too. */
const lateMs = 10_000;
const lookEveryMs = 1_000;

/** By SQLSTATE: read_only_sql_transaction, disk_full. */
const reasons: Readonly<Record<string, string>> = {
  25006: 'The database is read-only.',
  53100: 'The disk of the database is full.',
};

export interface Heartbeat {
  /** The number of this process's row. */
  readonly id: number;
  /** Rejects with AppError `unavailable`, which says why, unless a beat was committed lately. Asks nothing itself. */
  check(): Promise<void>;
  /**
   * The outcome of the work; or rejects with AppError `unavailable` when the database has answered nothing for ten
   * seconds: the work then goes on unseen, and may still be done. A database that refuses to write does answer.
   */
  unlessSilent<T>(work: Promise<T>): Promise<T>;
  /** Ends the beats and deletes the row. */
  close(): Promise<void>;
}

/**
 * Commits the first beat, removes the rows of processes that ended over an hour ago, and goes on beating. The row has the
 * name of the database connection (program, role, machine, process number). Rejects when the first beat fails.
 */
export async function startHeartbeat(deps: {
  database: Database;
  /** The program's: the row stands in its table `processes`. */
  schema: 'service' | 'bridge';
  /** By which others see that this process has ended (`bridge/settings/process-identity.ts`). */
  identity?: string;
  log: Logger;
  beatEveryMs?: number;
}): Promise<Heartbeat> {
  const { database, schema, log } = deps;
  const id = randomInt(1, 2 ** 31 - 1);
  const beatOnce = prepared(
    `insert into ${schema}.processes (id, name, identity) values ($1, current_setting('application_name'), $2)
     on conflict (id) do update set beat = clock_timestamp()`,
  );
  const beat = () => database.execute(beatOnce, [id, deps.identity ?? null], { withinMs });
  let failure: AppError | undefined;
  let committedMs = performance.now();
  let answeredMs = committedMs;
  const stop = new AbortController();

  async function beatUntilStopped(): Promise<void> {
    while (!stop.signal.aborted) {
      const waitMs = failure ? retryMs : (deps.beatEveryMs ?? beatEveryMs);
      await systemClock.sleep(waitMs, stop.signal).catch(() => undefined);
      if (stop.signal.aborted) return;
      try {
        await beat();
        if (failure) log.info('heartbeats are committed again');
        failure = undefined;
        committedMs = performance.now();
        answeredMs = committedMs;
      } catch (error) {
        if (!failure) log.warn({ error: errorText(error) }, 'a heartbeat was not committed');
        failure = readinessError(error);
        if (causeOf(error) instanceof DatabaseError) answeredMs = performance.now();
      }
    }
  }

  await beat();
  await database.query(`delete from ${schema}.processes where beat < clock_timestamp() - $1::interval`, ['1 hour']);
  const beating = beatUntilStopped();
  return {
    id,
    check: async () => {
      if (failure) throw failure;
      const agoMs = performance.now() - committedMs;
      if (agoMs > lateMs)
        throw new AppError('unavailable', `The database has taken nothing for ${Math.round(agoMs / 1000)} s.`);
    },
    unlessSilent: async (work) => {
      const { promise: silent, reject } = Promise.withResolvers<never>();
      const timer = setInterval(() => {
        if (performance.now() - answeredMs > lateMs)
          reject(new AppError('unavailable', 'The database does not answer at the moment; try again shortly.'));
      }, lookEveryMs);
      try {
        return await Promise.race([work, silent]);
      } finally {
        clearInterval(timer);
      }
    },
    close: async () => {
      stop.abort();
      await beating;
      // A row that stays because the database is away counts as dead soon, and is removed by a process that starts later.
      await database
        .execute(`delete from ${schema}.processes where id = $1`, [id], { withinMs })
        .catch((err: unknown) => log.info({ error: errorText(err) }, 'the row of this process could not be deleted'));
    },
  };
}

/** What the driver threw. */
function causeOf(error: unknown): unknown {
  return error instanceof AppError ? error.cause : error;
}

function readinessError(error: unknown): AppError {
  const cause = causeOf(error);
  const code = Object.keys(reasons).find((each) => hasErrorCode(cause, each)) ?? '';
  return new AppError('unavailable', reasons[code] ?? 'The database does not take what is written.', {
    message: errorText(error),
    cause,
  });
}
