/** Streams the raw body of a request to the storage, within the limits of bodies and of the organisation's files. */
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { RawBody } from '#platform/http/endpoint.ts';
import { beginUpload, type FileRoom, readFileRoom, releaseUploads } from './record-files.ts';
import type { FileStorage, StoredBytes } from './storage/file-storage.ts';

interface Deps {
  /** Not in a transaction that may be rolled back. */
  sql: Sql;
  clock: Clock;
  storage: FileStorage;
  fileBytesMax: number;
}

/**
 * Returns the id of the upload when all of its bytes are durable. Room for them is reserved before the first one is
 * read. Throws `too-large` for a body over the limit, and `no-space` when the organisation has no room.
 */
export async function storeBody(
  { sql, clock, storage, fileBytesMax }: Deps,
  organisationId: string,
  body: RawBody,
): Promise<StoredBytes & { id: string }> {
  const room = await readFileRoom(sql, organisationId, fileBytesMax);
  const reserved = bytesToReserve(body, room);
  const id = await beginUpload(sql, { organisationId, bytes: reserved, fileBytesMax }, timestampNow(clock));
  if (id === undefined) throw noRoom(await readFileRoom(sql, organisationId, fileBytesMax));
  try {
    return { id, ...(await storage.put(id, bytesWithin(body, reserved, room))) };
  } catch (error) {
    await releaseUploads(sql, [id]);
    throw error;
  }
}

/** The announced length; without one as much as a file may have, or as is left. Throws `too-large` and `no-space`. */
function bytesToReserve({ headers, bytesMax }: RawBody, room: FileRoom): number {
  const length = headers['content-length'];
  const announced = length === undefined ? undefined : Number(length);
  if (announced !== undefined && announced > bytesMax) throw tooLarge(bytesMax, room);
  if (room.leftBytes < (announced ?? 1)) throw noRoom(room);
  return announced ?? Math.min(bytesMax, room.leftBytes);
}

/** The bytes as they come; a body of unknown length may turn out to be longer than what was reserved. */
async function* bytesWithin(body: RawBody, reserved: number, room: FileRoom): AsyncGenerator<Buffer, void, undefined> {
  let length = 0;
  try {
    for await (const chunk of body.bytes) {
      length += chunk.length;
      if (length > reserved) throw reserved < body.bytesMax ? noRoom(room) : tooLarge(body.bytesMax, room);
      yield chunk;
    }
  } catch (error) {
    throw error instanceof AppError && error.code === 'too-large' ? tooLarge(body.bytesMax, room) : error;
  }
}

function tooLarge(bytesMax: number, room: FileRoom): AppError {
  const { usedBytes, leftBytes } = room;
  return new AppError(
    'too-large',
    `The file is larger than the limit of ${bytesMax} bytes. The organisation's files use ${usedBytes} bytes, ${leftBytes} are left.`,
    { figures: { limit_bytes: bytesMax, used_bytes: usedBytes, left_bytes: leftBytes } },
  );
}

function noRoom({ limitBytes, usedBytes, leftBytes }: FileRoom): AppError {
  return new AppError(
    'no-space',
    `The files of the organisation may have ${limitBytes} bytes together. They use ${usedBytes}, and ${leftBytes} are left. The operator can raise the limit.`,
    { figures: { limit_bytes: limitBytes, used_bytes: usedBytes, left_bytes: leftBytes } },
  );
}
