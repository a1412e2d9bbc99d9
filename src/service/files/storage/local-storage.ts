/**
 * Files in a folder of this machine, spread over 256 folders by the first digits of their ids. A file is written under
 * a temporary name and flushed before it gets its own. A kill in between leaves `<id>.part`, which is never read and
 * which `remove` deletes.
 */
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { flushDirectory } from '#platform/durable-file.ts';
import { hasErrorCode } from '#platform/errors.ts';
import { type ByteRange, checkFileId, type FileStorage, type OpenFile, storageUnavailable } from './file-storage.ts';
import { measure } from './measure.ts';

const fileMode = 0o600;
const folderMode = 0o700;

/** Keeps files below `directory`, which is made with the first file. */
export function createLocalStorage(directory: string): FileStorage {
  const pathOf = (id: string) => {
    checkFileId(id);
    return join(directory, id.slice(0, 2), id);
  };
  /** Folders whose names this process has flushed. */
  const durableFolders = new Set<string>();

  async function makeFolder(folder: string): Promise<void> {
    if (durableFolders.has(folder)) return;
    await mkdir(folder, { recursive: true, mode: folderMode });
    // Also when another process has made the folders: it may not have flushed their names yet.
    await flushDirectory(directory);
    await flushDirectory(dirname(directory));
    durableFolders.add(folder);
  }

  return {
    async put(id, bytes) {
      const path = pathOf(id);
      const source = measure(bytes);
      try {
        await makeFolder(dirname(path));
        await writeDurably(path, source.bytes);
      } catch (error) {
        // An operator may have removed the folder: the next upload makes it again.
        durableFolders.delete(dirname(path));
        throw source.hasFailed() ? error : storageUnavailable('write a file', error);
      }
      return source.result();
    },

    async get(id, part) {
      const path = pathOf(id);
      try {
        return await openFile(await open(path, 'r'), part);
      } catch (error) {
        if (hasErrorCode(error, 'ENOENT')) return undefined;
        throw storageUnavailable('open a file', error);
      }
    },

    async remove(id) {
      const path = pathOf(id);
      try {
        await rm(temporaryOf(path), { force: true });
        await rm(path, { force: true });
      } catch (error) {
        throw storageUnavailable('remove a file', error);
      }
    },

    close: () => undefined,
  };
}

/** Derived from the path, so that `remove` finds it. */
function temporaryOf(path: string): string {
  return `${path}.part`;
}

async function writeDurably(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  const temporary = temporaryOf(path);
  try {
    await using handle = await open(temporary, 'wx', fileMode);
    await handle.writeFile(bytes);
    await handle.sync();
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await rename(temporary, path);
  await flushDirectory(dirname(path));
}

async function openFile(handle: FileHandle, part: ByteRange | undefined): Promise<OpenFile> {
  try {
    const { size } = await handle.stat();
    return { size, stream: handle.createReadStream(part && { start: part.first, end: part.last }) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}
