/**
 * Leases with fencing tokens: one holder at a time for a piece of work, across processes. Every transaction of a holder
 * checks its fencing token, and that it is the holder. A process that takes the lease over raises the token, so the old
 * holder can write nothing more. A holder that died is recognised by its heartbeats (`liveness.ts`); a holder that hangs
 * loses the lease when it expires.
 */
import type { Database } from '#platform/database/database.ts';
import { type PreparedStatement, prepared, type Sql, withoutFlush } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Liveness } from './liveness.ts';

const defaultLeaseMs = 60_000;
/** How often a lease is renewed while work runs outside of a transaction, as a share of its duration. */
const renewShare = 1 / 3;
/** Work outside of a transaction stops so long before the lease can expire, as a share of its duration. */
const marginShare = 1 / 6;

export interface Lease {
  readonly name: string;
  readonly fencingToken: number;
  /** Runs one transaction that writes only while this lease is held, and renews it; rejects with LeaseLost otherwise. */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
  /**
   * Keeps the lease while `work` runs outside of a transaction, however long that takes. The signal aborts when the
   * lease is lost, or when it could not be renewed for so long that it will soon expire. Rejects with LeaseLost when
   * the lease was lost before the work began.
   */
  during<T>(work: (lost: AbortSignal) => Promise<T>): Promise<T>;
  /** Frees the lease; does nothing when another process holds it by now. */
  release(): Promise<void>;
}

export class LeaseLost extends AppError {
  constructor(name: string) {
    super('conflict', `Another process has taken over "${name}".`, { recovery: { do: 'retry' } });
    this.name = 'LeaseLost';
  }
}

/**
 * Returns undefined when `work` rejects with LeaseLost: another process goes on with it. Rejects with any other error.
 */
export async function unlessLost<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof LeaseLost) return undefined;
    throw error;
  }
}

/** Returns the lease; undefined while a process that is alive holds it, this one included. */
export type AcquireLease = (name: string) => Promise<Lease | undefined>;

/** Creates the leases of one process; they are held under the number of its heartbeat. */
export function createLeases(deps: {
  database: Database;
  liveness: Pick<Liveness, 'id' | 'isAlive'>;
  /** How long a holder may go without renewing; while the database does not answer, it stops a sixth earlier. */
  leaseMs?: number;
  /** How often a lease is renewed while work runs outside of a transaction. */
  renewEveryMs?: number;
}): AcquireLease {
  const { database, liveness, leaseMs = defaultLeaseMs } = deps;
  const times = { leaseMs, renewEveryMs: deps.renewEveryMs ?? leaseMs * renewShare };
  /** The leases that this process holds or is taking. */
  const inUse = new Set<string>();

  /**
   * Our own lease that is asked for again could not be released, because the database was away: it is abandoned, too.
   */
  async function isAbandoned(holder: number): Promise<boolean> {
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
      const abandoned = held.holder !== null && (await isAbandoned(held.holder));
      return abandoned ? takeFree(database, name, liveness.id, held.fencingToken, leaseMs) : undefined;
    }
    await database.query('insert into bridge.leases (name) values ($1) on conflict do nothing', [name]);
    return takeFree(database, name, liveness.id, null, leaseMs);
  }

  return async (name) => {
    if (inUse.has(name)) return undefined;
    inUse.add(name);
    const fencingToken = await take(name).catch((error: unknown) => {
      inUse.delete(name);
      throw error;
    });
    if (fencingToken === undefined) {
      inUse.delete(name);
      return undefined;
    }
    return leaseOf(database, { name, fencingToken, holder: liveness.id }, times, () => inUse.delete(name));
  };
}

/**
 * Takes the lease if it is free, has expired, or still has `abandonedToken`, and returns the new fencing token. A lease
 * whose row is locked is in use, or is being taken right now: it is skipped, so that no process waits here for a
 * process that is paused.
 *
 * Does not wait for the disk. If the server crashes and the lease was never taken, its next holder gets the same token;
 * each statement of a holder names the holder, too. Whatever is committed under the lease is flushed together with it.
 */
async function takeFree(
  sql: Sql,
  name: string,
  holder: number,
  abandonedToken: number | null,
  leaseMs: number,
): Promise<number | undefined> {
  const [taken] = await sql.query<{ fencingToken: number }>(takeLease, [name, holder, abandonedToken, leaseMs]);
  return taken?.fencingToken;
}

const takeLease = prepared(
  `update bridge.leases set fencing_token = fencing_token + 1, holder = $2,
     expires = clock_timestamp() + $4 * interval '1 ms'
   where name = (
     select name from bridge.leases
     where name = $1 and (holder is null or expires < clock_timestamp() or fencing_token = $3::bigint)
     for update skip locked)
   returning fencing_token as "fencingToken", ${withoutFlush}`,
);

function leaseOf(
  database: Database,
  taken: { readonly name: string; readonly fencingToken: number; readonly holder: number },
  { leaseMs, renewEveryMs }: { leaseMs: number; renewEveryMs: number },
  leave: () => void,
): Lease {
  const { name, fencingToken, holder } = taken;
  /**
   * In a transaction the row stays locked until the commit: no process takes the lease over between this check and the
   * writes. A process that is paused in between blocks others no longer than the lease lasts: then the server ends its
   * connection.
   */
  const renew = async (sql: Sql, statement: PreparedStatement) => {
    const [held] = await sql.query(statement, [name, fencingToken, holder, leaseMs, String(leaseMs)]);
    if (!held) throw new LeaseLost(name);
  };
  return {
    name,
    fencingToken,
    transaction: (work) =>
      database.transaction(async (tx) => {
        await renew(tx, renewLease);
        return work(tx);
      }),
    during: async (work) => {
      // The time before the statement, not after it: the lease begins at some instant in between.
      let renewedMs = performance.now();
      // A process that was paused must not begin work that another process has taken over.
      await renew(database, renewAlone);
      const lost = new AbortController();
      const timer = setInterval(() => {
        const askedMs = performance.now();
        const stop = () => lost.abort(new LeaseLost(name));
        if (askedMs - renewedMs > leaseMs * (1 - marginShare) - renewEveryMs) stop();
        renew(database, renewAlone).then(
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
      await database.query(releaseLease, [name, fencingToken, holder]);
    },
  };
}

const renewal = `update bridge.leases set expires = clock_timestamp() + $4 * interval '1 ms'
  where name = $1 and fencing_token = $2 and holder = $3
  returning set_config('idle_in_transaction_session_timeout', $5, true)`;
const renewLease = prepared(renewal);
/** Outside of a transaction it need not wait for the disk: a lease whose renewal is undone expires earlier. */
const renewAlone = prepared(`${renewal}, ${withoutFlush}`);
/** Not flushed either: a release that is undone leaves a lease that its process can take again, and that expires. */
const releaseLease = prepared(
  `update bridge.leases set holder = null where name = $1 and fencing_token = $2 and holder = $3
   returning ${withoutFlush}`,
);
