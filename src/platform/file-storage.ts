/**
 * Where the bytes of files are kept: a folder of this machine, or a bucket of an S3-compatible store. A file is there
 * whole or not at all, under an id that is never given twice; its name, type and owner stand in SQL.
 */
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { AppError, errorText } from './errors.ts';

/**
 * Calls for different ids may overlap in any number, in any number of processes. `put` and `remove` of one id may not:
 * who removes makes sure in SQL that nobody stores.
 */
export interface FileStorage {
  /**
   * Stores the bytes under a fresh id, a UUID. When it resolves they survive a power cut; when it rejects the id is
   * spent, and `remove` takes away what there may be of it. What `bytes` throws goes on as it is; a storage that cannot
   * take them is an AppError `unavailable`.
   */
  put(id: string, bytes: AsyncIterable<Uint8Array>): Promise<StoredBytes>;
  /**
   * Opens the file to read; undefined when there is none. Whoever asked reads the stream to its end or destroys it.
   * A storage that does not answer is `unavailable`, here or as the stream's error.
   */
  get(id: string): Promise<OpenFile | undefined>;
  /** Removes the file, and what a crash left of one; nothing there is no failure. Throws `unavailable`. */
  remove(id: string): Promise<void>;
  /** Ends idle connections. What still runs ends by itself. */
  close(): void;
}

export interface StoredBytes {
  readonly size: number;
  readonly sha256: Buffer;
}

export interface OpenFile {
  readonly size: number;
  readonly stream: Readable;
}

/**
 * Stores, reads and removes a few bytes, as the start of a program should: a wrong bucket, key or right shows now and not
 * with the first upload. Throws an AppError that says what failed.
 */
export async function checkStorage(storage: FileStorage): Promise<void> {
  const id = randomUUID();
  const bytes = Buffer.from(`a check of this storage ${id}`);
  try {
    await storage.put(id, oneChunk(bytes));
    const read = await storage.get(id);
    if (read === undefined || !bytes.equals(await buffer(read.stream)))
      throw new AppError('unavailable', 'The file storage does not give back what was stored in it.');
    await storage.remove(id);
  } catch (cause) {
    const message = `Files cannot be stored: ${errorText(cause)} Look at the settings service.files.`;
    throw new AppError('unavailable', message, { cause, recovery: { do: 'halt' } });
  }
}

/** Bytes that are there already, as `put` takes them. */
export async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}

/** Ids become parts of paths and keys: anything but a UUID in lower case is a fault of ours. */
export function checkFileId(id: string): void {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id))
    throw new AppError('internal', 'A file id must be a UUID in lower case.');
}

/** `message` is for the log and may name paths and hosts; the caller learns only that it should try again. */
export function storageUnavailable(doing: string, cause: unknown): AppError {
  return new AppError('unavailable', 'The file storage is not available at the moment; try again shortly.', {
    message: `The file storage failed to ${doing}: ${errorText(cause)}.`,
    cause,
  });
}
