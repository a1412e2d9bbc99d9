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
    // Of two at once with one name, the second waits for the row, and finds the name.
    const added = await unit.tx.query(
      `update service.organisations set supplier_attributes = supplier_attributes || $2::text
       where id = $1 and $2 <> all(supplier_attributes) returning 1`,
      [organisation, body.name],
    );
    if (added.length === 0) throw new AppError('conflict', 'This attribute exists already.');
    return { status: 201, body: { name: body.name } };
  },
});
