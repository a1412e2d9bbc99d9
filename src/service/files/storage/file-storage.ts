/**
 * Where the bytes of files are kept: a folder of this machine, or a bucket of an S3-compatible store. A file exists
 * completely or not at all, under an id that is never used twice. Its name, type and owner stand in SQL.
 */
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { AppError, errorText } from '#platform/errors.ts';

/**
 * Any number of calls for different ids may overlap, in any number of processes. `put` and `remove` of one id may not
 * overlap: before it removes, the caller makes sure in SQL that no process stores under this id.
 */
export interface FileStorage {
  /**
   * Stores the bytes under a new id, a UUID. Once it resolves they survive a power cut. After it rejects the id must
   * not be used again, and `remove` deletes what was written. An error of `bytes` is thrown on unchanged; a storage
   * that cannot take the bytes is an AppError `unavailable`.
   */
  put(id: string, bytes: AsyncIterable<Uint8Array>): Promise<StoredBytes>;
  /**
   * Opens the file for reading, or the bytes of a `part` that lies within it; undefined when there is no such file. The
   * caller reads the stream to its end or destroys it. A storage that does not answer is `unavailable`, here or as the
   * stream's error.
   */
  get(id: string, part?: ByteRange): Promise<OpenFile | undefined>;
  /** Removes the file, or what a crash left of it; a missing file is no failure. Throws `unavailable`. */
  remove(id: string): Promise<void>;
  /** Closes idle connections. Calls that still run finish by themselves. */
  close(): void;
}

export interface StoredBytes {
  readonly size: number;
  readonly sha256: Buffer;
}

/** Both ends are included: 0 to 9 are the first ten bytes. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

export interface OpenFile {
  /** Of the whole file, also when a part of it was asked for. */
  readonly size: number;
  readonly stream: Readable;
}

/**
 * Stores, reads and removes a few bytes. A program calls it at its start, so that a wrong bucket, key or permission
 * shows then and not with the first upload. Throws an AppError that says what failed.
 */
export async function checkStorage(storage: FileStorage): Promise<void> {
  const id = randomUUID();
  const bytes = Buffer.from(`a check of this storage ${id}`);
  try {
    await storage.put(id, oneChunk(bytes));
    const read = await storage.get(id);
    if (read === undefined || !bytes.equals(await buffer(read.stream)))
      throw new AppError('unavailable', 'The file storage does not return what was stored in it.');
    await storage.remove(id);
  } catch (cause) {
    const message = `Files cannot be stored: ${errorText(cause)} Look at the settings service.files.`;
    throw new AppError('unavailable', message, { cause, recovery: { do: 'halt' } });
  }
}

/** Bytes in memory, in the form that `put` takes. */
export async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}

/** Ids become parts of paths and keys. Throws an `internal` AppError for anything but a UUID in lower case. */
export function checkFileId(id: string): void {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id))
    throw new AppError('internal', 'A file id must be a UUID in lower case.');
}

/** Its text for the log may name paths and hosts; its text for the caller says only to try again. */
export function storageUnavailable(doing: string, cause: unknown): AppError {
  return new AppError('unavailable', 'The file storage is not available at the moment; try again shortly.', {
    message: `The file storage failed to ${doing}: ${errorText(cause)}.`,
    cause,
  });
}
