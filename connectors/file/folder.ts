/**
 * The folder that a flow writes to, on this machine or on an SFTP server. Paths are relative to it, with `/`. Each
 * method throws a ConnectorError that says what became of the call; none retries. Every file gets its name by `move`, in
 * one step, after it was written and flushed under a temporary name: no name ever shows half a file.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  AuthError,
  type CheckResult,
  type Clock,
  ConfigError,
  ConnectorError,
  DataError,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';

export interface FileInfo {
  readonly bytes: number;
  readonly modifiedMs: number;
  /** `other`: a link, a FIFO, a device or a socket, which nobody reads. */
  readonly type: 'file' | 'folder' | 'other';
}

export interface Folder {
  /** The name of the folder in messages to an operator. */
  readonly place: string;
  /**
   * The bytes of a regular file, or those from `from` up to (without) `to`; undefined when there is no such file. Throws
   * DataError for anything that is not a regular file.
   */
  read(path: string, range?: { from: number; to: number }): Promise<Uint8Array | undefined>;
  /** Follows no link. Undefined when there is nothing of that name. */
  stat(path: string): Promise<FileInfo | undefined>;
  /** The names in a subfolder, in no order; empty when there is no such subfolder. */
  list(path: string): Promise<string[]>;
  /** Writes a new file and flushes it; creates its subfolder if it is missing. After a failure a part of it may stay. */
  write(path: string, content: Uint8Array): Promise<void>;
  /** Renames in one step, replacing any file of the new name. Throws NoSuchFile when `from` does not exist. */
  move(from: string, to: string): Promise<void>;
  /** Does nothing when the file does not exist. */
  remove(path: string): Promise<void>;
  check(): Promise<CheckResult[]>;
  /** Runs `work`. Soon after `signal` aborts, a call that waits for the server fails. */
  during<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** The file to be moved does not exist. */
export class NoSuchFile extends Error {}

/** What a file system or an SFTP server can do. Each call rejects with the error of the system. */
export interface FileSystem {
  readonly place: string;
  readonly read: (path: string, range?: { from: number; to: number }) => Promise<Uint8Array>;
  readonly stat: (path: string) => Promise<FileInfo>;
  readonly list: (path: string) => Promise<string[]>;
  /** Writes a file that does not exist, and flushes it. */
  readonly create: (path: string, content: Uint8Array) => Promise<void>;
  /** Renames, replacing any file of the new name, and flushes the name. */
  readonly replace: (from: string, to: string) => Promise<void>;
  readonly makeFolder: (path: string) => Promise<void>;
  readonly remove: (path: string) => Promise<void>;
  /** What is to be said to an operator besides whether the folder can be written. */
  readonly checkLogin?: () => Promise<CheckResult>;
  readonly checkReplace?: () => CheckResult;
  readonly during: Folder['during'];
  readonly close: Folder['close'];
}

/** A folder in a file system. */
export function createFolder(system: FileSystem): Folder {
  const { place } = system;

  async function told<T>(path: string, work: () => Promise<T>): Promise<T> {
    return work().catch((error: unknown) => {
      throw folderErrorOf(error, path, place);
    });
  }

  const unlessMissing = <T, Instead>(work: Promise<T>, instead: Instead): Promise<T | Instead> =>
    work.catch((error: unknown) => {
      if (isMissing(error)) return instead;
      throw error;
    });
  const statIfAny = (path: string) => unlessMissing(system.stat(path), undefined);

  async function createFolders(path: string): Promise<void> {
    const parts = path.split('/').slice(0, -1);
    for (const count of parts.keys()) {
      const folder = parts.slice(0, count + 1).join('/');
      if (await statIfAny(folder)) continue;
      await system.makeFolder(folder).catch(async (error: unknown) => {
        // Another process may have created it meanwhile.
        if (!(await statIfAny(folder))) throw error;
      });
    }
  }

  /** Makes a file, and before it its folder where that is missing: mostly it is there. */
  async function inFolderOf(path: string, make: () => Promise<void>): Promise<void> {
    await make().catch(async (error: unknown) => {
      if (!isMissing(error) || !path.includes('/')) throw error;
      await createFolders(path);
      await make();
    });
  }

  async function move(from: string, to: string): Promise<void> {
    await inFolderOf(to, () => system.replace(from, to)).catch(async (error: unknown) => {
      if (error instanceof ConnectorError || (await statIfAny(from))) throw error;
      throw new NoSuchFile(from, { cause: error });
    });
  }

  const folder: Folder = {
    place,
    read: (path, range) => told(path, () => unlessMissing(system.read(path, range), undefined)),
    stat: (path) => told(path, () => statIfAny(path)),
    list: (path) => told(path, () => unlessMissing(system.list(path), [])),
    write: (path, content) => told(path, () => inFolderOf(path, () => system.create(path, content))),
    move: (from, to) => told(to, () => move(from, to)),
    remove: (path) => told(path, () => unlessMissing(system.remove(path), undefined)),
    check: () => checkFolder(folder, system),
    during: system.during,
    close: system.close,
  };
  return folder;
}

/** Writes and replaces a file: on a mounted file system, permissions alone do not show whether that works. */
async function checkFolder(folder: Folder, { checkLogin, checkReplace }: FileSystem): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  const path = temporaryNameOf('check');
  try {
    if (checkLogin) results.push(await checkLogin());
    for (const text of ['x', 'y']) await putFile(folder, path, text);
    results.push({ name: 'folder', ok: true, message: `${folder.place} can be written.` });
    if (checkReplace) results.push(checkReplace());
  } catch (error) {
    const name = checkLogin && results.length === 0 ? 'server' : 'folder';
    results.push({ name, ok: false, message: error instanceof Error ? error.message : String(error) });
  }
  await folder.remove(path).catch(() => undefined);
  return results;
}

