import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';

interface JobRow {
  id: string;
  type: string;
  status: string;
  created: Timestamp;
  created_entity: string | null;
  errors: object[] | null;
}

/** GET /api/jobs/{id}: the job directly, without an envelope. */
export const readJob = endpoint<Caller>({
  method: 'GET',
  path: '/api/jobs/:id',
  scope: 'jobs',
  handle: async ({ params, caller: { unit, organisationId } }) => {
    const id = uuid.safeParse(params['id']);
    const [row] = id.success
      ? await unit.tx.query<JobRow>(
          `select id, type, status, created, created_entity, errors from service.jobs
           where id = $1 and organisation_id = $2`,
          [id.data, organisationId],
        )
      : [];
    if (!row) throw new AppError('not-found', 'There is no such job.');
    const { created_entity: createdEntity, errors, ...job } = row;
    return {
      status: 200,
      body: { ...job, ...(createdEntity && { created_entity: createdEntity }), ...(errors && { errors }) },
    };
  },
});
