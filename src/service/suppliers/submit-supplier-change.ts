import { randomUUID } from 'node:crypto';
import { manageItem } from '#contract/list.ts';
import { submissionReceipt, supplierChangeRequest } from '#contract/supplier.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { manageReceipt } from '../manage-envelope.ts';

export const supplierChangesPath = '/api/manage/supplier_changes';

/**
 * POST /api/manage/supplier_changes: stores a submission. The worker applies it later, exactly once, in the order of
 * submission.
 */
export function submitSupplierChange({ clock }: { clock: Clock }) {
  return endpoint<Caller, typeof supplierChangeRequest>({
    method: 'POST',
    path: supplierChangesPath,
    scope: 'manage',
    limit: 'supplier_changes_write',
    summary: 'Create, update, archive suppliers',
    answers: { 202: manageItem(submissionReceipt) },
    body: supplierChangeRequest,
    handle: async ({ body, baseUrl, caller: { unit, organisationId, apiKeyId } }) => {
      const id = randomUUID();
      await unit.tx.query(
        `insert into service.supplier_submissions
           (id, organisation_id, state, suppliers, created_by, created, last_changed)
         values ($1, $2, 'UNPROCESSED', $3, $4, $5, $5)`,
        [id, organisationId, JSON.stringify(body.change_data.suppliers), apiKeyId, timestampNow(clock)],
      );
      unit.wake('supplier-changes', organisationId);
      const result = { url: `${baseUrl}${supplierChangesPath}/${id}`, uuid: id };
      const receipt = await manageReceipt(unit.tx, organisationId, supplierChangesPath, result);
      return { status: 202, headers: { Location: result.url }, body: receipt };
    },
  });
}
