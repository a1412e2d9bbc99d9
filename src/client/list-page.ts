/** Reads the service's lists page by page. Source: API document, "Response envelopes". */
import { z } from 'zod';
import { queryOfNext } from './read-feed.ts';
import type { CallApi } from './send-call.ts';

export interface ListPage<Item> {
  readonly items: Item[];
  /** The number of items on all pages, when this page was made; undefined when the service does not state it. */
  readonly count: number | undefined;
  /** The query of the next page; undefined on the last one. */
  readonly next: string | undefined;
}

/** Only the members that reading needs: not every service sends the others. */
function envelopeOf<Item extends z.ZodType>(item: Item) {
  return z.looseObject({ result: z.array(item), count: z.number().nullish(), next: z.string().nullish() });
}

/** Reads one page of a list. `at.query` is the query of the first page, or the `next` of an earlier page. */
export async function readListPage<Item extends z.ZodType>(
  call: CallApi,
  at: { path: string; query: string; item: Item },
  signal?: AbortSignal,
): Promise<ListPage<z.output<Item>>> {
  const path = at.query === '' ? at.path : `${at.path}?${at.query}`;
  const { result, count, next } = await call({ method: 'GET', path }, envelopeOf(at.item), signal);
  return { items: result, count: count ?? undefined, next: queryOfNext(next) };
}

/** A query of the members that are not undefined. */
export function queryOf(members: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value !== undefined) query.set(name, String(value));
  return query.toString();
}
