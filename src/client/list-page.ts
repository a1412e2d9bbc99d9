/** Reads the service's lists page by page. Source: API document, "Response envelopes". */
import { z } from 'zod';
import { AppError } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';
import { nextQueryOf } from './next-page.ts';
import type { Send } from './send-call.ts';

export interface ListPage<Item> {
  readonly items: Item[];
  /** The number of items on all pages, when this page was made; undefined when the service does not state it. */
  readonly count: number | undefined;
  /** The query of the next page; undefined on the last one. */
  readonly next: string | undefined;
}

/** Reads one page of a list. `at.query` is the query of the first page, or the `next` of an earlier page. */
export type ReadList = <Item extends z.ZodType>(
  at: { path: string; query: string; item: Item },
  signal?: AbortSignal,
) => Promise<ListPage<z.output<Item>>>;

/** Only the members that reading needs: not every service sends the others. */
function envelopeOf<Item extends z.ZodType>(item: Item) {
  return z.looseObject({ result: z.array(item), count: z.number().nullish(), next: z.string().nullish() });
}

/** Creates the function that reads lists. It throws AppError as `Send` does, and `invalid` for a page of another form. */
export function createReadList(send: Send): ReadList {
  return async ({ path, query, item }, signal) => {
    const { body, headers } = await send({ method: 'GET', path: query === '' ? path : `${path}?${query}` }, signal);
    const { result, count, next } = parseInput(envelopeOf(item), body, `The answer to GET ${path}`);
    return { items: result, count: count ?? undefined, next: nextQueryOf(next, headers) };
  };
}

/**
 * Yields the pages of a list to its end. `read` reads the page of a query. A page that names no next page is not taken
 * for the last one as long as the list may go on: a service may put fewer items on a page than it was asked for, and name
 * the next page in a way that is not known here. The list has ended when as many items were shown as it counts, or when
 * the page of the next number shows nothing more. Throws as `read` does, and AppError `unavailable` for a pagination loop.
 * Example, of a list of 25 suppliers that is cut to 10 a page and does not count:
 *
 * | asked         | shown          | next                                       |
 * |---------------|----------------|--------------------------------------------|
 * | page_number=1 | 10             | none named: page 2 is asked for            |
 * | page_number=2 | 10             | none named: page 3 is asked for            |
 * | page_number=3 | 5              | none named: page 4 is asked for            |
 * | page_number=4 | none, or a 404 | the end                                    |
 */
export async function* readPages<Item>(
  read: (query: string) => Promise<ListPage<Item>>,
  firstQuery: string,
): AsyncGenerator<ListPage<Item>> {
  const asked = new Set<string>();
  let shown = 0;
  let before = '';
  for (let number = 1, query = firstQuery, isNamed = true; ; number += 1) {
    asked.add(query);
    const page: ListPage<Item> = await (isNamed ? read(query) : readBeyondEnd(read, query));
    // A list without pages shows the same items under every number.
    const items = JSON.stringify(page.items);
    if (!isNamed && (page.items.length === 0 || items === before)) return;
    before = items;
    shown += page.items.length;
    yield page;
    isNamed = page.next !== undefined;
    if (!isNamed && (page.items.length === 0 || (page.count !== undefined && shown >= page.count))) return;
    query = page.next ?? numbered(query, number + 1);
    if (isNamed && (page.items.length === 0 || asked.has(query)))
      throw new AppError('unavailable', 'The pages of the list loop: "next" returns nothing new.', {
        recovery: { do: 'halt' },
      });
  }
}

/** The query of the page with this number. */
function numbered(query: string, number: number): string {
  const next = new URLSearchParams(query);
  next.set('page_number', String(number));
  return next.toString();
}

/** Many services refuse a number beyond the last page. */
async function readBeyondEnd<Item>(
  read: (query: string) => Promise<ListPage<Item>>,
  query: string,
): Promise<ListPage<Item>> {
  try {
    return await read(query);
  } catch (error) {
    const isRefused = error instanceof AppError && (error.code === 'not-found' || error.code === 'invalid');
    if (!isRefused || error.issues.length > 0) throw error;
    return { items: [], count: undefined, next: undefined };
  }
}

/** A query of the members that are not undefined. */
export function queryOf(members: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value !== undefined) query.set(name, String(value));
  return query.toString();
}
