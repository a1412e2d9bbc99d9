/**
 * PUT /uploads/{token}/{number}: the pre-signed links at which a client uploads the files that a job names. A valid link
 * needs no key, and takes the bytes of that one file. The upload is noted with the job in one transaction, so a client
 * that lost the answer sends the same bytes again and gets the same answer; other bytes are refused.
 */
import { createHash } from 'node:crypto';
import type { Express, Request } from 'express';
import { contentType } from '#contract/file.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Heartbeat } from '#platform/heartbeat.ts';
import { protectConnection } from '#platform/http/connections.ts';
import { openRawBody } from '#platform/http/endpoint.ts';
import { refuseMethod } from '#platform/http/problem.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { NamedUpload } from '../jobs/job-work.ts';
import type { RunUnitOfWork } from '../unit-of-work.ts';
import { createLinkToken, readLinkToken } from './link-token.ts';
import { releaseUploads } from './record-files.ts';
import type { FileStorage } from './storage/file-storage.ts';
import { storeBody } from './store-body.ts';

interface Deps {
  database: Sql;
  storage: FileStorage;
  secrets: SecretBox;
  clock: Clock;
  runUnitOfWork: RunUnitOfWork;
  bodyBytesMax: number;
  fileBytesMax: number;
  unlessSilent: Heartbeat['unlessSilent'];
}

interface JobRow {
  id: string;
  organisation_id: string;
  status: string;
  uploads: readonly NamedUpload[] | null;
}

const path = '/uploads/:token/:number';

/** What the tokens of these links are for: one file of a job. */
const useOf = (number: string) => `upload link ${number}`;

/** The link for the file at `index` of the job's files, valid until `expiresMs`. */
export function createUploadUrl(
  secrets: SecretBox,
  job: { id: string; baseUrl: string },
  index: number,
  expiresMs: number,
): string {
  const number = String(index + 1);
  return `${job.baseUrl}/uploads/${createLinkToken(secrets, useOf(number), job.id, expiresMs)}/${number}`;
}

/** Mounts the route. Answers 200 without a body when the file has come. */
export function serveUploads(app: Express, deps: Deps): void {
  app.put(path, async (request, response) => {
    // The route's template, not its path: the token must not get into metrics or logs.
    response.locals.route = path;
    const { token, number } = request.params;
    const jobId = readLinkToken(deps.secrets, useOf(number), token, deps.clock.nowMs());
    if (jobId === undefined)
      throw new AppError('forbidden', 'This upload link is not valid, or has expired. Submit a new job for a new one.');
    await deps.unlessSilent(receive(deps, request, { jobId, index: Number(number) - 1 }));
    response.status(200).end();
  });
  app.route(path).all((request, response) => refuseMethod(request, response, path, 'PUT'));
}

async function receive(
  deps: Deps,
  request: Request,
  { jobId, index }: { jobId: string; index: number },
): Promise<void> {
  const job = await findJob(deps.database, jobId, 'read');
  protectConnection(request);
  const body = openRawBody(request, deps.bodyBytesMax);
  const known = job.uploads?.[index]?.sha256;
  if (known !== undefined) {
    const hash = createHash('sha256');
    for await (const chunk of body.bytes) hash.update(chunk);
    refuseOtherBytes(hash.digest('hex'), known);
    return;
  }
  refuseEnded(job);
  const stored = await storeBody({ ...deps, sql: deps.database }, job.organisation_id, body);
  const upload = {
    id: stored.id,
    size: stored.size,
    sha256: stored.sha256.toString('hex'),
    content_type: contentType.safeParse(request.get('content-type')).data,
  };
  const isNoted = await deps
    .runUnitOfWork((unit) => noteUpload(deps.clock, unit, { jobId, index, upload }))
    .catch(async (error: unknown) => {
      await releaseUploads(deps.database, [stored.id]);
      throw error;
    });
  if (!isNoted) await releaseUploads(deps.database, [stored.id]);
}

/**
 * Notes the upload with its job, and wakes the worker when it is the last one. Returns false when the same bytes have
 * come meanwhile.
 */
async function noteUpload(
  clock: Clock,
  unit: Parameters<Parameters<RunUnitOfWork>[0]>[0],
  { jobId, index, upload }: { jobId: string; index: number; upload: Omit<NamedUpload, 'file_name'> },
): Promise<boolean> {
  const job = await findJob(unit.tx, jobId, 'lock');
  const known = job.uploads?.[index]?.sha256;
  if (known !== undefined) {
    refuseOtherBytes(upload.sha256, known);
    return false;
  }
  refuseEnded(job);
  const uploads = (job.uploads ?? []).map((one, at) => (at === index ? { ...one, ...upload } : one));
  const isLast = uploads.every(({ id }) => id !== undefined);
  await unit.tx.query('update service.jobs set uploads = $2, due = coalesce($3, due) where id = $1', [
    jobId,
    JSON.stringify(uploads),
    isLast ? timestampNow(clock) : null,
  ]);
  if (isLast) unit.wake('file-jobs', job.organisation_id);
  return true;
}

async function findJob(sql: Sql, id: string, mode: 'read' | 'lock'): Promise<JobRow> {
  const [job] = await sql.query<JobRow>(
    `select id, organisation_id, status, uploads from service.jobs where id = $1 ${mode === 'lock' ? 'for update' : ''}`,
    [id],
  );
  if (!job) throw new AppError('not-found', 'The job of this upload link is gone.');
  return job;
}

function refuseEnded({ status }: JobRow): void {
  if (status !== 'RUNNING') throw new AppError('conflict', `The job takes no more files: it is ${status}.`);
}

function refuseOtherBytes(given: string | undefined, known: string): void {
  if (given !== known)
    throw new AppError('conflict', 'This file was uploaded before, with other bytes. Submit a new job to replace it.');
}
