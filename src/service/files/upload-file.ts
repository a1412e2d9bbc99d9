import { contentType, fileName, fileNameHeader, uploadedFile } from '#contract/file.ts';
import type { Issue } from '#contract/issue.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { FileStorage } from '#platform/file-storage.ts';
import { type RawBody, rawEndpoint } from '#platform/http/endpoint.ts';
import { messageOf } from '#platform/input.ts';
import type { Caller } from '../caller.ts';
import { beginUpload, type FileRoom, type NewFile, readFileRoom, recordFiles, releaseUploads } from './record-files.ts';

interface Deps {
  clock: Clock;
  storage: FileStorage;
  fileBytesMax: number;
}

/**
 * POST /desk/files: streams the bytes to the storage, and inserts the file's row when all of them are durable. Room for
 * them is reserved before the first one is read. 413 for a file that is too large, 507 when the organisation has no room.
 */
export function uploadFile(deps: Deps) {
  const { clock, storage, fileBytesMax } = deps;
  return rawEndpoint<Caller, NewFile>({
    method: 'POST',
    path: '/desk/files',
    scope: 'desk',
    limit: 'desk',
    summary: 'Upload a file',
    answers: { 201: uploadedFile },
    prepare: async ({ body, caller: { unit, organisationId } }) => {
      const described = readHeaders(body.headers);
      const room = await readFileRoom(unit.tx, organisationId, fileBytesMax);
      const reserved = bytesToReserve(body, room);
      const id = await beginUpload(unit.tx, { organisationId, bytes: reserved, fileBytesMax }, timestampNow(clock));
      if (id === undefined) throw noRoom(await readFileRoom(unit.tx, organisationId, fileBytesMax));
      try {
        return { id, ...described, ...(await storage.put(id, bytesWithin(body, reserved, room))) };
      } catch (error) {
        await releaseUploads(unit.tx, [id]);
        throw error;
      }
    },
    handle: async ({ caller: { unit, organisationId } }, file) => {
      await recordFiles(unit.tx, organisationId, [file], timestampNow(clock));
      return {
        status: 201,
        body: { uuid: file.id, file_name: file.fileName, size: file.size, sha256: file.sha256.toString('hex') },
      };
    },
  });
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

/** Throws `invalid` with an issue for each header that is missing or wrong. */
function readHeaders(headers: RawBody['headers']): { fileName: string; contentType: string } {
  const name = readFileName(headers[fileNameHeader.toLowerCase()]);
  const type = contentType.safeParse(headers['content-type'], { error: messageOf });
  const issues: Issue[] = [];
  if ('fault' in name) issues.push({ path: fileNameHeader, message: name.fault });
  if (!type.success) issues.push({ path: 'Content-Type', message: type.error.issues[0]?.message ?? 'is wrong' });
  if (!('fault' in name) && type.success) return { fileName: name.fileName, contentType: type.data };
  const text = issues.map(({ path, message }) => `The header ${path} ${message}.`).join(' ');
  throw new AppError('invalid', text, { issues });
}

/** Percent-encoded UTF-8. Node reads raw bytes beyond ASCII as Latin-1, so their intended encoding would be unknown. */
function readFileName(given: string | string[] | undefined): { fileName: string } | { fault: string } {
  if (typeof given !== 'string' || given === '')
    return { fault: 'is missing: it names the file, as percent-encoded UTF-8' };
  if (!/^[\x20-\x7e]*$/.test(given))
    return { fault: 'must be percent-encoded UTF-8: write every other character than visible ASCII as %XX' };
  let decoded: string;
  try {
    decoded = decodeURIComponent(given);
  } catch {
    return { fault: 'must be percent-encoded UTF-8: write % itself as %25' };
  }
  const name = fileName.safeParse(decoded, { error: messageOf });
  return name.success ? { fileName: name.data } : { fault: name.error.issues[0]?.message ?? 'is wrong' };
}
