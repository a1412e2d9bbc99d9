/** The list envelope of the contract: numbered pages and a count. It suits short lists; feeds page by key instead. */
import type { Sql } from '#platform/database/sql.ts';
import type { Answer } from '#platform/http/endpoint.ts';

export interface ListRequest {
  /** A select over one organisation's rows, without `limit`; its parameters are $1..$n. */
  select: string;
  /**
   * The columns to return, computed only for the rows of the page, which is named `page`. Default: those of `select`.
   */
  shown?: string;
  /** Must be a total order: with equal rows, a row could be on two pages or on none. */
  orderBy: string;
  params: readonly unknown[];
  query: { page_number: number; page_size: number };
  /** The list's absolute URL, without a query. */
  url: string;
  /** Query parameters that the links keep. */
  filters?: Readonly<Record<string, string | undefined>>;
}

/** The header that names the next page (RFC 8288); none on the last page. */
export function linkToNext(next: string | null): Record<string, string> {
  return next === null ? {} : { Link: `<${next}>; rel="next"` };
}

/** The answer that is a page of a list. */
export function answerList(list: { readonly next: string | null }): Answer {
  return { status: 200, headers: linkToNext(list.next), body: list };
}

/**
 * Reads one page and counts all rows at the same instant; `next` and `previous` are absolute links that keep the
 * filters.
 */
export async function renderList<Item extends object>(sql: Sql, request: ListRequest, render: (row: never) => Item) {
  return (await readList(sql, request, render, 'null')).list;
}

/**
 * Returns the envelope, and the value of the SQL expression `beside` (over the same parameters) at the same instant.
 */
export async function readList<Item extends object>(
  sql: Sql,
  request: ListRequest,
  render: (row: never) => Item,
  beside: string,
) {
  const { page_number: page, page_size: size } = request.query;
  // The count is on the left of the join: a page beyond the end has no rows, but still has the count.
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
