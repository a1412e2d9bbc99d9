/**
 * The embedded server's process: starting it detached, shutting it down, and what its log says when it did not start.
 */
import { execFile, spawn } from 'node:child_process';
import { open, rename, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import { systemClock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { pathForServer } from './create-cluster.ts';
import type { Cluster } from './open-cluster.ts';
import { binariesEnvironment } from './postgres-binaries.ts';
import { isPostmaster, readPidFile } from './postmaster.ts';

/** One try to start the server. */
export interface ServerStart {
  /** How the process ended; undefined while it runs. */
  ended: string | undefined;
  /** Where the lines of this try begin in the log file, in bytes. */
  readonly logStart: number;
}

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '128MB',
  log_checkpoints: 'off',
  // The details of an error have the values of rows, which may name persons.
  log_error_verbosity: 'terse',
};
/** Of tests: many files at once, and the processes that they start. */
const scratchSettings = {
  max_connections: '1000',
  fsync: 'off',
  full_page_writes: 'off',
  autovacuum: 'off',
  jit: 'off',
};
const logBytesMax = 10 * 1024 * 1024;
const pollMs = 20;
const shutdownPatienceMs = 120_000;
/** How a server ends that is shut down. */
const orderlyEnd = 'exit code 0';
/** Another server that was quicker, a port that was taken, or the last children of a server that was killed. */
const passingFailure = /could not bind|TCP\/IP sockets|lock file|shared memory block/;

/**
 * Starts a server; `postmaster.pid` shows whether it came up. `stalePid` is the pid in that file when it is known not
 * to be a server of this directory: PostgreSQL itself checks only whether any process has that pid. PG_GRANDPARENT_PID
 * is how pg_ctl tells PostgreSQL that a pid is not a server's. The rest of PostgreSQL's checks stay, and a file written
 * meanwhile has another pid.
 */
export async function startServer(cluster: Cluster, port: number, stalePid: number | undefined): Promise<ServerStart> {
  const { postgres } = await cluster.binaries();
  await rotateLog(cluster.logFile);
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
        // A session of its own: Ctrl-C at the terminal reaches only our process, which shuts the server down in order.
        detached: true,
        cwd: '/',
        env: { ...binariesEnvironment(), ...(stalePid === undefined ? {} : { PG_GRANDPARENT_PID: String(stalePid) }) },
        ...cluster.user,
      },
    );
    const start: ServerStart = { ended: undefined, logStart };
    child.once('error', (error) => {
      start.ended = errorText(error);
    });
    child.once('exit', (code, signal) => {
      start.ended = signal ? `ended by ${signal}` : code === 0 ? orderlyEnd : `exit code ${code}`;
    });
    child.unref();
    return start;
  } finally {
    await log.close();
    await folder.close();
  }
}

/** Whether another try may succeed after this one ended. */
export async function mayStartLater(cluster: Cluster, start: ServerStart): Promise<boolean> {
  // It came up, and another process that held it was its last user before this process could hold it.
  if (start.ended === orderlyEnd) return true;
  return passingFailure.test(await readLogFrom(cluster.logFile, start.logStart));
}

/** The error for a server that did not come up, with the last lines of its log. */
export async function notStarted(cluster: Cluster, start: ServerStart): Promise<AppError> {
  const lines = await readLogFrom(cluster.logFile, start.logStart);
  return new AppError(
    'internal',
    `PostgreSQL does not start over ${cluster.directory} (${start.ended ?? 'it hangs'}). ${cluster.logFile} ends with:\n` +
      lines.trimEnd().split('\n').slice(-10).join('\n'),
  );
}

/**
 * A fast shutdown: sessions are ended, everything is written. The caller holds the exclusive lock, so the server runs; or
 * the server's folder is gone, and it is ended at once.
 */
export async function shutDownServer(cluster: Cluster, pid: number): Promise<void> {
  if (!(await isPostmaster(pid, cluster.name))) return;
  // Without its files it cannot write the checkpoint of an orderly end, and may try for a minute.
  const isGone = !(await readPidFile(cluster.directory));
  if (process.platform === 'win32') {
    const { pgCtl } = await cluster.binaries();
    await promisify(execFile)(pgCtl, ['stop', '-D', cluster.directory, '-m', isGone ? 'immediate' : 'fast']);
  } else process.kill(pid, isGone ? 'SIGQUIT' : 'SIGINT');
  const since = systemClock.nowMs();
  while (await isPostmaster(pid, cluster.name)) {
    if (systemClock.nowMs() - since > shutdownPatienceMs) {
      cluster.log.warn({ pid }, 'the embedded PostgreSQL is still shutting down; nothing needs to be done');
      return;
    }
    await systemClock.sleep(pollMs);
  }
}

/** Returns a TCP port of 127.0.0.1 that was free a moment ago. */
export async function findFreePort(): Promise<number> {
  const server = createServer();
  const port = await new Promise<number>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : 0);
    });
  });
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function rotateLog(file: string): Promise<void> {
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
