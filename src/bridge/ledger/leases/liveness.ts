/**
 * Whether a process of the bridge lives, by the row in `bridge.processes` that it commits every few seconds. A process
 * that ended on this machine is seen at once; one on another machine, or that can no longer write, counts as dead when
 * its last heartbeat is 30 s old, by the database's clock. It may be wrong about a process that was paused: fencing
 * tokens keep that one from writing (`lease.ts`).
 */
import { createProcessIdentity, type ProcessIdentity } from '#bridge/settings/process-identity.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { startHeartbeat } from '#platform/heartbeat.ts';
import type { Logger } from '#platform/log.ts';

/** Of `bridge.processes`. A heartbeat of the future was written while the database's clock was ahead. */
const beatsLately = `abs(extract(epoch from clock_timestamp() - beat)) < 30`;

export interface Liveness {
  /** This process's number. */
  readonly id: number;
  isAlive(id: number): Promise<boolean>;
  /** As `Heartbeat.check`. */
  check(): Promise<void>;
  /** Ends the heartbeats: from now on this process counts as dead. */
  close(): Promise<void>;
}

/** Starts the heartbeats of this process; rejects when the first is not committed. */
export async function startLiveness(deps: {
  database: Database;
  log: Logger;
  /** Default: the identity of the operating system's process. */
  processIdentity?: ProcessIdentity | undefined;
  beatEveryMs?: number;
}): Promise<Liveness> {
  const { database, processIdentity = createProcessIdentity() } = deps;
  const heartbeat = await startHeartbeat({ ...deps, schema: 'bridge', identity: processIdentity.own });
  const { id } = heartbeat;
  return {
    id,
    isAlive: async (other) => {
      if (other === id) return true;
      const [found] = await database.query<{ identity: string }>(
        `select identity from bridge.processes where id = $1 and ${beatsLately}`,
        [other],
      );
      return found !== undefined && !processIdentity.isOver(found.identity);
    },
    check: () => heartbeat.check(),
    close: () => heartbeat.close(),
  };
}

/** A process of the bridge that is alive. */
export interface LiveProcess {
  readonly id: number;
  /** Program and role, machine, process number. */
  readonly name: string;
  readonly since: Timestamp;
}

/** Returns the processes that are alive, by name. */
export async function readProcesses(sql: Sql): Promise<LiveProcess[]> {
  const rows = await sql.query<LiveProcess & { identity: string }>(
    `select id, name, identity, started as since from bridge.processes where ${beatsLately} order by name, id`,
  );
  const here = createProcessIdentity();
  return rows.filter(({ identity }) => !here.isOver(identity)).map(({ id, name, since }) => ({ id, name, since }));
}

/** Why a process works on with the configuration of before, and not with what stands in its file. */
export interface RefusedConfiguration {
  /** Program and role, machine, process number. */
  readonly process: string;
  readonly why: string;
}

/** `why` undefined: the file is in force. */
export async function saveRefusedConfiguration(sql: Sql, id: number, why: string | undefined): Promise<void> {
  await sql.query('update bridge.processes set refused_configuration = $2 where id = $1', [id, why ?? null]);
}

/** Of the processes that live. */
export function readRefusedConfigurations(sql: Sql): Promise<RefusedConfiguration[]> {
  return sql.query<RefusedConfiguration>(
    `select name as process, refused_configuration as why from bridge.processes
     where refused_configuration is not null and ${beatsLately} order by name`,
  );
}
