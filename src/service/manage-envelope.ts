/**
 * The members that every manage answer has beside its `result`. A read returns the rows and the change number (`gsn`)
 * of one instant: the answer shows exactly the changes that its number counts. Source: API document, "Response
 * envelopes".
 */
import type { Sql } from '#platform/database/sql.ts';
import { type ListRequest, readList } from './list-envelope.ts';

/** SQL: the change number of the organisation $1. It grows with every change that a feed or the supplier list shows. */
const gsnOfOrganisation =
  '(select coalesce(sum(changes), 0)::bigint from service.feed_heads where organisation_id = $1::uuid)';

function envelope<Result extends object>(endpoint: string, result: Result, gsn: number) {
  return { result, used_endpoints: [endpoint], gsn, includes: {}, extras: {} };
}

/** The envelope of an object that a call has just created. */
export async function manageReceipt(sql: Sql, organisationId: string, endpoint: string, result: object) {
  const [row] = await sql.query<{ gsn: number }>(`select ${gsnOfOrganisation} as gsn`, [organisationId]);
  return envelope(endpoint, result, row?.gsn ?? 0);
}

/** The envelope of the one row that `select` returns, or undefined when it returns none. Its $1 is the organisation. */
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
