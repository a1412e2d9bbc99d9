/** A folder of this machine's file system, local or mounted. */
import { access, chmod, link, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  type CheckResult,
  ConfigError,
  ConnectorError,
  DataError,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import { type Content, type Folder, NoSuchFile, sha256 } from './folder.ts';

/** The rights of what the connector makes; existing folders keep theirs. */
export interface Modes {
  readonly file: number;
  readonly folder: number;
}

/** Prices and bids are nobody else's business: other users of the machine need a setting. */
const ownerOnly: Modes = { file: 0o600, folder: 0o700 };

/** Opens the folder, and creates it if it is missing. Throws ConfigError when it cannot be created. */
export async function openLocalFolder(root: string, modes: Modes = ownerOnly): Promise<Folder> {
  await createFolder(root, modes).catch((cause: unknown) => {
    throw new ConfigError(`The folder ${root} (settings.directory) cannot be created: ${String(cause)}`, { cause });
  });
  const at = (path: string) => join(root, path);
  return {
    place: root,
    leftoverMs: 10 * 60_000,
    read: (path, range) =>
      withConnectorErrors(
        root,
        async () => (range ? await readRange(at(path), range) : await readFile(at(path))),
        undefined,
      ),
    stat: (path) =>
      withConnectorErrors(
        root,
        async () => {
          const { size, mtimeMs } = await stat(at(path));
          return { bytes: size, modifiedMs: mtimeMs };
        },
        undefined,
      ),
    list: (path) => withConnectorErrors(root, () => readdir(at(path)), []),
    write: (path, content, signal) => withConnectorErrors(root, () => writeNew(at(path), content, modes, signal)),
    move: (from, to) => withConnectorErrors(root, () => moveFile(at(from), at(to), modes)),
    moveIfFree: (from, to) => withConnectorErrors(root, () => linkFile(at(from), at(to))),
    flush: (path) => withConnectorErrors(root, () => flushNames(at(path))),
    remove: (path) => withConnectorErrors(root, () => rm(at(path), { force: true })),
    check: async () => [await checkWritable(root)],
    during: (_signal, work) => work(),
    close: async () => undefined,
  };
}

async function writeNew(file: string, content: Content, modes: Modes, signal?: AbortSignal): Promise<void> {
  const handle = await inFolderOf(file, modes, () => open(file, 'wx', modes.file));
  try {
    // The umask of the process may have taken rights away that the settings give.
    await handle.chmod(modes.file);
    await handle.writeFile(content, signal ? { signal } : {});
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function moveFile(from: string, to: string, modes: Modes): Promise<void> {
  try {
    await inFolderOf(to, modes, () => rename(from, to));
  } catch (error) {
    // ENOENT also means that the folder of `to` was removed just now.
    if (codeOf(error) === 'ENOENT' && !(await exists(from))) throw new NoSuchFile(from, { cause: error });
    throw error;
  }
  await flushNames(dirname(to));
}

/** Makes the file by `make`, and before it its folder where that is missing: mostly it is there. */
async function inFolderOf<T>(file: string, modes: Modes, make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    await createFolder(dirname(file), modes);
    return make();
  }
}

/** Uses a hard link: unlike a rename, it fails when the name is taken. */
async function linkFile(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
  await flushNames(dirname(to));
  return true;
}

/** Creates a folder with its parents, and flushes the names of those that are new. */
async function createFolder(directory: string, modes: Modes): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: modes.folder });
  if (first === undefined) return;
  for (let created = directory; created.length >= first.length; created = dirname(created)) {
    // With the bits that a folder inherits, such as the group's.
    await chmod(created, ((await stat(created)).mode & 0o7000) | modes.folder);
    await flushNames(dirname(created));
  }
}

function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
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

async function readRange(file: string, { from, to }: { from: number; to: number }): Promise<Uint8Array> {
  const handle = await open(file, 'r');
  try {
    const bytes = Buffer.allocUnsafe(to - from);
    let count = 0;
    for (;;) {
      const { bytesRead } = await handle.read(bytes, count, bytes.length - count, from + count);
      count += bytesRead;
      if (bytesRead === 0 || count === bytes.length) return bytes.subarray(0, count);
    }
  } finally {
    await handle.close();
  }
}

/** Tries to write and rename a file: on a mounted file system, permissions alone do not show whether that works. */
async function checkWritable(root: string): Promise<CheckResult> {
  const name = `.check_${sha256(String(process.hrtime.bigint())).slice(0, 16)}.tmp`;
  const [from, to] = [join(root, name), join(root, `${name}.renamed.tmp`)];
  try {
    await writeFile(from, '', { flag: 'wx' });
    await rename(from, to);
    return { name: 'folder', ok: true, message: `${root} can be written.` };
  } catch (error) {
    return { name: 'folder', ok: false, message: connectorErrorOf(root, error).message };
  } finally {
    for (const file of [from, to]) await rm(file, { force: true }).catch(() => undefined);
  }
}

/**
 * Turns errors of `work` into ConnectorErrors. `missing` is the result when there is no such file; without it, a
 * missing file is an error.
 */
async function withConnectorErrors<T>(root: string, work: () => Promise<T>, ...missing: T[]): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NoSuchFile || error instanceof ConnectorError) throw error;
    if (missing.length > 0 && (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR')) return missing[0] as T;
    throw connectorErrorOf(root, error);
  }
}

function connectorErrorOf(root: string, cause: unknown): ConnectorError {
  const message = cause instanceof Error ? cause.message : String(cause);
  switch (codeOf(cause)) {
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new ConfigError(`${root} cannot be written: grant this user the right to write (${message}).`, { cause });
    case 'ENAMETOOLONG':
      return new DataError(`The name of the file is too long for the file system: ${message}`, { cause });
    case 'ENOSPC':
    case 'EDQUOT':
      return new TransientError(`${root} is full: free some space (${message}).`, { cause });
    default:
      return new TransientError(message, { cause });
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
