/**
 * Leases with epochs: one holder at a time for a piece of work, across processes. A holder proves itself in every
 * transaction by its epoch; taking a lease over raises the epoch, so whoever held it before can write nothing more.
 * A holder that died is known at once by its presence (`presence.ts`); one that hangs loses the lease when it expires.
 */
import type { Database, Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Presence } from './presence.ts';

const leaseSeconds = 60;
const renewMs = 20_000;

export interface Lease {
  readonly name: string;
  readonly epoch: number;
  /** Runs one transaction that writes only while this lease is held, and renews it; throws LeaseLost otherwise. */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
  /** Keeps it while `work` runs outside of a transaction, however long that takes. */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** Gives it back; does nothing when another has it by now. */
  release(): Promise<void>;
}

export class LeaseLost extends AppError {
  constructor(name: string) {
    super('conflict', `Another process has taken over "${name}".`, { recovery: { do: 'retry' } });
    this.name = 'LeaseLost';
  }
}

export type AcquireLease = (name: string) => Promise<Lease | undefined>;

/** Gives the lease, or undefined while a living process holds it. */
export function createLeases({ database, presence }: { database: Database; presence: Presence }): AcquireLease {
  return async (name) => {
    await database.query('insert into bridge.leases (name) values ($1) on conflict do nothing', [name]);
    const [held] = await database.query<{ holder: number | null; epoch: number; expired: boolean }>(
      'select holder, epoch, coalesce(expires < clock_timestamp(), true) as expired from bridge.leases where name = $1',
      [name],
    );
    if (!held) return undefined;
    const free = held.holder === null || held.expired || !(await presence.isPresent(held.holder));
    if (!free) return undefined;
    const [taken] = await database.query<{ epoch: number }>(
      `update bridge.leases set epoch = epoch + 1, holder = $3,
         expires = clock_timestamp() + interval '${leaseSeconds} seconds'
       where name = $1 and epoch = $2 returning epoch`,
      [name, held.epoch, presence.id],
    );
    return taken && leaseOf(database, name, taken.epoch);
  };
}

function leaseOf(database: Database, name: string, epoch: number): Lease {
  const renew = async (sql: Sql) => {
    const [held] = await sql.query(
      `update bridge.leases set expires = clock_timestamp() + interval '${leaseSeconds} seconds'
       where name = $1 and epoch = $2 returning epoch`,
      [name, epoch],
    );
    if (!held) throw new LeaseLost(name);
  };
  return {
    name,
    epoch,
    transaction: (work) =>
      database.transaction(async (tx) => {
        // The row stays locked until the commit: nobody takes over between this check and the writes.
        await renew(tx);
        return work(tx);
      }),
    during: async (work) => {
      // Checked before, so that a process that was paused does not begin what another is doing. A renewal that fails
      // meanwhile shows in the next transaction.
      await renew(database);
      const timer = setInterval(() => renew(database).catch(() => undefined), renewMs);
      return work().finally(() => clearInterval(timer));
    },
    release: async () => {
      await database.query('update bridge.leases set holder = null where name = $1 and epoch = $2', [name, epoch]);
    },
  };
}
