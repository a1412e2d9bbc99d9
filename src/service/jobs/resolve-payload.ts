import type { Issue } from '#contract/issue.ts';
import type { CreateSourcingEventPayload } from '#contract/sourcing-event.ts';
import type { Sql } from '#platform/database/sql.ts';
import { emailKey } from '../domain/supplier-change.ts';
import type { ResolvedPayload } from '../events/write-event.ts';
import { refuse } from './refuse.ts';

/**
 * Looks up the suppliers, contacts and sourcing requests that a payload names. The event also serves the requests that
 * its lots name. Throws `invalid` with an issue for each that does not exist in this organisation, and for each
 * archived supplier that is not `invited` already.
 */
export async function resolvePayload(
  sql: Sql,
  organisationId: string,
  payload: CreateSourcingEventPayload,
  invited: ReadonlySet<string> = new Set(),
): Promise<ResolvedPayload> {
  const issues: Issue[] = [];
  const suppliers = await findSuppliers(sql, organisationId, payload);
  const invitations = payload.suppliers.flatMap(({ external_id: externalId, contacts }, index) => {
    const path = `suppliers[${index}]`;
    const supplier = suppliers.get(externalId);
    if (!supplier || (supplier.archived && !invited.has(externalId))) {
      const message = supplier ? `supplier "${externalId}" is archived` : `there is no supplier "${externalId}"`;
      issues.push({ path: `${path}.external_id`, message });
      return [];
    }
    const keys = contacts?.map(emailKey) ?? null;
    for (const [at, key] of (keys ?? []).entries())
      if (!supplier.emailKeys.includes(key))
        issues.push({ path: `${path}.contacts[${at}]`, message: `is no contact of supplier "${externalId}"` });
    return [{ supplierId: supplier.id, contacts: keys }];
  });
  const named = [
    ...payload.sourcing_requests.map((id, index) => ({ id, path: `sourcing_requests[${index}]` })),
    ...payload.bid_sheet.lots.flatMap(({ sourcing_request: id }, index) =>
      id === undefined ? [] : [{ id, path: `bid_sheet.lots[${index}].sourcing_request` }],
    ),
  ];
  const sourcingRequests = [...new Set(named.map(({ id }) => id))];
  const known = await findRequests(sql, organisationId, sourcingRequests);
  for (const { id, path } of named)
    if (!known.has(id)) issues.push({ path, message: 'there is no such sourcing request' });
  refuse(issues);
  return { payload, invitations, sourcingRequests };
}

async function findSuppliers(sql: Sql, organisationId: string, { suppliers }: CreateSourcingEventPayload) {
  const rows = await sql.query<{ id: string; external_id: string; archived: boolean; emailKeys: string[] }>(
    `select id, external_id, archived,
       array(select email_key from service.supplier_contacts where supplier_id = s.id) as "emailKeys"
     from service.suppliers s where organisation_id = $1 and external_id = any($2)`,
    [organisationId, suppliers.map((supplier) => supplier.external_id)],
  );
  return new Map(rows.map((row) => [row.external_id, row]));
}

async function findRequests(sql: Sql, organisationId: string, ids: readonly string[]): Promise<Set<string>> {
  const rows = await sql.query<{ id: string }>(
    'select id from service.sourcing_requests where organisation_id = $1 and id = any($2)',
    [organisationId, ids],
  );
  return new Set(rows.map(({ id }) => id));
}
