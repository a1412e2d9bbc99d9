import { contentType, fileName, fileNameHeader, uploadedFile } from '#contract/file.ts';
import type { Issue } from '#contract/issue.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type RawBody, rawEndpoint } from '#platform/http/endpoint.ts';
import { messageOf } from '#platform/input.ts';
import type { Caller } from '../caller.ts';
import { type NewFile, recordFiles } from './record-files.ts';
import type { FileStorage } from './storage/file-storage.ts';
import { storeBody } from './store-body.ts';

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
  return rawEndpoint<Caller, NewFile>({
    method: 'POST',
    path: '/desk/files',
    scope: 'desk',
    limit: 'desk',
    summary: 'Upload a file',
    answers: { 201: uploadedFile },
    prepare: async ({ body, caller: { unit, organisationId } }) => {
      const described = readHeaders(body.headers);
      return { ...described, ...(await storeBody({ ...deps, sql: unit.tx }, organisationId, body)) };
    },
    handle: async ({ caller: { unit, organisationId } }, file) => {
      await recordFiles(unit.tx, organisationId, [file], timestampNow(deps.clock));
      return {
        status: 201,
        body: { uuid: file.id, file_name: file.fileName, size: file.size, sha256: file.sha256.toString('hex') },
      };
    },
  });
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
