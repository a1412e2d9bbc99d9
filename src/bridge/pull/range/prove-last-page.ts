/**
 * Finds out whether a full page without `next` is the last one where no shorter window can tell, as its records share a
 * stamp: it is asked for in other sizes. Example of a page of 30 records, where 200 were asked for:
 *
 * | asked for | answer          | what it says                                                            |
 * |-----------|-----------------|-------------------------------------------------------------------------|
 * | 30        | 30, next        | more follow: this service names a next page only to a page of that size |
 * |           | 30              | go on                                                                   |
 * | 29        | 29, next        | the service names a next page where more follow: the page of 30 is whole |
 * |           | 29              | it names none: whether more follow cannot be known                      |
 * |           | 30, or refused  | it keeps no other size: whether more follow cannot be known             |
 */
import { isRefusal } from './range-types.ts';

interface Page {
  readonly records: readonly unknown[];
  readonly next: string | undefined;
}

/** Records may change between two answers, so one attempt proves nothing. */
const attemptsMax = 3;

/**
 * `size` is the number of records on the page, `ask` asks for the same records in pages of another size. Returns `last`, a
 * page that names the next one, or undefined where neither can be had. Rejects as `ask` does.
 */
export async function proveLastPage<Answer extends Page>(
  ask: (pageSize: number) => Promise<Answer>,
  size: number,
  requested: number,
): Promise<'last' | Answer | undefined> {
  const askOrRefusal = (pageSize: number) => ask(pageSize).catch((error: unknown) => refusalOf(error));
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    if (attempt > 1 || size !== requested) {
      const same = await askOrRefusal(size);
      if (same?.next !== undefined) return same;
      if (same !== undefined && same.records.length < size) return 'last';
    }
    const fewer = await askOrRefusal(Math.max(1, size - 1));
    if (fewer === undefined || fewer.records.length >= size) return size === 1 ? 'last' : undefined;
    if (fewer.next !== undefined) return 'last';
  }
  return undefined;
}

function refusalOf(error: unknown): undefined {
  if (isRefusal(error)) return undefined;
  throw error;
}
