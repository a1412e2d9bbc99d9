import { randomUUID } from 'node:crypto';
import type { Issue } from '#contract/issue.ts';
import { type JobPayload, type JobType, job, jobPathsOf, jobRequest, jobTypeNames, jobTypes } from '#contract/job.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { type Answer, type Call, type Endpoint, endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { checkEventChanges, checkEventPayload } from '../domain/event-payload.ts';
import { jobLane } from './run-jobs.ts';

interface Deps {
  clock: Clock;
}

const summaries: Readonly<Record<JobType, string>> = {
  CREATE_SOURCING_EVENT: 'Create a sourcing event',
  CREATE_SOURCING_EVENT_FROM_TEMPLATE: 'Create a sourcing event from a template',
  CREATE_SOURCING_REQUEST: 'Create a sourcing request',
  UPDATE_SOURCING_EVENT: 'Update a sourcing event',
  ATTACH_FILES_TO_SOURCING_REQUEST: 'Attach files to a sourcing request',
  ATTACH_FILES_TO_SOURCING_EVENT: 'Attach files to a sourcing event',
  GENERATE_FILE_DOWNLOAD_LINKS: 'Generate download links for files',
};

/**
 * Checks of the body beyond its schema that need no database. Every other fault is found when the job runs, and fails
 * it.
 */
const checks: { [Type in JobType]?: (payload: JobPayload<Type>) => Issue[] } = {
  CREATE_SOURCING_EVENT: (payload) => checkEventPayload(payload),
  CREATE_SOURCING_EVENT_FROM_TEMPLATE: ({ template: _template, template_sourcing_event_id: _event, ...changes }) =>
    checkEventChanges(changes),
  UPDATE_SOURCING_EVENT: ({ sourcing_event: _event, ...changes }) => checkEventChanges(changes),
};

function limitOf(type: unknown) {
  return type === 'GENERATE_FILE_DOWNLOAD_LINKS' ? 'file_links' : 'jobs_write';
}

/** POST /api/jobs/{type's path}: submits a job of that type. */
export function submitJobs(deps: Deps): Endpoint<Caller>[] {
  return jobTypeNames.flatMap((type) => {
    const { payload } = jobTypes[type];
    return jobPathsOf(type).map((path) =>
      endpoint<Caller, typeof payload>({
        method: 'POST',
        path: `/api/jobs/${path}`,
        scope: 'jobs',
        limit: limitOf(type),
        summary: summaries[type],
        answers: { 202: job },
        body: payload,
        nullsAreLeftOut: true,
        check: (body) => checks[type]?.(body as never) ?? [],
        handle: (call) => submit(deps, type, call.body, call),
      }),
    );
  });
}

/**
 * POST /api/jobs: submits a job of any type. It counts against the limit of that type; a body that is too large for a
 * link job counts as another job, before it is read.
 */
export function submitJob(deps: Deps) {
  return endpoint<Caller, typeof jobRequest>({
    method: 'POST',
    path: '/api/jobs',
    scope: 'jobs',
    limitOf: (body) => limitOf(typeof body === 'object' && body !== null && 'type' in body ? body.type : undefined),
    summary: 'Submit a job of any type',
    answers: { 202: job },
    body: jobRequest,
    nullsAreLeftOut: true,
    check: ({ type, ...payload }) => checks[type]?.(payload as never) ?? [],
    handle: (call) => {
      const { type, ...payload } = call.body;
      return submit(deps, type, payload, call);
    },
  });
}

async function submit(
  { clock }: Deps,
  type: JobType,
  payload: object,
  { caller: { unit, organisationId, apiKeyId }, baseUrl }: Pick<Call<Caller, unknown, unknown>, 'caller' | 'baseUrl'>,
): Promise<Answer> {
  const id = randomUUID();
  const created = timestampNow(clock);
  await unit.tx.query(
    `insert into service.jobs (id, organisation_id, type, status, payload, created_by, created, base_url)
     values ($1, $2, $3, 'PENDING', $4, $5, $6, $7)`,
    [id, organisationId, type, JSON.stringify(payload), apiKeyId, created, baseUrl],
  );
  unit.wake(jobLane(type), organisationId);
  return {
    status: 202,
    headers: { Location: `${baseUrl}/api/jobs/${id}` },
    body: { id, type, status: 'PENDING', created },
  };
}
