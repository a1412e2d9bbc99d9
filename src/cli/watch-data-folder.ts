/**
 * Notices that the data folder of a running program was deleted, moved, or replaced by another one. The database of such
 * a program answers for a while from memory and then fails, and what its connectors write lands in a new folder: so the
 * program must stop.
 */
import { stat } from 'node:fs/promises';
import { AppError, hasErrorCode } from '#platform/errors.ts';

const everyMs = 1_000;

export interface DataFolderWatch {
  /** Aborts when the folder is gone; its reason is an AppError that says so. */
  readonly gone: AbortSignal;
  close(): void;
}

/** Begins to watch a folder, which exists. */
export async function watchDataFolder(dataDir: string): Promise<DataFolderWatch> {
  const identity = await identityOf(dataDir);
  const controller = new AbortController();
  const look = async () => {
    const found = await identityOf(dataDir);
    if (found === identity || found === 'unknown' || identity === 'unknown') return;
    controller.abort(
      new AppError(
        'internal',
        `The data folder ${dataDir} was deleted or moved while the program was running, so the program stops. Put it back ` +
          'from where it is now, or from a backup, and start again.',
      ),
    );
  };
  const timer = setInterval(() => void look(), everyMs);
  return { gone: controller.signal, close: () => clearInterval(timer) };
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
