/**
 * ATTACH_FILES_TO_SOURCING_EVENT and _REQUEST: fetches and stores the files, some at once, then writes their rows and
 * links in the transaction that ends the job. A file that cannot be had is told in `detail.errors`, and the job is
 * COMPLETED all the same. A job that is prepared again stores its files anew; the first ones are swept.
 */
import type { AttachedFile, FileFetchError } from '#contract/file.ts';
import type { JobPayload } from '#contract/job.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { type FileStorage, oneChunk } from '#platform/file-storage.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { fetchFile } from '../files/fetch-file.ts';
import { type NewFile, noteUploads, recordFiles } from '../files/record-files.ts';
import type { JobContext, JobResult, JobWork } from './job-work.ts';
import { refuse } from './refuse.ts';

export interface AttachDeps {
  database: Sql;
  storage: FileStorage;
  fetch: GuardedFetch;
  clock: Clock;
  settings: { bodyBytesMax: number };
}

export type PreparedFile = NewFile | { readonly fileName: string; readonly error: FileFetchError };

/** Files of one job that are under way at once; each is in memory as a whole. */
const concurrency = 4;
/** From the request to a file's last byte. */
const fileMs = 30_000;
/** Of all fetching of one job: a server that is slow for every file does not hold up the others' jobs for ever. */
const jobMs = 120_000;

const octetStream = 'application/octet-stream';

export function attachFilesToSourcingEvent(
  deps: AttachDeps,
): JobWork<'ATTACH_FILES_TO_SOURCING_EVENT', PreparedFile[]> {
  return attachTo(deps, {
    idIn: (payload) => payload.sourcing_event,
    require: requireEvent,
    link: `insert into service.event_files (event_id, file_id)
           select $1, file.id from unnest($2::uuid[]) with ordinality as file (id, place) order by place`,
  });
}

export function attachFilesToSourcingRequest(
  deps: AttachDeps,
): JobWork<'ATTACH_FILES_TO_SOURCING_REQUEST', PreparedFile[]> {
  return attachTo(deps, {
    idIn: (payload) => payload.sourcing_request,
    require: requireRequest,
    link: `insert into service.request_files (request_id, file_id)
           select $1, file.id from unnest($2::uuid[]) with ordinality as file (id, place) order by place`,
  });
}

/** What files are attached to. */
interface Target<Payload> {
  idIn: (payload: Payload) => string;
  /** Throws `invalid`, with the member of the payload that named it, when it is not there or takes no files. */
  require: (sql: Sql, organisationId: string, id: string, mode: 'read' | 'lock') => Promise<void>;
  /** $1: its id; $2: the files, whose order is kept. */
  link: string;
}

function attachTo<Type extends 'ATTACH_FILES_TO_SOURCING_EVENT' | 'ATTACH_FILES_TO_SOURCING_REQUEST'>(
  deps: AttachDeps,
  target: Target<JobPayload<Type>>,
): JobWork<Type, PreparedFile[]> {
  return {
    prepare: async (payload, job, signal) => {
      await target.require(deps.database, job.organisationId, target.idIn(payload), 'read');
      return prepareFiles(deps, payload.files, job, signal);
    },
    apply: async ({ tx }, { payload, job, now, prepared }) => {
      const id = target.idIn(payload);
      await target.require(tx, job.organisationId, id, 'lock');
      const stored = prepared.filter((file) => 'id' in file);
      await recordFiles(tx, job.organisationId, stored, now);
      await tx.query(target.link, [id, stored.map((file) => file.id)]);
      return resultOf(prepared);
    },
  };
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

/** Throws what the storage or the database throws, after everything that was under way has ended. */
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
  const ids = await noteUploads(deps.database, files.length, timestampNow(deps.clock));
  const until = performance.now() + jobMs;
  return concurrently(files, signal, async (file, index, running) => {
    const timeoutMs = Math.min(fileMs, Math.ceil(until - performance.now()));
    const limits = { allowedNetworks, timeoutMs, responseBytesMax: deps.settings.bodyBytesMax, signal: running };
    const got =
      file.url === undefined
        ? { bytes: Buffer.from(file.content ?? '', 'base64'), contentType: undefined }
        : await fetchFile(deps.fetch, file.url, limits);
    const fileName = file.file_name;
    if ('error' in got) return { fileName, error: got.error };
    const id = ids[index] as string;
    const contentType = file.content_type ?? got.contentType ?? octetStream;
    return { id, fileName, contentType, ...(await deps.storage.put(id, oneChunk(got.bytes))) };
  });
}

/** A few at a time; the first that throws, and the signal, end the others, too. */
async function concurrently<Item, Result>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item, index: number, signal: AbortSignal) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const failed = new AbortController();
  const running = AbortSignal.any([signal, failed.signal]);
  const queue = items.entries();
  const worker = async () => {
    for (const [index, item] of queue) {
      running.throwIfAborted();
      results[index] = await work(item, index, running).catch((error: unknown) => {
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
