/**
 * The workers of the lanes `jobs` and `file-jobs`. They run an organisation's jobs in the order of their submission, and
 * the organisations take turns. Jobs that fetch from other servers have a lane of their own, because they would delay the
 * others. A job's work and its end are one transaction, so a job ends exactly once: a crash leaves it pending with nothing
 * done. A job that names files is RUNNING while they are uploaded (`files/serve-uploads.ts`), and then worked on again.
 */
import { type Issue, issuesMax } from '#contract/issue.ts';
import { type JobType, jobTypeNames, jobTypes } from '#contract/job.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { AppError } from '#platform/errors.ts';
import { createFairSlots } from '#platform/fair-slots.ts';
import { toAppError } from '#platform/http/problem.ts';
import { parseInput } from '#platform/input.ts';
import type { Logger } from '#platform/log.ts';
import type { Signals, Work } from '#platform/queue.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { inTurns, type WorkOnNext } from '../turns.ts';
import { isWorthRepeating, type RunUnitOfWork, type ServiceLane, type UnitOfWork } from '../unit-of-work.ts';
import { enqueueNotifications } from '../webhooks/enqueue-notifications.ts';
import { type AttachDeps, attachFilesToSourcingEvent, attachFilesToSourcingRequest } from './attach-files.ts';
import { createSourcingEvent, createSourcingEventFromTemplate } from './create-sourcing-event.ts';
import { createSourcingRequest } from './create-sourcing-request.ts';
import { generateDownloadLinks } from './generate-download-links.ts';
import type { JobContext, JobResult, JobWork, NamedUpload, WaitForUploads } from './job-work.ts';
import { updateSourcingEvent } from './update-sourcing-event.ts';

interface JobRow {
  id: string;
  organisation_id: string;
  type: JobType;
  payload: unknown;
  created_by: string;
  base_url: string | null;
}

/**
 * SQL: what the worker takes at `now` of the jobs (alias `j`): pending ones, and running ones whose files have come, or
 * whose upload URLs have expired.
 */
const isDue = (now: string) => `(j.status = 'PENDING' or (j.status = 'RUNNING' and j.due <= ${now}))`;

interface Deps extends AttachDeps {
  runUnitOfWork: RunUnitOfWork;
  signals: Pick<Signals, 'wakeHere'>;
  secrets: SecretBox;
  log: Logger;
}

type WorkByType = { readonly [Type in JobType]: JobWork<Type, unknown> };

function workByTypeOf(deps: Deps): WorkByType {
  return {
    CREATE_SOURCING_EVENT: createSourcingEvent,
    CREATE_SOURCING_EVENT_FROM_TEMPLATE: createSourcingEventFromTemplate,
    CREATE_SOURCING_REQUEST: createSourcingRequest,
    UPDATE_SOURCING_EVENT: updateSourcingEvent(deps),
    ATTACH_FILES_TO_SOURCING_EVENT: attachFilesToSourcingEvent(deps),
    ATTACH_FILES_TO_SOURCING_REQUEST: attachFilesToSourcingRequest(deps),
    GENERATE_FILE_DOWNLOAD_LINKS: generateDownloadLinks(deps),
  };
}

export type JobLane = Extract<ServiceLane, 'jobs' | 'file-jobs'>;

/** The lane that runs jobs of this type; its key is the organisation. */
export function jobLane(type: JobType): JobLane {
  return fetchingTypes.includes(type) ? 'file-jobs' : 'jobs';
}

/** Job types that wait for servers of others. */
const fetchingTypes: readonly JobType[] = ['ATTACH_FILES_TO_SOURCING_EVENT', 'ATTACH_FILES_TO_SOURCING_REQUEST'];
const typesOf = (lane: JobLane) => jobTypeNames.filter((type) => jobLane(type) === lane);

/** How long an organisation's jobs run before it is the turn of the next; the last one may take longer. */
const jobsTurnMs = 250;
/** A job that waits for other servers is a turn of its own. */
const fileJobsTurnMs = 0;
/** File jobs that run at once: each has some files in memory. */
const fileJobsAtOnce = 4;
/** Organisations whose next file job waits for its slot here, and not in the queue. */
const fileJobsWaiting = 60;
/** An organisation whose last file job took longer than this waits for slow servers, as its next one probably will. */
const slowFileJobMs = 5_000;
/** More slow organisations are not remembered: the first one is forgotten. */
const slowMax = 10_000;

/** Creates the worker of a lane, and says how many organisations it works on at once. */
export function createJobWorker(deps: Deps, lane: JobLane): { concurrency: number; work: Work } {
  const runNext = runNextJob(deps, lane);
  if (lane === 'jobs') return { concurrency: 2, work: inTurns(deps, { lane, turnMs: jobsTurnMs }, runNext) };
  return {
    concurrency: fileJobsAtOnce + fileJobsWaiting,
    work: inTurns(deps, { lane, turnMs: fileJobsTurnMs }, inFileSlots(deps.clock, runNext)),
  };
}

/** Organisations that wait for slow servers use half of the slots for file jobs: the others find the other half. */
function inFileSlots(clock: Clock, runNext: WorkOnNext): WorkOnNext {
  const slots = createFairSlots({ slots: fileJobsAtOnce, slotsEach: 1 });
  const slow = new Set<string>();
  return async (organisationId, signal) => {
    const free = await slots.enter(organisationId, { signal, doubtful: slow.has(organisationId) });
    const beganMs = clock.nowMs();
    try {
      return await runNext(organisationId, signal);
    } finally {
      free();
      slow.delete(organisationId);
      if (clock.nowMs() - beganMs >= slowFileJobMs) slow.add(organisationId);
      const [first] = slow;
      if (slow.size > slowMax && first !== undefined) slow.delete(first);
    }
  };
}

