/**
 * Holding the embedded server: a session with a shared advisory lock, from the first use to the last. While one process
 * holds it, no other process shuts the server down.
 */
import { unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { systemClock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { superuser } from './create-cluster.ts';
import type { Cluster } from './open-cluster.ts';
import { isPostmaster, readPidFile } from './postmaster.ts';
import {
  findFreePort,
  mayStartLater,
  notStarted,
  type ServerStart,
  shutDownServer,
  startServer,
} from './server-process.ts';

/** A session that holds the shared lock: while it lives, so does the server. */
export interface HeldServer {
  readonly client: Client;
  readonly port: number;
  /** Of its main process: `postmaster.pid` may be gone when the server has to be stopped. */
  readonly pid: number;
}

const pollMs = 20;
const connectTimeoutMs = 5_000;
/** How long a server may be silent, or refuse connections, before the caller gives up. */
const patienceMs = 60_000;
/** PostgreSQL writes its pid right after making the file: a file that stays empty is left over from a power cut. */
const emptyPidFileMs = 5_000;
/** Any number will do. The lock is in the database `postgres`, apart from the locks of every schema. */
const usersLock = 7_239_510_442;

/**
 * Looks for a server, starts one and looks again, until this process holds a session. `onLost` is called when the
 * session ends in any other way than by `releaseServer`. Throws an `internal` AppError when the server does not start,
 * or runs and accepts no connection.
 */
export async function holdServer(
  cluster: Cluster,
  preferredPort: number | undefined,
  onLost: () => void,
): Promise<HeldServer> {
  const since = systemClock.nowMs();
  const isPatient = () => systemClock.nowMs() - since <= patienceMs;
  let start: ServerStart | undefined;
  let port = preferredPort;
  for (;;) {
    const file = await readPidFile(cluster.directory);
    if (file?.pid !== undefined && (await isPostmaster(file.pid, cluster.name))) {
      // A server that recovers from a crash, or is shutting down, may take as long as it needs.
      if (file.status === 'ready' && file.port !== undefined) {
        try {
          return { client: await openSession(cluster, file.port, onLost), port: file.port, pid: file.pid };
        } catch (error) {
          if (!isPatient()) throw acceptsNoConnection(cluster, file.pid, error);
        }
      }
    } else if (start === undefined || start.ended !== undefined) {
      if (start) {
        if (!isPatient() || !(await mayStartLater(cluster, start))) throw await notStarted(cluster, start);
        await systemClock.sleep(pollMs * 5);
        port = undefined;
      }
      if (file?.pid === undefined && file && !(await removeEmptyPidFile(cluster, file.modifiedMs))) start = undefined;
      else start = await startServer(cluster, port ?? (await findFreePort()), file?.pid);
    } else if (!isPatient()) throw await notStarted(cluster, start);
    await systemClock.sleep(pollMs);
  }
}

/** Ends the session, and shuts the server down when no other process holds it. */
export async function releaseServer(cluster: Cluster, { client, pid }: HeldServer): Promise<void> {
  client.removeAllListeners('end');
  try {
    await client.query('select pg_advisory_unlock_shared($1)', [usersLock]);
    const found = await client.query<{ last: boolean }>('select pg_try_advisory_lock($1) as last', [usersLock]);
    if (found.rows[0]?.last) await shutDownServer(cluster, pid);
  } catch (err) {
    cluster.log.warn({ err }, 'the embedded PostgreSQL was gone before it was stopped');
    // A server whose folder was deleted may fail at any query. It serves nobody any more, so nobody else would stop it.
    if (!(await readPidFile(cluster.directory))) await shutDownServer(cluster, pid);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Returns true when the file is gone. */
async function removeEmptyPidFile(cluster: Cluster, modifiedMs: number): Promise<boolean> {
  if (systemClock.nowMs() - modifiedMs < emptyPidFileMs) return false;
  await unlink(join(cluster.directory, 'postmaster.pid')).catch(() => undefined);
  return true;
}

async function openSession(cluster: Cluster, port: number, onLost: () => void): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port,
    user: superuser,
    password: cluster.password,
    database: 'postgres',
    application_name: 'sourcing-bridge keeps the server',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
  });
  // Every error that matters also ends the session or rejects a call.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const found = await client.query<{ name: string }>("select current_setting('cluster_name') as name");
    if (found.rows[0]?.name !== cluster.name) throw new Error(`port ${port} belongs to another server`);
    // Waits while another process, the last user until now, shuts the server down; then it fails with the server.
    await client.query('select pg_advisory_lock_shared($1)', [usersLock]);
    // It may have got the lock as the session of the last user ended with the server, a moment before its own does. The
    // server has written that it stops before it ends any session.
    if ((await readPidFile(cluster.directory))?.status !== 'ready') throw new Error(`port ${port} is shutting down`);
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
  client.once('end', onLost);
  return client;
}

function acceptsNoConnection(cluster: Cluster, pid: number, cause: unknown): AppError {
  return new AppError(
    'internal',
    `The PostgreSQL server over ${cluster.directory} (process ${pid}) runs but accepts no connection: ` +
      `${errorText(cause)}. See ${cluster.logFile}; if the server hangs, end it with: kill -QUIT ${pid}`,
    { cause },
  );
}
