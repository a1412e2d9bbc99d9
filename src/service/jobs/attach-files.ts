/**
 * ATTACH_FILES_TO_SOURCING_EVENT and _REQUEST: fetches and stores the files, a few at a time, then writes their rows
 * and links in the transaction that ends the job. A file that cannot be fetched is an entry of `detail.errors`; the job
 * is COMPLETED nevertheless. A job that is prepared again stores its files again, and the upload sweep removes the
 * first copies.
 *
 * A job that only names its files waits for the client:
 *
 *     files: ["a.txt", "b.txt"]   PENDING -> RUNNING, with an upload URL for each, valid for an hour
 *     PUT a.txt                   the upload is noted with the job (`files/serve-uploads.ts`)
 *     PUT b.txt                   the last one: the worker takes the job again, attaches both, COMPLETED
 *
 * If the hour is over first, the job is FAILED and says which files did not come. What did come is removed by the
 * upload sweep.
 */
import { type AttachedFile, type FileFetchError, uploadSeconds } from '#contract/file.ts';
import type { Issue } from '#contract/issue.ts';
import type { JobPayload } from '#contract/job.ts';
import { addMicros, msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import type { Logger } from '#platform/log.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { fetchFile } from '../files/fetch-file.ts';
import { beginUpload, type NewFile, recordFiles, releaseUploads } from '../files/record-files.ts';
import { createUploadUrl } from '../files/serve-uploads.ts';
import { type FileStorage, oneChunk } from '../files/storage/file-storage.ts';
import type { JobContext, JobResult, JobWork, NamedUpload, WaitForUploads } from './job-work.ts';
import { refuse } from './refuse.ts';

export interface AttachDeps {
  database: Sql;
  storage: FileStorage;
  secrets: SecretBox;
  fetch: GuardedFetch;
  clock: Clock;
  log: Logger;
  settings: { bodyBytesMax: number; fileBytesMax: number };
}

/** A file whose bytes are stored, or the reason why it could not be fetched. */
export type PreparedFile = NewFile | { readonly fileName: string; readonly error: FileFetchError };

/** Files of one job that are fetched and stored at once; each is in memory as a whole. */
const concurrency = 4;
/** The time limit of one file, from the request to its last byte. */
const fileMs = 30_000;
/**
 * The time limit of all fetches of one job: a server that is slow for every file must not delay other jobs for long.
 */
const jobMs = 120_000;

const octetStream = 'application/octet-stream';

/** ATTACH_FILES_TO_SOURCING_EVENT. */
export function attachFilesToSourcingEvent(
  deps: AttachDeps,
): JobWork<'ATTACH_FILES_TO_SOURCING_EVENT', PreparedFile[]> {
  return attachTo(deps, {
    idIn: (payload) => payload.sourcing_event,
    require: requireEvent,
    table: 'service.sourcing_events',
  });
}

/** ATTACH_FILES_TO_SOURCING_REQUEST. */
export function attachFilesToSourcingRequest(
  deps: AttachDeps,
): JobWork<'ATTACH_FILES_TO_SOURCING_REQUEST', PreparedFile[]> {
  return attachTo(deps, {
    idIn: (payload) => payload.sourcing_request,
    require: requireRequest,
    table: 'service.sourcing_requests',
    touch: 'update service.sourcing_requests set modified = greatest(modified, $2) where id = $1',
  });
}

/** The kind of object that files are attached to. */
interface Target<Payload> {
  idIn: (payload: Payload) => string;
  /**
   * Throws `invalid`, with the path in the payload, when the object does not exist or files cannot be attached to it.
   */
  require: (sql: Sql, organisationId: string, id: string, mode: 'read' | 'lock') => Promise<void>;
  /** The object's row in it names the files. */
  table: string;
  /** The SQL that records the time at which files were attached, where the object shows it. $1: the object's id; $2: now. */
  touch?: string;
}

function attachTo<Type extends 'ATTACH_FILES_TO_SOURCING_EVENT' | 'ATTACH_FILES_TO_SOURCING_REQUEST'>(
  deps: AttachDeps,
  target: Target<JobPayload<Type>>,
): JobWork<Type, PreparedFile[]> {
  return {
    prepare: async (payload, job, signal) => {
      await target.require(deps.database, job.organisationId, target.idIn(payload), 'read');
      return prepareFiles(deps, contentsIn(payload.files), job, signal);
    },
    apply: async ({ tx }, { payload, job, now, prepared, uploads }) => {
      const id = target.idIn(payload);
      await target.require(tx, job.organisationId, id, 'lock');
      const names = payload.files.filter((file) => typeof file === 'string');
      if (names.length > 0 && uploads === null) return waitForUploads(deps.secrets, names, job, now);
      const files = uploads === null ? prepared : await uploadedFiles(tx, uploads);
      const stored = files.filter((file) => 'id' in file);
      await recordFiles(tx, job.organisationId, stored, now);
      await tx.query(`update ${target.table} set files = files || $2::uuid[] where id = $1`, [
        id,
        stored.map((file) => file.id),
      ]);
      if (target.touch !== undefined && stored.length > 0) await tx.query(target.touch, [id, now]);
      return resultOf(files);
    },
  };
}

function contentsIn(files: readonly (string | AttachedFile)[]): AttachedFile[] {
  return files.filter((file) => typeof file !== 'string');
}

function waitForUploads(secrets: SecretBox, names: readonly string[], job: JobContext, now: Timestamp): WaitForUploads {
  const expiresMs = msFromTimestamp(now) + uploadSeconds * 1_000;
  const files = names.map((name, index) => ({
    file_name: name,
    upload_url: createUploadUrl(secrets, job, index, expiresMs),
  }));
  return {
    uploads: names.map((name) => ({ file_name: name })),
    due: addMicros(now, uploadSeconds * 1_000_000),
    detail: { data: [], errors: [], files },
  };
}

/** The files that were uploaded. Throws `invalid` with an issue for each that was not, or whose bytes are gone. */
async function uploadedFiles(tx: Sql, uploads: readonly NamedUpload[]): Promise<NewFile[]> {
  const ids = uploads.flatMap(({ id }) => id ?? []);
  // A service that was down for a day after the last upload has removed the bytes when it started again.
  const kept = await tx.query<{ id: string }>(
    "select id from service.files where id = any($1::uuid[]) and state = 'upload'",
    [ids],
  );
  const known = new Set(kept.map(({ id }) => id));
  const files: NewFile[] = [];
  const issues: Issue[] = [];
  for (const [index, { file_name: fileName, content_type, id, size, sha256 }] of uploads.entries()) {
    if (id === undefined || size === undefined || sha256 === undefined || !known.has(id))
      issues.push({ path: `files[${index}]`, message: `${fileName} was not uploaded in time: submit the job again` });
    else
      files.push({
        id,
        fileName,
        contentType: content_type ?? octetStream,
        size,
        sha256: Buffer.from(sha256, 'hex'),
      });
  }
  refuse(issues);
  return files;
}

async function requireEvent(sql: Sql, organisationId: string, id: string, mode: 'read' | 'lock'): Promise<void> {
  const [event] = await sql.query<{ status: string }>(
    `select status from service.sourcing_events where id = $1 and organisation_id = $2
     ${mode === 'lock' ? 'for update' : ''}`,
    [id, organisationId],
  );
  if (!event) refuse([{ path: 'sourcing_event', message: 'there is no such sourcing event' }]);
  if (event?.status === 'DELETED') refuse([{ path: 'sourcing_event', message: 'this sourcing event is deleted' }]);
}

async function requireRequest(sql: Sql, organisationId: string, id: string, mode: 'read' | 'lock'): Promise<void> {
  const found = await sql.query(
    `select from service.sourcing_requests where id = $1 and organisation_id = $2
     ${mode === 'lock' ? 'for update' : ''}`,
    [id, organisationId],
  );
  if (found.length === 0) refuse([{ path: 'sourcing_request', message: 'there is no such sourcing request' }]);
}

/** Throws what the storage or the database throws, after the files that were being fetched or stored have ended. */
async function prepareFiles(
  deps: AttachDeps,
  files: readonly AttachedFile[],
  { organisationId }: JobContext,
  signal: AbortSignal,
): Promise<PreparedFile[]> {
  const [organisation] = await deps.database.query<{ allowed_networks: string[] }>(
    'select allowed_networks from service.organisations where id = $1',
    [organisationId],
  );
  const allowedNetworks = parseCidrs(organisation?.allowed_networks ?? []);
  const until = performance.now() + jobMs;
  return concurrently(files, signal, async (file, running) => {
    const timeoutMs = Math.min(fileMs, Math.ceil(until - performance.now()));
    const limits = {
      allowedNetworks,
      group: organisationId,
      timeoutMs,
      responseBytesMax: deps.settings.bodyBytesMax,
      signal: running,
    };
    const fetched =
      file.url === undefined
        ? { bytes: Buffer.from(file.content ?? '', 'base64'), contentType: undefined }
        : await fetchFile(deps.fetch, file.url, limits);
    const fileName = file.file_name;
    if ('error' in fetched) {
      const { error, detail } = fetched;
      if (error === 'unreachable') deps.log.info({ organisationId, detail }, 'a file could not be fetched');
      return { fileName, error };
    }
    const contentType = file.content_type ?? fetched.contentType ?? octetStream;
    const stored = await store(deps, organisationId, fetched.bytes);
    return stored ? { fileName, contentType, ...stored } : { fileName, error: 'no_space' };
  });
}

/** Stores the bytes of a file; undefined when the organisation has no room for them. */
async function store(
  { database, clock, storage, settings: { fileBytesMax } }: AttachDeps,
  organisationId: string,
  bytes: Uint8Array,
): Promise<Pick<NewFile, 'id' | 'size' | 'sha256'> | undefined> {
  const id = await beginUpload(database, { organisationId, bytes: bytes.length, fileBytesMax }, timestampNow(clock));
  if (id === undefined) return undefined;
  try {
    return { id, ...(await storage.put(id, oneChunk(bytes))) };
  } catch (error) {
    await releaseUploads(database, [id]);
    throw error;
  }
}

/** Works on a few items at a time. When one throws, or the signal aborts, the others are aborted, too. */
async function concurrently<Item, Result>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item, signal: AbortSignal) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const failed = new AbortController();
  const running = AbortSignal.any([signal, failed.signal]);
  const queue = items.entries();
  const worker = async () => {
    for (const [index, item] of queue) {
      running.throwIfAborted();
      results[index] = await work(item, running).catch((error: unknown) => {
        failed.abort(error);
        throw error;
      });
    }
  };
  await Promise.allSettled(Array.from({ length: concurrency }, worker));
  if (failed.signal.aborted) throw failed.signal.reason;
  signal.throwIfAborted();
  return results;
}

function resultOf(prepared: readonly PreparedFile[]): JobResult {
  return {
    detail: {
      data: prepared.flatMap((file) => ('id' in file ? [{ file_uuid: file.id, file_name: file.fileName }] : [])),
      errors: prepared.flatMap((file) => ('error' in file ? [{ file_name: file.fileName, error: file.error }] : [])),
    },
  };
}
