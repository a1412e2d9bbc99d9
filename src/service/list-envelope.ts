/** The list envelope of the contract: numbered pages over a counted query. Lists are short; feeds page by key. */
import type { Sql } from '#platform/database/database.ts';

export interface ListRequest {
  /** A select over one organisation's rows, without `limit`; its parameters are $1..$n. */
  select: string;
  /** What a row shows, computed for the rows of the page only, which is called `page`. Left out: what it selects. */
  shown?: string;
  /** Must tell all rows apart, so that none moves between pages. */
  orderBy: string;
  params: readonly unknown[];
  query: { page_number: number; page_size: number };
  /** Absolute, without query. */
  url: string;
  /** Filters to keep in the links. */
  filters?: Readonly<Record<string, string | undefined>>;
}

/** Reads one page and counts the rest at the same instant; `next` and `previous` are absolute links that keep the filters. */
export async function renderList<Item extends object>(sql: Sql, request: ListRequest, render: (row: never) => Item) {
  return (await readList(sql, request, render, 'null')).list;
}

/** The envelope, and the value of another expression over the parameters at that instant. */
export async function readList<Item extends object>(
  sql: Sql,
  request: ListRequest,
  render: (row: never) => Item,
  beside: string,
) {
  const { page_number: page, page_size: size } = request.query;
  // On the left: a page beyond the end has no rows, and is counted all the same.
  const rows = await sql.query<{ list_count: number; list_beside: unknown; on_page: true | null }>(
    `with page as materialized
       (${request.select} order by ${request.orderBy} limit ${size} offset ${(page - 1) * size})
     select counted.*, page.*
     from (select count(*) as list_count, ${beside} as list_beside from (${request.select}) as listed) as counted
     left join (select true as on_page, ${request.shown ?? 'page.*'} from page) as page on true`,
    request.params,
  );
  const count = rows[0]?.list_count ?? 0;
  const pages = Math.max(1, Math.ceil(count / size));
  const link = (number: number) => {
    const query = new URLSearchParams({ page_number: String(number), page_size: String(size) });
    for (const [name, value] of Object.entries(request.filters ?? {})) if (value !== undefined) query.set(name, value);
    return `${request.url}?${query.toString()}`;
  };
  const list = {
    result: rows.flatMap(({ list_count: _count, list_beside: _beside, on_page: isRow, ...row }) =>
      isRow ? [render(row as never)] : [],
    ),
    count,
    page_size: size,
    page_number: page,
    num_pages: pages,
    next: page < pages ? link(page + 1) : null,
    previous: page > 1 ? link(Math.min(page - 1, pages)) : null,
  };
  return { list, beside: rows[0]?.list_beside };
}
