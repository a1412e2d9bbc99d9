/**
 * What every manage answer carries beside its `result`. What is read comes with the change number of the same instant:
 * what it counts is in the answer, and the answer shows nothing that it does not count. Source: API document, "Response
 * envelopes".
 */
import type { Sql } from '#platform/database/database.ts';
import { type ListRequest, readList } from './list-envelope.ts';

/** Of the organisation $1. */
const gsnOfOrganisation =
  '(select coalesce(sum(changes), 0)::bigint from service.feed_heads where organisation_id = $1::uuid)';

/** The organisation's change sequence number: it grows with every change that a feed or the supplier list shows. */
export async function readGsn(sql: Sql, organisationId: string): Promise<number> {
  const [row] = await sql.query<{ gsn: number }>(`select ${gsnOfOrganisation} as gsn`, [organisationId]);
  return row?.gsn ?? 0;
}

function envelope<Result extends object>(endpoint: string, result: Result, gsn: number) {
  return { result, used_endpoints: [endpoint], gsn, includes: {}, extras: {} };
}

/** The envelope of what a call has just made. */
export async function manageReceipt(sql: Sql, organisationId: string, endpoint: string, result: object) {
  return envelope(endpoint, result, await readGsn(sql, organisationId));
}

/** The envelope of the one row that `select` gives; undefined where it gives none. Its $1 is the organisation. */
export async function readManageItem<Item extends object>(
  sql: Sql,
  request: { endpoint: string; select: string; params: readonly unknown[] },
  render: (row: never) => Item,
) {
  const [found] = await sql.query<{ item_gsn: number }>(
    `select ${gsnOfOrganisation} as item_gsn, item.* from (${request.select}) as item`,
    request.params,
  );
  if (!found) return undefined;
  const { item_gsn: gsn, ...row } = found;
  return envelope(request.endpoint, render(row as never), gsn);
}

/** The list envelope with the members of a manage answer. The list's $1 is the organisation. */
export async function readManageList<Item extends object>(
  sql: Sql,
  endpoint: string,
  request: ListRequest,
  render: (row: never) => Item,
) {
  const { list, beside } = await readList(sql, request, render, gsnOfOrganisation);
  return { ...list, ...envelope(endpoint, list.result, beside as number) };
}
