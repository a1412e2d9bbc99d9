import type { z } from 'zod';
import { manageItem, manageList } from '#contract/list.ts';
import { listSuppliersQuery, supplier } from '#contract/supplier.ts';
import { AppError } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { answerList } from '../list-envelope.ts';
import { readManageItem, readManageList } from '../manage-envelope.ts';

const path = '/api/manage/suppliers';

type Supplier = z.infer<typeof supplier>;

/** The columns of an answer, from `page`, which has a supplier's row. */
const shown = `external_id, name, fields, archived,
  coalesce((select json_agg(json_build_object('name', c.name, 'email', c.email) order by c.email_key)
            from service.supplier_contacts c where c.supplier_id = page.id), '[]') as contacts`;

/**
 * GET /api/manage/suppliers: the organisation's suppliers in the order of `external_id`, archived ones included unless
 * the query filters them out.
 */
export const listSuppliers = endpoint<Caller, z.ZodUndefined, typeof listSuppliersQuery>({
  method: 'GET',
  path,
  scope: 'manage',
  limit: 'suppliers',
  summary: 'List suppliers',
  answers: { 200: manageList(supplier) },
  query: listSuppliersQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const { archived, name, external_id: externalId, modified_after: modifiedAfter } = query;
    const body = await readManageList(
      unit.tx,
      path,
      {
        select: `select id, external_id, name, fields, archived from service.suppliers
                 where organisation_id = $1 and ($2::boolean is null or archived = $2)
                   and ($3::text is null or name = $3) and ($4::text is null or external_id = $4)
                   and ($5::timestamptz is null or modified >= $5)`,
        shown,
        orderBy: 'external_id',
        params: [organisationId, archived ?? null, name ?? null, externalId ?? null, modifiedAfter ?? null],
        query,
        url: baseUrl + path,
        filters: { archived: archived?.toString(), name, external_id: externalId, modified_after: modifiedAfter },
      },
      (row: Supplier) => row,
    );
    return answerList(body);
  },
});

/**
 * GET /api/manage/suppliers/{external_id}: one supplier. Any character of the id may be percent-encoded; a slash must
 * be.
 */
export const readSupplier = endpoint<Caller>({
  method: 'GET',
  path: `${path}/:external_id`,
  scope: 'manage',
  limit: 'suppliers',
  summary: 'Read a supplier',
  answers: { 200: manageItem(supplier) },
  handle: async ({ params, caller: { unit, organisationId } }) => {
    const body = await readManageItem(
      unit.tx,
      {
        endpoint: `${path}/{external_id}`,
        select: `select ${shown} from service.suppliers as page where organisation_id = $1 and external_id = $2`,
        params: [organisationId, params['external_id']],
      },
      (row: Supplier) => row,
    );
    if (!body) throw new AppError('not-found', 'There is no such supplier.');
    return { status: 200, body };
  },
});
