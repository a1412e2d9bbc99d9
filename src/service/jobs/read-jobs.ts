import type { z } from 'zod';
import { type JobType, job, jobPathsOf, jobTypeNames, listJobsQuery } from '#contract/job.ts';
import { manageList } from '#contract/list.ts';
import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { type Endpoint, endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { answerList } from '../list-envelope.ts';
import { readManageList } from '../manage-envelope.ts';

const path = '/api/jobs';

interface JobRow {
  id: string;
  type: string;
  status: string;
  created: Timestamp;
  created_entity: string | null;
  errors: { path?: string; message: string }[] | null;
  detail: z.input<typeof job>['detail'] | null;
}

const selectJobs = 'select id, type, status, created, created_entity, errors, detail from service.jobs';

/** GET /api/jobs: the organisation's jobs, newest first. */
export const listJobs = endpoint<Caller, z.ZodUndefined, typeof listJobsQuery>({
  method: 'GET',
  path,
  scope: 'jobs',
  limit: 'jobs_read',
  summary: 'List jobs',
  answers: { 200: manageList(job) },
  query: listJobsQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const { type, status, created_after: createdAfter, created_before: createdBefore } = query;
    // Only the filters that were given: the index then yields the range and the order of each of these statements.
    const params: unknown[] = [organisationId];
    const given = (condition: string, value: unknown) =>
      value === undefined ? '' : ` and ${condition} $${params.push(value)}`;
    const where =
      given('type =', type) +
      given('status =', status) +
      given('created >=', createdAfter) +
      given('created <=', createdBefore);
    const body = await readManageList(
      unit.tx,
      path,
      {
        select: `${selectJobs} where organisation_id = $1${where}`,
        orderBy: 'created desc, number desc',
        params,
        query,
        url: baseUrl + path,
        filters: { type, status, created_after: createdAfter, created_before: createdBefore },
      },
      renderJob,
    );
    return answerList(body);
  },
});

/** GET /api/jobs/{id}: the job directly, without an envelope. */
export const readJob = readJobUnder(path, 'Read a job', jobTypeNames);

/** GET /api/jobs/{type's path}/{id}: as `readJob`, but only for jobs of that type. */
export const readJobsOfType = jobTypeNames.flatMap((type) =>
  jobPathsOf(type).map((last) => readJobUnder(`${path}/${last}`, `Read a job of type ${type}`, [type])),
);

function readJobUnder(folder: string, summary: string, types: readonly JobType[]): Endpoint<Caller> {
  return endpoint<Caller>({
    method: 'GET',
    path: `${folder}/:id`,
    scope: 'jobs',
    limit: 'jobs_read',
    summary,
    answers: { 200: job },
    handle: async ({ params, caller: { unit, organisationId } }) => ({
      status: 200,
      body: await findJob(unit.tx, organisationId, params['id'], types),
    }),
  });
}

async function findJob(sql: Sql, organisationId: string, id: string | undefined, types: readonly JobType[]) {
  const parsed = uuid.safeParse(id);
  const [row] = parsed.success
    ? await sql.query<JobRow>(`${selectJobs} where organisation_id = $1 and id = $2 and type = any($3)`, [
        organisationId,
        parsed.data,
        types,
      ])
    : [];
  if (!row)
    throw new AppError(
      'not-found',
      types.length === 1 ? `There is no such job of type ${types[0]}.` : 'There is no such job.',
    );
  return renderJob(row);
}

function renderJob({ id, type, status, created, created_entity, errors, detail }: JobRow): z.input<typeof job> {
  return {
    id,
    type,
    status,
    created,
    ...(created_entity && { created_entity }),
    ...(errors && { errors }),
    ...(detail && { detail }),
  };
}
