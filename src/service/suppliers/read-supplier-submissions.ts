import { z } from 'zod';
import { listQuery, manageItem, manageList } from '#contract/list.ts';
import { uuid } from '#contract/scalars.ts';
import { supplierSubmission } from '#contract/supplier.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { answerList } from '../list-envelope.ts';
import { readManageItem, readManageList } from '../manage-envelope.ts';
import { supplierChangesPath } from './submit-supplier-change.ts';

interface SubmissionRow {
  id: string;
  organisation: string;
  state: 'UNPROCESSED' | 'PROCESSED';
  state_errors: Record<string, string[]>;
  change_summary: { header: string; messages: string[] }[] | null;
  change_warnings: object[] | null;
  created_by: string;
  last_changed: Timestamp;
  user_name: string;
}

const selectSubmissions = `select s.id, s.organisation_id as organisation, s.state, s.state_errors, s.change_summary,
    s.change_warnings, coalesce(k.user_id, k.id) as created_by, s.last_changed,
    coalesce(k.user_name, k.name) as user_name, s.number
  from service.supplier_submissions s join service.api_keys k on k.id = s.created_by`;

const listSubmissionsQuery = z.strictObject(listQuery);

/** GET /api/manage/supplier_changes: the organisation's submissions, newest first. */
export const listSupplierSubmissions = endpoint<Caller, z.ZodUndefined, typeof listSubmissionsQuery>({
  method: 'GET',
  path: supplierChangesPath,
  scope: 'manage',
  limit: 'supplier_changes_read',
  summary: 'List supplier change submissions',
  answers: { 200: manageList(supplierSubmission) },
  query: listSubmissionsQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const body = await readManageList(
      unit.tx,
      supplierChangesPath,
      {
        select: `${selectSubmissions} where s.organisation_id = $1`,
        orderBy: 's.number desc',
        params: [organisationId],
        query,
        url: baseUrl + supplierChangesPath,
      },
      (row: SubmissionRow) => renderSubmission(row, baseUrl),
    );
    return answerList(body);
  },
});

/** GET /api/manage/supplier_changes/{uuid}: one submission with its outcome. */
export const readSupplierSubmission = endpoint<Caller>({
  method: 'GET',
  path: `${supplierChangesPath}/:uuid`,
  scope: 'manage',
  limit: 'supplier_changes_read',
  summary: 'Read a supplier change submission',
  answers: { 200: manageItem(supplierSubmission) },
  handle: async ({ params, baseUrl, caller: { unit, organisationId } }) => {
    const id = uuid.safeParse(params['uuid']);
    const body = id.success
      ? await readManageItem(
          unit.tx,
          {
            endpoint: `${supplierChangesPath}/{uuid}`,
            select: `${selectSubmissions} where s.organisation_id = $1 and s.id = $2`,
            params: [organisationId, id.data],
          },
          (row: SubmissionRow) => renderSubmission(row, baseUrl),
        )
      : undefined;
    if (!body) throw new AppError('not-found', 'There is no such supplier change submission.');
    return { status: 200, body };
  },
});

/** The submission as answers show it. It has no `file_name`, because this service takes no submissions from files. */
function renderSubmission(row: SubmissionRow, baseUrl: string): z.input<typeof supplierSubmission> {
  const isProcessed = row.state === 'PROCESSED';
  return {
    uuid: row.id,
    organisation: row.organisation,
    change_type: 'SUPPLIER_CHANGE',
    current_state: row.state,
    state: {
      current: row.state,
      errors: row.state_errors,
      is_transitioning: !isProcessed,
      attempts: isProcessed ? 1 : 0,
      parameters: {},
    },
    state_errors: row.state_errors,
    change_summary: row.change_summary,
    change_warnings: row.change_warnings,
    created_by: row.created_by,
    last_changed: row.last_changed,
    user_name: row.user_name,
    url: `${baseUrl}${supplierChangesPath}/${row.id}`,
  };
}
