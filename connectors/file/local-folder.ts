/** A folder of this machine's file system, local or mounted. Who may read what is made is decided by the umask of the process. */
import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ConfigError, DataError, UnknownOutcome } from 'sourcing-bridge/connector';
import { codeOf, createFolder, type FileInfo, type Folder } from './folder.ts';

/** Opens the folder, and creates it if it is missing. Throws ConfigError when it cannot be created. */
export async function openLocalFolder(root: string): Promise<Folder> {
  await makeFolders(root).catch((cause: unknown) => {
    throw new ConfigError(`The folder ${root} (settings.directory) cannot be created: ${String(cause)}`, { cause });
  });
  const at = (path: string) => join(root, path);
  return createFolder({
    place: root,
    read: (path, range) => readRegular(at(path), range),
    stat: (path) => infoOf(at(path)),
    list: (path) => readdir(at(path)),
    create: (path, content) => createFile(at(path), content),
    replace: async (from, to) => {
      await rename(at(from), at(to));
      await flushNames(dirname(at(to)));
    },
    makeFolder: (path) => makeFolders(at(path)),
    remove: (path) => rm(at(path)),
    during: (_signal, work) => work(),
    close: async () => undefined,
  });
}

async function infoOf(file: string): Promise<FileInfo> {
  const info = await lstat(file);
  const type = info.isFile() ? 'file' : info.isDirectory() ? 'folder' : 'other';
  return { bytes: info.size, modifiedMs: info.mtimeMs, type };
}

/**
 * The only function that opens a file to read it. A link would lead out of the folder, a FIFO would wait for its writer
 * and a device has no end: what others drop is opened without following and without waiting, and then looked at.
 */
async function readRegular(file: string, range?: { from: number; to: number }): Promise<Uint8Array> {
  // Windows has not the last two: they are undefined there, and change nothing.
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const refused = (cause?: unknown) => new DataError(`${file} is no regular file: it is not read`, { cause });
  const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    // A link, or a socket.
    throw codeOf(error) === 'ELOOP' || codeOf(error) === 'ENXIO' ? refused(error) : error;
  });
  try {
    if (!(await handle.stat()).isFile()) throw refused();
    if (!range) return await handle.readFile();
    const bytes = Buffer.allocUnsafe(range.to - range.from);
    let count = 0;
    for (;;) {
      const { bytesRead } = await handle.read(bytes, count, bytes.length - count, range.from + count);
      count += bytesRead;
      if (bytesRead === 0 || count === bytes.length) return bytes.subarray(0, count);
    }
  } finally {
    await handle.close();
  }
}

async function createFile(file: string, content: Uint8Array): Promise<void> {
  const handle = await open(file, 'wx');
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Creates a folder with its parents, and flushes the names of those that are new. */
async function makeFolders(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true });
  if (first === undefined) return;
  for (let created = directory; created.length >= first.length; created = dirname(created))
    await flushNames(dirname(created));
}

/** Without a flush, a power cut can undo a new name after other programs have acted on it. */
async function flushNames(directory: string): Promise<void> {
  try {
    const handle = await open(directory, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (cause) {
    throw new UnknownOutcome(`A file was renamed, but ${directory} could not be flushed: ${String(cause)}`, { cause });
  }
}
