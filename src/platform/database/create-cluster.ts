/**
 * Makes the data directory of the embedded server with initdb. It is made under a temporary name and renamed when it is
 * complete, so that a kill at any instant leaves either no directory or a complete one.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, mkdtemp, open, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { binariesEnvironment, type PostgresBinaries, removeUnfinished } from './postgres-binaries.ts';
import type { SystemUser } from './system-user.ts';

/** How the names of directories begin that are not complete. */
export const unfinished = '.postgres-new-';

/** The name of the server's superuser; all connections use it. */
export const superuser = 'postgres';

/**
 * The path by which a child that runs as `user` reaches a folder that it inherits as open file descriptor 3. Linux
 * resolves /proc/self/fd/3 by the open folder itself, whatever the permissions of the folders above it: the data may
 * lie in a 0700 folder of root's, which that user cannot enter.
 */
export function pathForServer(folder: string, user: SystemUser | undefined): string {
  return user && process.platform === 'linux' ? '/proc/self/fd/3' : folder;
}

/**
 * Makes `directory` (a folder in `dataDir`) unless it exists. When several processes do so at once, the directory of
 * one of them stays. Throws an `internal` AppError with initdb's own message when it fails.
 */
export async function createClusterOnce(options: {
  dataDir: string;
  directory: string;
  binaries: PostgresBinaries;
  user: SystemUser | undefined;
  password: string;
  scratch: boolean;
  log: Logger;
}): Promise<void> {
  const { dataDir, directory, user } = options;
  const temporary = await mkdtemp(join(dataDir, unfinished));
  try {
    await mkdir(join(temporary, 'data'), { mode: 0o700 });
    await writeFile(join(temporary, 'password'), options.password, { mode: 0o600 });
    if (user) for (const name of ['password', 'data', '.']) await chown(join(temporary, name), user.uid, user.gid);
    await runInitdb({ ...options, temporary });
    await rename(join(temporary, 'data'), directory);
    await flush(dataDir);
  } catch (error) {
    // Another process may have been quicker; its directory serves as well as ours.
    if (await stat(directory).catch(() => undefined)) return;
    if (error instanceof AppError) throw error;
    throw new AppError('internal', `The database folder ${directory} cannot be made: ${errorText(error)}.`, {
      cause: error,
    });
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  // Of killed processes, or of others that are at it now: those find the directory made.
  await removeUnfinished(dataDir, unfinished);
  options.log.info({ directory }, 'made a new PostgreSQL data directory');
}

async function runInitdb(options: {
  temporary: string;
  binaries: PostgresBinaries;
  user: SystemUser | undefined;
  scratch: boolean;
}): Promise<void> {
  const folder = await open(options.temporary, 'r');
  try {
    const path = pathForServer(options.temporary, options.user);
    const errorChunks: Buffer[] = [];
    const child = spawn(
      options.binaries.initdb,
      [
        `--pgdata=${path}/data`,
        `--pwfile=${path}/password`,
        `--username=${superuser}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
        // Sorts and folds case the same on every machine and in every version, and knows letters beyond ASCII.
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
        // More iterations would protect a password that can be guessed, and cost time for each connection.
        ...(options.scratch ? ['--no-sync', '--set=scram_iterations=1'] : []),
      ],
      { stdio: ['ignore', 'ignore', 'pipe', folder.fd], cwd: '/', env: binariesEnvironment(), ...options.user },
    );
    child.stderr?.on('data', (chunk: Buffer) => errorChunks.push(chunk));
    const [code] = await once(child, 'close');
    if (code !== 0)
      throw new AppError(
        'internal',
        `initdb failed (${String(code)}): ${Buffer.concat(errorChunks).toString().trim()}`,
      );
  } finally {
    await folder.close();
  }
}

async function flush(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
