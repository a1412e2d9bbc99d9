/**
 * Whether a process is alive, as the database sees it. Each process holds a session lock under a number of its own as
 * long as it lives. When the process dies, its connection breaks and the database releases the lock at once, without a
 * time-out.
 */
import { randomInt } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import { systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Logger } from '#platform/log.ts';

/** Separates these locks from other advisory locks in the same database. */
const lockSpace = 0x5b_1e_a5e;

export interface LivenessLock {
  /** This process's number. */
  readonly id: number;
  isAlive(id: number): Promise<boolean>;
  /** Releases the lock and its connection. */
  close(): Promise<void>;
}

/**
 * Takes the lock on a connection of its own. When that breaks, the lock is taken again; leases may be lost meanwhile.
 */
export async function createLivenessLock(deps: {
  database: Database;
  log: Logger;
  /** How often the connection is checked. */
  heartbeatMs?: number;
}): Promise<LivenessLock> {
  const { database, log, heartbeatMs = 5_000 } = deps;
  const id = randomInt(1, 2 ** 31 - 1);
  const stop = new AbortController();
  const held = Promise.withResolvers<void>();
  const holding = (async () => {
    while (!stop.signal.aborted) {
      try {
        await database.session(async (session) => {
          await session.query('select pg_advisory_lock($1, $2)', [lockSpace, id]);
          held.resolve();
          while (!stop.signal.aborted) {
            await systemClock.sleep(heartbeatMs, stop.signal).catch(() => undefined);
            if (!stop.signal.aborted) await session.query('select 1');
          }
          await session.query('select pg_advisory_unlock($1, $2)', [lockSpace, id]);
        });
      } catch (err) {
        if (stop.signal.aborted) return;
        log.warn({ err }, 'the liveness lock was lost; it is taken again');
        await systemClock.sleep(1_000, stop.signal).catch(() => undefined);
      }
    }
  })();
  await Promise.race([held.promise, holding]);
  return {
    id,
    isAlive: async (other) => {
      if (other === id) return true;
      // Granted only when no process holds the lock. A transaction's lock ends with this statement.
      const [free] = await database.query<{ free: boolean }>(
        'select pg_try_advisory_xact_lock_shared($1, $2) as free',
        [lockSpace, other],
      );
      return free?.free !== true;
    },
    close: async () => {
      stop.abort();
      await holding;
    },
  };
}

/** A process of the bridge that is alive, as the database sees it. */
export interface LiveProcess {
  readonly id: number;
  /** Its application name: program and role, machine, process number. */
  readonly name: string;
  readonly address: string | null;
  readonly since: Timestamp;
}

/** Returns the processes that hold a liveness lock in this database, by name. */
export function readProcesses(sql: Sql): Promise<LiveProcess[]> {
  return sql.query<LiveProcess>(
    `select l.objid::int8 as id, a.application_name as name, host(a.client_addr) as address, a.backend_start as since
     from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'advisory' and l.classid = $1 and l.objsubid = 2 and l.mode = 'ExclusiveLock' and l.granted
       and l.database = (select oid from pg_database where datname = current_database())
     order by a.application_name`,
    [lockSpace],
  );
}
