/**
 * Follows `next` from a window of a scan. Pages that show no record and yet name a next page say nothing about the end:
 * a service that hides records from a key after it has cut the page sends them. They are followed up to a limit. Waits for
 * the quota do not count: where a minute's requests do not suffice for the pages, they are followed over several minutes.
 */
import type { Bounds } from '../feed/time-range.ts';
import { type ScannedRow, ScanStopped, type WindowAnswer, type WindowScan } from './scan-types.ts';

/** So many pages may follow each other that show only rows of pages before them. */
const repeatedPagesMax = 20;

/**
 * Yields the pages from `first` on, which was asked for with these bounds. Throws ScanStopped when the pages loop, or
 * too many of them are empty.
 */
export async function* followPages<Row extends ScannedRow>(
  scan: Pick<WindowScan<Row>, 'ask' | 'emptyPages'>,
  bounds: Bounds,
  first: WindowAnswer<Row>,
): AsyncGenerator<WindowAnswer<Row>> {
  const links = new Set<string>();
  const ids = new Set<string>();
  let emptyPages = 0;
  let emptyMs = 0;
  let repeatedPages = 0;
  for (let answer = first; ; ) {
    const known = ids.size;
    for (const row of answer.records) ids.add(row.id);
    yield answer;
    const { next } = answer;
    if (next === undefined) return;
    repeatedPages = answer.records.length > 0 && ids.size === known ? repeatedPages + 1 : 0;
    if (links.has(next) || repeatedPages > repeatedPagesMax)
      throw new ScanStopped(bounds, 'its pages loop: "next" returns nothing new');
    if (answer.records.length > 0) {
      emptyPages = 0;
      emptyMs = 0;
    } else {
      emptyPages += 1;
      emptyMs += answer.tookMs;
      if (emptyPages >= scan.emptyPages.count || emptyMs > scan.emptyPages.ms)
        throw new ScanStopped(
          bounds,
          `${emptyPages} pages in a row show no record and name a next page; empty_pages and empty_pages_seconds of ` +
            'the source decide how many are followed',
        );
    }
    links.add(next);
    answer = await scan.ask({ next });
  }
}
