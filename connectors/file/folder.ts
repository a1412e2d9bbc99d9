/**
 * The folder that a flow writes to, wherever it is: on this machine or on an SFTP server. Paths are relative to it, with
 * `/`. Each function throws a ConnectorError that says what became of it; none tries twice. The promises that the layouts
 * rest on are `add` (a name that is free, or nothing happens) and `move` (at once, over whatever has the name).
 */
import { createHash, randomBytes } from 'node:crypto';
import { type CheckResult, UnknownOutcome } from 'sourcing-bridge/connector';

/** What a file is made of: its bytes, or parts of it that are made while it is written. */
export type Content = Uint8Array | AsyncIterable<Uint8Array>;

export interface FileSeen {
  readonly bytes: number;
  readonly modifiedMs: number;
}

export interface Folder {
  /** For messages: what a person calls it. */
  readonly place: string;
  /** The file's bytes, or as many from `from` on as `to` lets; undefined when there is no such file. */
  read(path: string, range?: { from: number; to: number }): Promise<Uint8Array | undefined>;
  /** Undefined when there is no such file. */
  look(path: string): Promise<FileSeen | undefined>;
  /** The names in a folder in it, in no order; none when there is no such folder. */
  list(path: string): Promise<string[]>;
  /** Writes a file of a new name and makes it durable, in a folder that is made if it is missing. A failure may leave a part. */
  write(path: string, content: Content, signal?: AbortSignal): Promise<void>;
  /** Gives a file another name, in one step, whatever had it. Throws NoSuchFile when `from` is not there. */
  move(from: string, to: string): Promise<void>;
  /** Gives a file another name if nothing has it: of several who try at once one gets true. `from` may stay. */
  add(from: string, to: string): Promise<boolean>;
  /** Makes the names in a folder durable, where it can: those of `write` are not yet. */
  flush(path: string): Promise<void>;
  /** No error when it is not there. */
  remove(path: string): Promise<void>;
  check(): Promise<CheckResult[]>;
  /** After this long, by the folder's own times, a temporary file is one that a process has left behind. */
  readonly leftoverMs: number;
  /** Ends what is under way soon after `signal` aborts: a call that waits for the other side fails then. */
  during<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** What was to be moved is not there. */
export class NoSuchFile extends Error {}

/** Replaces a file in one step. When it throws UnknownOutcome, the new content may be in place. */
export async function replace(folder: Folder, path: string, content: Content, signal?: AbortSignal): Promise<void> {
  const temporary = neighbourOf(path);
  try {
    await folder.write(temporary, content, signal);
    await folder.move(temporary, path);
  } catch (error) {
    // Where the connection is lost, it stays, and goes as what a kill leaves.
    if (!(error instanceof UnknownOutcome)) await folder.remove(temporary).catch(() => undefined);
    throw error;
  }
}

/** Writes a file if its name is free; false when it is not. */
export async function addFile(folder: Folder, path: string, content: Content): Promise<boolean> {
  const temporary = neighbourOf(path);
  try {
    await folder.write(temporary, content);
    return await folder.add(temporary, path);
  } finally {
    await folder.remove(temporary).catch(() => undefined);
  }
}

function neighbourOf(path: string): string {
  const at = path.lastIndexOf('/') + 1;
  return `${path.slice(0, at)}.${path.slice(at)}.${randomBytes(8).toString('hex')}.tmp`;
}

/** Removes what a kill between writing and renaming left: of these names only, and only what no living process holds. */
export async function removeLeftovers(folder: Folder, path: string, names: RegExp, nowMs: number): Promise<void> {
  for (const name of await folder.list(path)) {
    if (!names.test(name)) continue;
    const file = joined(path, name);
    // Another process that starts now may be removing it, too.
    const seen = await folder.look(file);
    if (seen && nowMs - seen.modifiedMs > folder.leftoverMs) await folder.remove(file);
  }
}

export async function readText(folder: Folder, path: string): Promise<string | undefined> {
  const bytes = await folder.read(path);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
}

/** Read in pieces: a file may be larger than what fits into memory. Undefined when there is none. */
export async function checksumOf(folder: Folder, path: string): Promise<string | undefined> {
  const hash = createHash('sha256');
  for (let from = 0; ; from += pieceBytes) {
    const piece = await folder.read(path, { from, to: from + pieceBytes });
    if (piece === undefined) return undefined;
    hash.update(piece);
    if (piece.length < pieceBytes) return hash.digest('hex');
  }
}

const pieceBytes = 1024 * 1024;

export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

export function joined(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '' && part !== '.').join('/');
}