/**
 * Throws TransientError shortly before the time limit of a write has passed. A process that stood still for longer (a
 * suspended machine) must not give a file its name: the bridge has looked meanwhile, and another process has taken over.
 */
export type Deadline = () => void;

const marginMs = 10_000;

export function deadlineOf(clock: Clock, timeoutMs: number, signal: AbortSignal): Deadline {
  const endMs = clock.nowMs() + timeoutMs - marginMs;
  return () => {
    if (signal.aborted || clock.nowMs() > endMs) throw new TransientError('stopped before it was written');
  };
}

/** A name in the same folder that begins with a dot, so that a reader ignores it. */
export function temporaryNameOf(path: string): string {
  const at = path.lastIndexOf('/') + 1;
  return `${path.slice(0, at)}.${path.slice(at)}.${randomBytes(8).toString('hex')}.tmp`;
}

/** Writes a file beside its name and renames it, replacing any file of this name. */
export async function putFile(folder: Folder, path: string, content: Uint8Array | string): Promise<void> {
  const temporary = temporaryNameOf(path);
  try {
    await folder.write(temporary, Buffer.from(content));
    await folder.move(temporary, path);
  } catch (error) {
    await dropFiles(folder, [temporary], error);
    throw error;
  }
}

/** Returns false, and does nothing, when there is no such file any more: another process has moved it. */
export async function moveIfThere(folder: Folder, from: string, to: string): Promise<boolean> {
  try {
    await folder.move(from, to);
    return true;
  } catch (error) {
    if (error instanceof NoSuchFile) return false;
    throw error;
  }
}

/**
 * Removes temporary files after a failure. After a lost connection they stay, and after a refused login, which must not
 * be tried again for them: `removeLeftovers` removes them later.
 */
export async function dropFiles(folder: Folder, paths: readonly string[], cause: unknown): Promise<void> {
  if (cause instanceof UnknownOutcome || cause instanceof AuthError) return;
  for (const path of paths) await folder.remove(path).catch(() => undefined);
}

/** So old a temporary file was left by an ended process, even where the server's clock is wrong by hours. */
const leftoverMs = 24 * 3_600_000;

/** Removes old temporary files that a kill left in a subfolder: only those whose names are ours. */
export async function removeLeftovers(folder: Folder, path: string, names: RegExp, nowMs: number): Promise<void> {
  for (const name of await folder.list(path)) {
    if (!names.test(name)) continue;
    const info = await folder.stat(joinPath(path, name));
    if (info && nowMs - info.modifiedMs > leftoverMs) await folder.remove(joinPath(path, name));
  }
}

/** The JSON in a file; undefined when there is no such file, null when it is not JSON. */
export async function readJson(folder: Folder, path: string): Promise<unknown> {
  const bytes = await folder.read(path);
  if (bytes === undefined) return undefined;
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8')) as unknown;
  } catch {
    return null;
  }
}

/** SHA-256 in hexadecimal. */
export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Whether a path that was read from a file stays in the folder, as those do that this connector writes. */
export function isInFolder(path: string): boolean {
  return !path.startsWith('/') && !path.split('/').includes('..');
}

/** Joins the parts of a path with `/`, without empty parts and `.`. */
export function joinPath(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '' && part !== '.').join('/');
}

/** The error of a file system or of an SFTP server (draft-ietf-secsh-filexfer-02, section 7) for an operator. */
export function folderErrorOf(cause: unknown, path: string, place: string): Error {
  if (cause instanceof ConnectorError || cause instanceof NoSuchFile) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  switch (codeOf(cause)) {
    case 2:
      return new ConfigError(`There is no folder for ${path} in ${place}: create it (${message}).`, { cause });
    case 3:
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new ConfigError(`${path} in ${place}: grant the user the right to read and write (${message}).`, {
        cause,
      });
    case 5:
    case 'ENAMETOOLONG':
      return new DataError(`The name ${path} is refused: ${message}`, { cause });
    case 'ENOSPC':
    case 'EDQUOT':
      return new TransientError(`${place} is full: free some space (${message}).`, { cause });
    default:
      return new TransientError(`${place} fails at ${path}: ${message}`, { cause });
  }
}

/** Whether a file system or a server says that there is no such file. */
function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 2].includes(codeOf(error) as string | number);
}

export function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
