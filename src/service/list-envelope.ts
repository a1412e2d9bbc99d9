/** The list envelope of the contract: numbered pages over a counted query. Lists are short; feeds page by key. */
import type { Sql } from '#platform/database/database.ts';

export interface ListRequest {
  /** A select over one organisation's rows, without `limit`; its parameters are $1..$n. */
  select: string;
  orderBy: string;
  params: readonly unknown[];
  query: { page_number: number; page_size: number };
  /** Absolute, without query. */
  url: string;
  /** Filters to keep in the links. */
  filters?: Readonly<Record<string, string | undefined>>;
}

/** Reads one page and counts the rest; `next` and `previous` are absolute links that keep the filters. */
export async function listEnvelope(sql: Sql, request: ListRequest, render: (row: never) => object) {
  const { page_number: page, page_size: size } = request.query;
  const [counted] = await sql.query<{ count: number }>(
    `select count(*) as count from (${request.select}) as listed`,
    request.params,
  );
  const count = counted?.count ?? 0;
  const rows = await sql.query<never>(
    `${request.select} order by ${request.orderBy} limit ${size} offset ${(page - 1) * size}`,
    request.params,
  );
  const pages = Math.max(1, Math.ceil(count / size));
  const link = (number: number) => {
    const query = new URLSearchParams({ page_number: String(number), page_size: String(size) });
    for (const [name, value] of Object.entries(request.filters ?? {})) if (value !== undefined) query.set(name, value);
    return `${request.url}?${query.toString()}`;
  };
  return {
    result: rows.map(render),
    count,
    page_size: size,
    page_number: page,
    num_pages: pages,
    next: page < pages ? link(page + 1) : null,
    previous: page > 1 ? link(Math.min(page - 1, pages)) : null,
  };
}
