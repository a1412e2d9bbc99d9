import { uuid } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { manageEnvelope } from '../manage-envelope.ts';
import { supplierChangesPath } from './submit-supplier-change.ts';

interface SubmissionRow {
  id: string;
  state: 'UNPROCESSED' | 'PROCESSED';
  state_errors: object;
  change_summary: object[] | null;
  change_warnings: object[] | null;
  created_by: string;
  last_changed: Timestamp;
  user_name: string;
}

/** GET: one submission with what became of it. */
export const readSupplierSubmission = endpoint<Caller>({
  method: 'GET',
  path: `${supplierChangesPath}/:uuid`,
  scope: 'manage',
  handle: async ({ params, baseUrl, caller: { unit, organisationId } }) => {
    const id = uuid.safeParse(params['uuid']);
    const [row] = id.success
      ? await unit.tx.query<SubmissionRow>(
          `select s.id, s.state, s.state_errors, s.change_summary, s.change_warnings, s.created_by,
             s.last_changed, k.name as user_name
           from service.supplier_submissions s join service.api_keys k on k.id = s.created_by
           where s.id = $1 and s.organisation_id = $2`,
          [id.data, organisationId],
        )
      : [];
    if (!row) throw new AppError('not-found', 'There is no such supplier change submission.');
    const result = {
      uuid: row.id,
      current_state: row.state,
      state_errors: row.state_errors,
      change_summary: row.change_summary,
      change_warnings: row.change_warnings,
      created_by: row.created_by,
      last_changed: row.last_changed,
      user_name: row.user_name,
      url: `${baseUrl}${supplierChangesPath}/${row.id}`,
    };
    return {
      status: 200,
      body: await manageEnvelope(unit.tx, organisationId, [`${supplierChangesPath}/{uuid}`], result),
    };
  },
});
