/**
 * Decides whether an answer without rows and without `next` counts: a service may answer "200, no rows" while its index
 * is away. Example: the window (10:00:00, 10:05:00] was answered with nothing.
 *
 * | then asked                       | answer                        | verdict                                            |
 * |----------------------------------|-------------------------------|-------------------------------------------------|
 * | from 09:59:59 on, no upper bound | A 10:03:00                    | not empty: A should have been shown             |
 * |                                  | B 10:07:00, C 10:09:00        | empty: in order, and the first row lies later   |
 * |                                  | C 10:09:00, B 10:07:00, next  | there are rows: the window is asked once more   |
 * |                                  | no row, but a next page       | pages are followed; if none shows a row: as before |
 * |                                  | no row                        | the row before is asked for, as follows         |
 * | from the row before, 09:58, on   | that row, no `next`           | empty: the feed is there, and this is all       |
 * |                                  | no row                        | unproven: the feed answers with nothing at all  |
 */
import type { Timestamp } from '#contract/timestamp.ts';
import { microsFromTimestamp } from '#contract/timestamp.ts';
import type { Bounds, Range } from '../feed/time-range.ts';
import { followPages } from './follow-pages.ts';
import {
  at,
  isAscending,
  isRefusal,
  isTimed,
  isWithin,
  type ScannedRow,
  ScanStopped,
  type WindowAnswer,
  type WindowScan,
} from './scan-types.ts';

type Verdict = 'empty' | 'not empty' | 'unproven';

/** What a scan knows of the feed so far. */
export interface Known {
  readonly granularity: number;
  /** A stamp at which this scan has seen a row: the feed must show it. */
  readonly anchor: Timestamp | undefined;
  /** Asked from `after` on, the feed has shown its rows in order, the first one at `first`. */
  gap: { readonly after: Timestamp; readonly first: Timestamp } | undefined;
}

/** So many pages that show rows are looked at. */
const pagesLookedAt = 5;

/** Rejects as `ask` does. */
export async function verifyEmpty<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  bounds: Bounds,
  range: Range,
  known: Known,
): Promise<Verdict> {
  // Without any bound the records without a time are shown, too, and may fill the page. With a bound they are hidden.
  const after = bounds.after ?? at(0);
  const { gap } = known;
  if (gap && gap.after <= after && range.to < gap.first) return 'empty';
  // A row between the lower bound and the range should have been in the first answer, too: a source that left it out
  // may have left out others.
  const later = await lookFor(scan, { after }, { isWanted: (row) => isTimed(row) && row.modified <= range.to });
  if (later.isFound) return 'not empty';
  const [first, second] = later.rows;
  if (first && second && isAscending(later.rows)) known.gap = { after, first: first.modified };
  if (known.gap?.after === after || (first && later.isSnapshot)) return 'empty';
  if (later.isThere) return askAgain(scan, bounds);
  const anchor = known.anchor ?? (range.after === undefined ? undefined : await scan.anchor?.(range.after));
  if (anchor === undefined || bounds.before === undefined) return 'unproven';
  const since = { after: at(microsFromTimestamp(anchor) - known.granularity), before: bounds.before };
  const earlier = await lookFor(scan, since, { isWanted: (row) => isWithin(row, range), pages: pagesLookedAt });
  if (earlier.isFound) return 'not empty';
  if (!earlier.isThere) return 'unproven';
  return earlier.isSnapshot ? 'empty' : askAgain(scan, bounds);
}

/** The feed is there: only this window could have been answered wrongly. It is asked for twice more. */
async function askAgain<Row extends ScannedRow>(scan: WindowScan<Row>, bounds: Bounds): Promise<Verdict> {
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const again = await scan.ask({ ...bounds, pageSize: scan.pageSize() });
    if (again.records.length > 0 || again.next !== undefined) return 'not empty';
  }
  return 'empty';
}

/**
 * Looks for a row in an answer: in its first page, in the pages after it until two rows with a time are shown, and in
 * `pages` that show some. This is to find a contradiction, not to read.
 */
async function lookFor<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  bounds: Bounds,
  { isWanted, pages: pagesWanted = 1 }: { isWanted: (row: Row) => boolean; pages?: number },
): Promise<{ isFound: boolean; isSnapshot: boolean; isThere: boolean; rows: readonly Row[] }> {
  const first: WindowAnswer<Row> = await scan.ask({ ...bounds, pageSize: scan.pageSize() });
  const isSnapshot = first.next === undefined;
  const rows: Row[] = [];
  let pages = 0;
  let isFound = false;
  try {
    for await (const { records } of followPages(scan, bounds, first)) {
      const timed = records.filter(isTimed);
      rows.push(...timed);
      if (timed.length > 0) pages += 1;
      isFound = records.some(isWanted);
      if (isFound || pages >= pagesLookedAt || (pages >= pagesWanted && rows.length > 1)) break;
    }
  } catch (error) {
    // Pages that lead nowhere, or expire, contradict nothing.
    if (!(error instanceof ScanStopped) && !isRefusal(error)) throw error;
  }
  return { isFound, isSnapshot, isThere: rows.length > 0 || !isSnapshot, rows };
}
