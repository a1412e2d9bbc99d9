/**
 * Leases with epochs: one holder at a time for a piece of work, across processes. A holder proves itself in every
 * transaction by its fencingToken; taking a lease over raises the fencingToken, so whoever held it before can write nothing more.
 * A holder that died is known at once by its liveness (`liveness.ts`); one that hangs loses the lease when it expires.
 */
import type { Database, Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { LivenessLock } from './liveness-lock.ts';

const defaultLeaseMs = 60_000;
/** How often a lease is renewed while work runs outside of a transaction, as a part of its time. */
const renewPart = 1 / 3;
/** Work outside of a transaction stops so long before the lease could be another's, as a part of its time. */
const marginPart = 1 / 6;

export interface Lease {
  readonly name: string;
  readonly fencingToken: number;
  /** Runs one transaction that writes only while this lease is held, and renews it; throws LeaseLost otherwise. */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
  /**
   * Keeps it while `work` runs outside of a transaction, however long that takes. The signal aborts when the lease is
   * lost, or could not be renewed for so long that it soon may be. Throws LeaseLost when it is lost at the beginning.
   */
  during<T>(work: (lost: AbortSignal) => Promise<T>): Promise<T>;
  /** Gives it back; does nothing when another has it by now. */
  release(): Promise<void>;
}

export class LeaseLost extends AppError {
  constructor(name: string) {
    super('conflict', `Another process has taken over "${name}".`, { recovery: { do: 'retry' } });
    this.name = 'LeaseLost';
  }
}

/** For what is no error to whoever has lost the lease: somebody else goes on. Rejects with anything else. */
export async function unlessLost<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof LeaseLost) return undefined;
    throw error;
  }
}

/** Gives the lease, or undefined while it is held by a living process, this one included. */
export type AcquireLease = (name: string) => Promise<Lease | undefined>;

/** The leases of one process; `liveness` is what its leases are held under. */
export function createLeases(deps: {
  database: Database;
  liveness: LivenessLock;
  /** How long the holder may be silent; with a database that does not answer it stops a sixth earlier. */
  leaseMs?: number;
  /** How often a lease is renewed while work runs outside of a transaction. */
  renewEveryMs?: number;
}): AcquireLease {
  const { database, liveness, leaseMs = defaultLeaseMs } = deps;
  const times = { leaseMs, renewEveryMs: deps.renewEveryMs ?? leaseMs * renewPart };
  /** What is worked under here, or being taken. */
  const worked = new Set<string>();

  /** One of ours that is asked for again was not given back: the database was away then. */
  async function isLeft(holder: number): Promise<boolean> {
    return holder === liveness.id || !(await liveness.isAlive(holder));
  }

  async function take(name: string): Promise<number | undefined> {
    const fencingToken = await takeFree(database, name, liveness.id, null, leaseMs);
    if (fencingToken !== undefined) return fencingToken;
    const [held] = await database.query<{ holder: number | null; fencingToken: number }>(
      'select holder, fencing_token as "fencingToken" from bridge.leases where name = $1',
      [name],
    );
    if (held) {
      const left = held.holder !== null && (await isLeft(held.holder));
      return left ? takeFree(database, name, liveness.id, held.fencingToken, leaseMs) : undefined;
    }
    await database.query('insert into bridge.leases (name) values ($1) on conflict do nothing', [name]);
    return takeFree(database, name, liveness.id, null, leaseMs);
  }

  return async (name) => {
    if (worked.has(name)) return undefined;
    worked.add(name);
    const fencingToken = await take(name).catch((error: unknown) => {
      worked.delete(name);
      throw error;
    });
    if (fencingToken === undefined) {
      worked.delete(name);
      return undefined;
    }
    return leaseOf(database, name, fencingToken, times, () => worked.delete(name));
  };
}

/**
 * Takes the lease if it is free, has expired, or is still at `fromEpoch`. One whose row is locked is being worked under
 * or taken right now: it is passed over, so that nobody waits here for a process that stands still.
 */
async function takeFree(
  sql: Sql,
  name: string,
  holder: number,
  fromEpoch: number | null,
  leaseMs: number,
): Promise<number | undefined> {
  const [taken] = await sql.query<{ fencingToken: number }>(
    `update bridge.leases set fencing_token = fencing_token + 1, holder = $2, expires = clock_timestamp() + $4 * interval '1 ms'
     where name = (
       select name from bridge.leases
       where name = $1 and (holder is null or expires < clock_timestamp() or fencing_token = $3::bigint)
       for update skip locked)
     returning fencing_token as "fencingToken"`,
    [name, holder, fromEpoch, leaseMs],
  );
  return taken?.fencingToken;
}

function leaseOf(
  database: Database,
  name: string,
  fencingToken: number,
  { leaseMs, renewEveryMs }: { leaseMs: number; renewEveryMs: number },
  leave: () => void,
): Lease {
  /**
   * In a transaction the row stays locked until the commit: nobody takes over between this check and the writes. One that
   * stands still in between keeps nobody waiting for longer than the lease: the server then ends its connection.
   */
  const renew = async (sql: Sql) => {
    const [held] = await sql.query(
      `update bridge.leases set expires = clock_timestamp() + $3 * interval '1 ms'
       where name = $1 and fencing_token = $2
       returning set_config('idle_in_transaction_session_timeout', $4, true)`,
      [name, fencingToken, leaseMs, String(leaseMs)],
    );
    if (!held) throw new LeaseLost(name);
  };
  return {
    name,
    fencingToken,
    transaction: (work) =>
      database.transaction(async (tx) => {
        await renew(tx);
        return work(tx);
      }),
    during: async (work) => {
      // Before the statement, not after it: the lease counts from some instant in between.
      let renewedMs = performance.now();
      // A process that stood still must not begin what another is doing.
      await renew(database);
      const lost = new AbortController();
      const timer = setInterval(() => {
        const askedMs = performance.now();
        const stop = () => lost.abort(new LeaseLost(name));
        if (askedMs - renewedMs > leaseMs * (1 - marginPart) - renewEveryMs) stop();
        renew(database).then(
          () => {
            renewedMs = askedMs;
          },
          (error: unknown) => {
            if (error instanceof LeaseLost) stop();
          },
        );
      }, renewEveryMs);
      try {
        return await work(lost.signal);
      } finally {
        clearInterval(timer);
      }
    },
    release: async () => {
      leave();
      await database.query('update bridge.leases set holder = null where name = $1 and fencing_token = $2', [
        name,
        fencingToken,
      ]);
    },
  };
}
