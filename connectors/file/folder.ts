/**
 * The folder that a flow writes to, on this machine or on an SFTP server. Paths are relative to it, with `/`. Each
 * method throws a ConnectorError that says what became of the call; none retries. The layouts rely on two guarantees:
 * `moveIfFree` takes a free name or does nothing, and `move` replaces whatever has the name in one step.
 */
import { createHash, randomBytes } from 'node:crypto';
import { AuthError, type CheckResult, UnknownOutcome } from 'sourcing-bridge/connector';

/** The content of a file: its bytes, or chunks that are produced while it is written. */
export type Content = Uint8Array | AsyncIterable<Uint8Array>;

export interface FileInfo {
  readonly bytes: number;
  readonly modifiedMs: number;
}

export interface Folder {
  /** The name of the folder in messages to an operator. */
  readonly place: string;
  /** The file's bytes, or those from `from` up to (without) `to`; undefined when there is no such file. */
  read(path: string, range?: { from: number; to: number }): Promise<Uint8Array | undefined>;
  /** Undefined when there is no such file. */
  stat(path: string): Promise<FileInfo | undefined>;
  /** The names in a subfolder, in no order; empty when there is no such subfolder. */
  list(path: string): Promise<string[]>;
  /**
   * Writes a file under a new name and flushes its content; creates its subfolder if it is missing. After a failure a
   * part of the file may stay.
   */
  write(path: string, content: Content, signal?: AbortSignal): Promise<void>;
  /** Renames a file in one step, replacing any file of the new name. Throws NoSuchFile when `from` does not exist. */
  move(from: string, to: string): Promise<void>;
  /**
   * Renames a file if no file has the name `to`, and returns whether it did. Of several concurrent calls for one name,
   * only one returns true. The name `from` may stay as well.
   */
  moveIfFree(from: string, to: string): Promise<boolean>;
  /** Flushes the names in a subfolder, where that is possible; `write` flushes only the content. */
  flush(path: string): Promise<void>;
  /** Does nothing when the file does not exist. */
  remove(path: string): Promise<void>;
  check(): Promise<CheckResult[]>;
  /** A temporary file that is older than this, by the folder's own clock, was left by an ended process. */
  readonly leftoverMs: number;
  /** Runs `work`. Soon after `signal` aborts, a call that waits for the server fails. */
  during<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** The file to be moved does not exist. */
export class NoSuchFile extends Error {}

/** Files that are written under temporary names. */
interface NewFiles {
  /** Gives a file its name in one step, replacing any file of this name. */
  place(path: string): Promise<void>;
  /**
   * Removes those that have no name yet. After a lost connection they stay, and after a refused login, which must not be
   * tried again for them: `removeLeftovers` removes them later.
   */
  dropAfter(cause: unknown): Promise<void>;
}

/** Writes files under temporary names, all at once; when that fails, none is left behind where that is possible. */
export async function writeNewFiles(
  folder: Folder,
  files: readonly { readonly path: string; readonly content: Content }[],
  signal: AbortSignal,
): Promise<NewFiles> {
  const temporary = new Map(files.map(({ path }) => [path, temporaryNameOf(path)]));
  const dropAfter = async (cause: unknown) => {
    if (cause instanceof UnknownOutcome || cause instanceof AuthError) return;
    for (const name of temporary.values()) await folder.remove(name).catch(() => undefined);
  };
  const place = async (path: string) => {
    const name = temporary.get(path);
    if (name === undefined) throw new NoSuchFile(path);
    await folder.move(name, path);
    temporary.delete(path);
  };
  const written = await Promise.allSettled(
    files.map(({ path, content }) => folder.write(temporary.get(path) ?? '', content, signal)),
  );
  const failed = written.find((write) => write.status === 'rejected');
  if (!failed) return { place, dropAfter };
  await dropAfter(failed.reason);
  throw failed.reason;
}

/** Writes a file if its name is free; returns false when it is not. */
export async function addFile(folder: Folder, path: string, content: Content): Promise<boolean> {
  const temporary = temporaryNameOf(path);
  try {
    await folder.write(temporary, content);
    return await folder.moveIfFree(temporary, path);
  } finally {
    await folder.remove(temporary).catch(() => undefined);
  }
}

/** A name in the same folder that begins with a dot, so that a reader ignores it. */
function temporaryNameOf(path: string): string {
  const at = path.lastIndexOf('/') + 1;
  return `${path.slice(0, at)}.${path.slice(at)}.${randomBytes(8).toString('hex')}.tmp`;
}

/**
 * Removes temporary files that a kill left between writing and renaming: only files with these names, and only those
 * that no living process can still use.
 */
export async function removeLeftovers(folder: Folder, path: string, names: RegExp, nowMs: number): Promise<void> {
  for (const name of await folder.list(path)) {
    if (!names.test(name)) continue;
    const file = joinPath(path, name);
    // Undefined when another process that starts now has removed it.
    const info = await folder.stat(file);
    if (info && nowMs - info.modifiedMs > folder.leftoverMs) await folder.remove(file);
  }
}

/** The file's text; undefined when there is no such file. */
export async function readText(folder: Folder, path: string): Promise<string | undefined> {
  const bytes = await folder.read(path);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
}

/**
 * The file's SHA-256 in hexadecimal; undefined when there is no such file. Reads in chunks, because a file may be
 * larger than the memory.
 */
export async function checksumOf(folder: Folder, path: string): Promise<string | undefined> {
  const hash = createHash('sha256');
  for (let from = 0; ; from += chunkBytes) {
    const chunk = await folder.read(path, { from, to: from + chunkBytes });
    if (chunk === undefined) return undefined;
    hash.update(chunk);
    if (chunk.length < chunkBytes) return hash.digest('hex');
  }
}

const chunkBytes = 1024 * 1024;

/** SHA-256 in hexadecimal. */
export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Joins the parts of a path with `/`, without empty parts and `.`. */
export function joinPath(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '' && part !== '.').join('/');
}
