/**
 * Notices that the data folder of a running program was deleted, moved, or replaced by another one. The database of such
 * a program answers for a while from memory and then fails, and what its connectors write lands in a new folder: so the
 * program must stop.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, hasErrorCode } from '#platform/errors.ts';

const everyMs = 1_000;
/** What a running program needs; some of it may be elsewhere, so only what was there counts. */
const parts = ['master-key', 'postgres.secret', 'postgres/global/pg_control', 'tls'];

export interface DataFolderWatch {
  /** Aborts when the folder, or a part that the program needs, is gone; its reason is an AppError that says so. */
  readonly gone: AbortSignal;
  close(): void;
}

/** Begins to watch a folder, which exists. */
export async function watchDataFolder(dataDir: string): Promise<DataFolderWatch> {
  const identity = await identityOf(dataDir);
  const watched: string[] = [];
  for (const part of parts) if ((await identityOf(join(dataDir, part))) !== 'gone') watched.push(part);
  const controller = new AbortController();
  let looking = false;
  const look = async () => {
    if (looking || controller.signal.aborted) return;
    looking = true;
    // The folder after its parts: where it is moved in between, the message names it, and not a part of it.
    const missing = await missingOf(dataDir, watched);
    const found = await identityOf(dataDir);
    const isSame = found === identity || found === 'unknown' || identity === 'unknown';
    looking = false;
    if (!isSame || missing !== undefined) controller.abort(goneError(dataDir, isSame ? missing : undefined));
  };
  const timer = setInterval(() => void look(), everyMs);
  return { gone: controller.signal, close: () => clearInterval(timer) };
}

async function missingOf(dataDir: string, watched: readonly string[]): Promise<string | undefined> {
  for (const part of watched) if ((await identityOf(join(dataDir, part))) === 'gone') return part;
  return undefined;
}

/** Device and inode; a new folder under the old name has others. An error of the file system proves nothing. */
async function identityOf(path: string): Promise<string> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev} ${ino}`;
  } catch (error) {
    return hasErrorCode(error, 'ENOENT') || hasErrorCode(error, 'ENOTDIR') ? 'gone' : 'unknown';
  }
}

function goneError(dataDir: string, missing: string | undefined): AppError {
  const what = missing === undefined ? `The data folder ${dataDir}` : `${missing} in the data folder ${dataDir}`;
  return new AppError(
    'internal',
    `${what} was deleted or moved while the program was running, so the program stops. Put it back from where it is ` +
      'now, or from a backup, and start again.',
  );
}
