/**
 * The embedded server's process: starting it detached, shutting it down, and what its log says when it did not start.
 */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { open, readFile, rename, stat, unlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { systemClock } from '#platform/clock.ts';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';
import { pathForServer } from './create-cluster.ts';
import type { Cluster } from './open-cluster.ts';
import { binariesEnvironment } from './postgres-binaries.ts';
import { isPostmaster, type PidFile, readPidFile } from './postmaster.ts';

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
/** PostgreSQL writes its pid right after making the file: a file that stays empty is left over from a power cut. */
const emptyPidFileMs = 5_000;
/** How a server ends that is shut down. */
const orderlyEnd = 'exit code 0';
const takenPort = /could not bind|TCP\/IP sockets/;
/** Another server that was quicker, or the last children of a server that was killed. */
const otherServer = /lock file|shared memory block/;

/**
 * Starts a server; `postmaster.pid` shows whether it came up. `stale` is that file when it is known not to be a server's
 * of this directory: PostgreSQL itself checks only whether any process has its pid. PG_GRANDPARENT_PID is how pg_ctl tells
 * PostgreSQL that a pid is not a server's. The rest of PostgreSQL's checks stay, and a file written meanwhile has another
 * pid. The port is that of the last start, which other processes may still use; with `isPortTaken` any free one.
 */
export async function startServer(
  cluster: Cluster,
  { stale, isPortTaken }: { stale: PidFile | undefined; isPortTaken: boolean },
): Promise<ServerStart> {
  if (stale && stale.pid === undefined && systemClock.nowMs() - stale.modifiedMs > emptyPidFileMs)
    await unlink(join(cluster.directory, 'postmaster.pid')).catch(() => undefined);
  const port = (isPortTaken ? undefined : await lastPort(cluster.directory)) ?? (await findFreePort());
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
        env: { ...binariesEnvironment(), ...(stale?.pid !== undefined && { PG_GRANDPARENT_PID: String(stale.pid) }) },
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
  // It came up, and another process that owned it has ended it before this process could connect.
  if (start.ended === orderlyEnd) return true;
  const lines = await readLogFrom(cluster.logFile, start.logStart);
  return takenPort.test(lines) || otherServer.test(lines);
}

/** Whether this try has failed because another program has the port. */
export async function hasLostPort(cluster: Cluster, start: ServerStart): Promise<boolean> {
  return takenPort.test(await readLogFrom(cluster.logFile, start.logStart));
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

/** A fast shutdown: sessions are ended, everything is written. A server whose folder is gone is ended at once. */
export async function shutDownServer(cluster: Cluster, pid: number): Promise<void> {
  if (!(await isPostmaster(pid, cluster.name))) return;
  // Without its files it cannot write the checkpoint of an orderly end, and may try for a minute.
  const isGone = !(await readPidFile(cluster.directory));
  process.kill(pid, isGone ? 'SIGQUIT' : 'SIGINT');
  const since = systemClock.nowMs();
  while (await isPostmaster(pid, cluster.name)) {
    if (systemClock.nowMs() - since > shutdownPatienceMs) {
      cluster.log.warn({ pid }, 'the embedded PostgreSQL is still shutting down; nothing needs to be done');
      return;
    }
    await systemClock.sleep(pollMs);
  }
}

/** PostgreSQL keeps the command line of its last start. */
async function lastPort(directory: string): Promise<number | undefined> {
  const options = await readFile(join(directory, 'postmaster.opts'), 'utf8').catch(() => '');
  const port = /"port=(\d+)"/.exec(options)?.[1];
  return port === undefined ? undefined : Number(port);
}

/**
 * Returns a TCP port of 127.0.0.1 that was free a moment ago. It lies below those that systems give to outgoing
 * connections (from 32768 on): one of these would take it while the server is away, and the server could not come back at
 * its address.
 */
async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_768);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
    return true;
  } catch (error) {
    if (hasErrorCode(error, 'EADDRINUSE')) return false;
    throw error;
  } finally {
    server.close();
  }
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