/** Returns what runs an organisation's next pending job, and returns false when it has none. */
function runNextJob(deps: Deps, lane: JobLane): WorkOnNext {
  const { runUnitOfWork, clock, log } = deps;
  const workByType = workByTypeOf(deps);
  const types = typesOf(lane);
  return async (organisationId, signal) => {
    const job = await readNext(deps.database, organisationId, types, timestampNow(clock));
    if (!job) return false;
    try {
      await runJob(runUnitOfWork, clock, job, workByType[job.type], signal);
    } catch (error) {
      if (isWorthRepeating(error) || signal.aborted) throw error;
      // An internal error also ends the job: if it stayed pending, no later job of its organisation would run.
      const known = toAppError(error);
      if (known.code === 'internal') log.error({ err: error, job: job.id }, 'job failed');
      await failJob(runUnitOfWork, job, known, clock);
    }
    return true;
  };
}

/** The organisations that have jobs to work on in the lane: the sweep wakes them. */
export async function organisationsWithJobs(sql: Sql, lane: JobLane, now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ organisation_id: string }>(
    `select distinct organisation_id from service.jobs j where ${isDue('$2')} and type = any($1)`,
    [typesOf(lane), now],
  );
  return rows.map((row) => row.organisation_id);
}

async function readNext(
  sql: Sql,
  organisationId: string,
  types: readonly JobType[],
  now: Timestamp,
): Promise<JobRow | undefined> {
  // Each half has an index of its own.
  const first = (condition: string) =>
    `(select id, organisation_id, type, payload, created_by, base_url, number from service.jobs
      where organisation_id = $1 and type = any($2) and ${condition} order by number limit 1)`;
  const [job] = await sql.query<JobRow>(
    `${first("status = 'PENDING'")} union all ${first("status = 'RUNNING' and due <= $3")} order by number limit 1`,
    [organisationId, types, now],
  );
  return job;
}

async function runJob(
  runUnitOfWork: RunUnitOfWork,
  clock: Clock,
  row: JobRow,
  work: JobWork<JobType, unknown>,
  signal: AbortSignal,
): Promise<void> {
  const job: JobContext = {
    id: row.id,
    organisationId: row.organisation_id,
    createdBy: row.created_by,
    baseUrl: row.base_url ?? '',
  };
  // It was valid when it was submitted, but a newer version of this program may have other rules.
  const payload = parseInput(jobTypes[row.type].payload, row.payload, 'The payload');
  const prepared = await work.prepare?.(payload, job, signal);
  await runUnitOfWork(async (unit) => {
    const now = timestampNow(clock);
    const locked = await lockDue(unit.tx, row.id, now);
    if (!locked) return;
    const result = await work.apply(unit, { payload, job, now, prepared, uploads: locked.uploads });
    if ('uploads' in result) await letWait(unit.tx, row.id, result);
    else await endJob(unit, row, clock, { status: 'COMPLETED', ...result });
  });
}

/** Locks the job, and returns its uploads; undefined when another process has worked on it since it was read. */
async function lockDue(
  tx: Sql,
  id: string,
  now: Timestamp,
): Promise<{ uploads: readonly NamedUpload[] | null } | undefined> {
  const [row] = await tx.query<{ uploads: readonly NamedUpload[] | null }>(
    `select uploads from service.jobs j where id = $1 and ${isDue('$2')} for update`,
    [id, now],
  );
  return row;
}

async function letWait(tx: Sql, id: string, { uploads, due, detail }: WaitForUploads): Promise<void> {
  await tx.query(`update service.jobs set status = 'RUNNING', uploads = $2, due = $3, detail = $4 where id = $1`, [
    id,
    JSON.stringify(uploads),
    due,
    JSON.stringify(detail),
  ]);
}

async function failJob(runUnitOfWork: RunUnitOfWork, job: JobRow, error: AppError, clock: Clock): Promise<void> {
  await runUnitOfWork(async (unit) => {
    if (await lockDue(unit.tx, job.id, timestampNow(clock)))
      await endJob(unit, job, clock, { status: 'FAILED', errors: errorsOf(error) });
  });
}

function errorsOf(error: AppError): Partial<Issue>[] {
  if (error.code === 'internal')
    return [{ message: 'The job failed because of a fault on our side. Submit it again.' }];
  if (error.issues.length === 0) return [{ message: error.publicMessage }];
  const shown = error.issues
    .slice(0, issuesMax)
    .map(({ path, message }) => (path === '' ? { message } : { path, message }));
  const left = error.issues.length - shown.length;
  return left > 0 ? [...shown, { message: `and ${left} more` }] : shown;
}

async function endJob(
  unit: UnitOfWork,
  job: JobRow,
  clock: Clock,
  end: { status: 'COMPLETED' | 'FAILED'; errors?: readonly Partial<Issue>[] } & JobResult,
): Promise<void> {
  await unit.tx.query(
    // The files of an attach job are megabytes that are never read again.
    `update service.jobs set status = $2, created_entity = $3, errors = $4, detail = $5,
       payload = case when payload ? 'files' then payload - 'files' else payload end
     where id = $1`,
    [
      job.id,
      end.status,
      end.createdEntity ?? null,
      end.errors ? JSON.stringify(end.errors) : null,
      end.detail ? JSON.stringify(end.detail) : null,
    ],
  );
  await enqueueNotifications(unit, { organisationId: job.organisation_id, now: timestampNow(clock) }, [
    { trigger: 'JOB_UPDATED', coalesces: false, payload: { job: job.id, type: job.type, status: end.status } },
  ]);
}
