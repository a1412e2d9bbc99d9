/**
 * The system user that PostgreSQL runs as, since PostgreSQL refuses to run as root. An ordinary user runs it as itself;
 * root runs it as the owner of the data, or as the user `postgres`, which is made when the machine has no such user.
 */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { AppError, errorText } from '#platform/errors.ts';

const run = promisify(execFile);

/** The ids for `spawn` and `chown`. */
export interface SystemUser {
  readonly uid: number;
  readonly gid: number;
}

const userName = 'postgres';

/** With the commands of shadow-utils, which most distributions have, or with those of busybox. */
const userCommands: [command: string, ...args: string[]][][] = [
  [
    [
      'useradd',
      '--system',
      '--user-group',
      '--no-create-home',
      '--home-dir',
      '/nonexistent',
      '--shell',
      '/sbin/nologin',
      userName,
    ],
  ],
  [
    ['addgroup', '-S', userName],
    ['adduser', '-S', '-D', '-H', '-h', '/nonexistent', '-s', '/sbin/nologin', '-G', userName, userName],
  ],
];

/**
 * The user to run PostgreSQL as over `directory` (which need not exist yet); undefined for this process's own user.
 * Throws an `internal` AppError when this process runs as root and the user can neither be found nor made.
 */
export async function serverUser(directory: string): Promise<SystemUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  // A container image that was built again may number its users differently: what matters is the owner of the data.
  const owner = await stat(directory).catch(() => undefined);
  if (owner?.uid === 0)
    throw new AppError(
      'internal',
      `The database files in ${directory} belong to root, as which PostgreSQL refuses to run. ` +
        `Give them back to their user: chown -R ${userName} ${directory}`,
    );
  if (owner) return { uid: owner.uid, gid: owner.gid };
  return (await findUser()) ?? (await makeUser());
}

async function findUser(): Promise<SystemUser | undefined> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', userName]), run('id', ['-g', userName])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    return undefined;
  }
}

async function makeUser(): Promise<SystemUser> {
  const failures: string[] = [];
  for (const commands of userCommands) {
    // A group that exists already, or another process that was quicker, is no failure: only the user matters.
    for (const [command, ...args] of commands)
      await run(command, args).catch((error: unknown) => failures.push(errorText(error).trim()));
    const made = await findUser();
    if (made) return made;
  }
  throw new AppError(
    'internal',
    `PostgreSQL refuses to run as root, and the system user "${userName}" could not be made (${failures.join('; ')}). ` +
      'Make it yourself, start as an ordinary user, or set DATABASE_URL to a PostgreSQL server.',
  );
}
