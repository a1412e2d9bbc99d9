import { randomUUID } from 'node:crypto';
import { createSupplierAttributeRequest, supplierAttributeAnswer } from '#contract/admin.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import { findOrganisation } from './find-organisation.ts';

/**
 * POST /admin/organisations/{id}/supplier-attributes: creates a name that `fields` of a supplier may use. The public
 * API has no call for it. Throws `conflict` when the name exists.
 */
export const createSupplierAttribute = endpoint<Operator, typeof createSupplierAttributeRequest>({
  method: 'POST',
  path: '/admin/organisations/:id/supplier-attributes',
  scope: 'operator',
  summary: 'Create a supplier attribute',
  answers: { 201: supplierAttributeAnswer },
  body: createSupplierAttributeRequest,
  handle: async ({ body, params, caller: { unit } }) => {
    const organisation = await findOrganisation(unit.tx, params['id']);
    const rows = await unit.tx.query<{ id: string; name: string }>(
      `insert into service.supplier_attributes (id, organisation_id, name) values ($1, $2, $3)
       on conflict (organisation_id, name) do nothing returning id, name`,
      [randomUUID(), organisation, body.name],
    );
    if (!rows[0]) throw new AppError('conflict', 'This attribute exists already.');
    return { status: 201, body: rows[0] };
  },
});
