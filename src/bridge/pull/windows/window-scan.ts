/**
 * Reads a closed range of a feed of which nothing is known: not whether its bounds are inclusive, not how it pages, not
 * whether stamps and bounds are rounded to seconds, not whether a record is committed later than its stamp says.
 *
 * Following the pages of such a feed shows new records soon, but proves nothing. A window scan proves that a range is
 * complete. It relies on two facts. The range is closed: it ends at the upper bound, so far back that a record can
 * leave the range, by changing, but not appear in it. And an answer without `next` is a snapshot: it is complete,
 * whatever the order and the paging. So the range is read in windows that each fit a page. A request asks for the
 * granularity more at either end of its window, so that a source that rounds, or that excludes its bounds, still shows
 * all of the window.
 *
 * Example: page size 3, records A 10:00:05, B 10:00:15, C 10:00:25 and D 10:00:40, range (10:00:00, 10:00:50],
 * fractions of seconds left out:
 *
 * | asked: after .. before | answer      | proven complete      | why                                                 |
 * |------------------------|-------------|----------------------|-----------------------------------------------------|
 * | 09:59:59 .. 10:00:51   | A B C, next | nothing yet          | more than a page: the next one ends just before B   |
 * | 09:59:59 .. 10:00:15   | A B         | (10:00:00, 10:00:14] | no `next`; B lies beyond the window, in the overlap |
 * | 10:00:13 .. 10:00:35   | B C         | (10:00:14, 10:00:34] | a longer window, as the page before was not full    |
 * | 10:00:33 .. 10:00:51   | D           | (10:00:34, 10:00:50] | the end is reached                                  |
 *
 * A caller stores each answer, and may advance its watermark to 10:00:14, then to 10:00:34 and to 10:00:50. The page of
 * the first answer is stored, too, although it proves nothing: these records arrive sooner.
 *
 * The module is pure but for `ask`, `knownIds` and `anchor`. It advances no checkpoint itself.
 */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import { laterOf, microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import type { Bounds, Range } from '../feed/time-range.ts';

export interface ScannedRow {
  readonly id: string;
  readonly modified: Timestamp;
}

export interface WindowAnswer<Row extends ScannedRow> {
  readonly records: readonly Row[];
  /** The query of the next page; undefined on the last one. */
  readonly next: string | undefined;
}

/** One request: a window, or the next page of an earlier answer. */
export type AskWindow<Row extends ScannedRow> = (
  at: (Bounds & { readonly pageSize: number }) | { readonly next: string },
) => Promise<WindowAnswer<Row>>;

export interface ScannedWindow<Row> {
  readonly records: readonly Row[];
  /** The range of which `records` are all that the feed holds; undefined where more may lie between them. */
  readonly complete: Range | undefined;
  /** One stamp holds more than a page, so pages had to be followed: the range is to be read once more, later. */
  readonly crowded: boolean;
}

export interface WindowScan<Row extends ScannedRow> {
  readonly ask: AskWindow<Row>;
  /** The scan begins after this stamp; undefined: at the beginning of the feed. */
  readonly from: Timestamp | undefined;
  /** The scan ends with this stamp: the upper bound, or earlier. */
  readonly to: Timestamp;
  /** Called before each request, as the page size may shrink. */
  readonly pageSize: () => number;
  /** The step that the source may round stamps and bounds to. A second, unless it is known to be less or more. */
  readonly granularityMicros?: number | undefined;
  /** Returns the ids of the rows that are known to lie in the range: an answer that lacks one is asked for again. */
  readonly knownIds?: (range: Range) => Promise<ReadonlySet<string>>;
  /** Returns the newest stamp, not later than the given one, at which a row is known. */
  readonly anchor?: (time: Timestamp) => Promise<Timestamp | undefined>;
}

/** An answer that lacks a known row is asked for this often in all: the row may have moved, or a replica may lag. */
const attemptsForMissing = 3;
/** Which part of a page a window is meant to fill. */
const pageFillTarget = 0.85;
const crowdedPassesMax = 12;
const contradictionsMax = 10;
/** So many pages of one pass may follow each other without showing a new row. */
const idlePagesMax = 20;
export const defaultGranularityMicros = 1_000_000;

/**
 * Scans (from, to] in windows. Ends before `to` when the feed answers with nothing at all: that proves nothing, and the
 * scan is to be tried again. Rejects as `ask` does; with AppError `unavailable` when the source does not keep its
 * bounds, when its pages loop, when `next` is missing, or when a crowded stamp changes all the time. What was yielded
 * before a rejection stays valid.
 */
export async function* scanWindows<Row extends ScannedRow>(scan: WindowScan<Row>): AsyncGenerator<ScannedWindow<Row>> {
  const granularity = scan.granularityMicros ?? defaultGranularityMicros;
  const scanEnd = microsFromTimestamp(scan.to);
  const scanStart = scan.from === undefined ? 0 : Math.max(0, microsFromTimestamp(scan.from));
  const boundsOf = (start: number, end: number): Bounds => ({
    // At the beginning of the feed there is no lower bound: records that are dated before 1970 belong to it, too.
    ...(scan.from === undefined && start === scanStart ? {} : { after: at(start - granularity) }),
    before: at(end + granularity),
  });
  let start = scanStart;
  let span = scanEnd - start;
  /** A service may show smaller pages than were requested. */
  let largestPage = 0;
  /** The newest row of the windows that were completed: the feed itself has shown it. */
  let anchor: Timestamp | undefined;
  while (start < scanEnd) {
    let contradictions = 0;
    let end = Math.min(scanEnd, start + span);
    let shown: readonly Row[] = [];
    for (;;) {
      const range: Range = {
        after: scan.from === undefined && start === scanStart ? undefined : at(start),
        to: at(end),
      };
      const pageSize = scan.pageSize();
      const bounds = boundsOf(start, end);
      const answer = await askForKnownRows(scan, bounds, pageSize, shown, range);
      if (answer.records.length === 0 && answer.next === undefined) {
        const verdict = await verifyEmpty(scan, bounds, range, { anchor, granularity });
        if (verdict === 'unproven') return;
        if (verdict === 'not empty') {
          contradictions += 1;
          if (contradictions > contradictionsMax)
            throw scanFailed('it shows records of a time, and then none, again and again');
          continue;
        }
      }
      if (answer.next !== undefined) largestPage = Math.max(largestPage, answer.records.length);
      const fullPage = largestPage === 0 ? pageSize : Math.min(largestPage, pageSize);
      // A full page without `next` may be the last one, or the source may have left `next` out.
      const isFull = answer.records.length >= fullPage;
      const isShortest = end - start <= granularity;
      if (answer.next === undefined && (!isFull || isShortest)) {
        if (isFull) await refuseForgottenNext(scan, bounds, answer);
        yield { records: answer.records, complete: range, crowded: false };
        anchor = laterOf(anchor, newestWithin(answer.records, range));
        span = nextSpan(end - start, answer.records.length, fullPage, granularity);
        break;
      }
      refuseIgnoredBounds(answer.records, bounds, granularity);
      // These rows are worth storing; but the feed may hold more rows between them than the page shows.
      yield { records: answer.records, complete: undefined, crowded: false };
      shown = answer.records;
      if (isShortest) {
        const records = await readCrowdedStamp(scan, bounds);
        yield { records, complete: range, crowded: true };
        anchor = laterOf(anchor, newestWithin(records, range));
        span = granularity;
        break;
      }
      end = shorterEnd(answer.records, start, end, granularity);
    }
    start = end;
  }
}

/** The span that fills the targeted part of a page, if the next window is as crowded as this one. */
function nextSpan(span: number, rows: number, pageSize: number, granularity: number): number {
  const growth = rows === 0 ? 16 : Math.min(8, (pageFillTarget * pageSize) / rows);
  return Math.max(granularity, Math.floor(span * growth));
}

/**
 * The end of a shorter window: just before the stamps near the page's end, if the page comes in the order of its
 * stamps; else half of the window. Some room is left on the page, because the answer also shows the rows of the
 * overlap, and a full page proves nothing.
 */
function shorterEnd(records: readonly ScannedRow[], start: number, end: number, granularity: number): number {
  const isAscending = records.every(
    (record, index) => index === 0 || (records[index - 1]?.modified ?? '') <= record.modified,
  );
  const nearEnd = records[Math.floor((records.length - 1) * pageFillTarget)];
  const seen = nearEnd === undefined ? 0 : microsFromTimestamp(nearEnd.modified) - 1;
  const half = start + Math.floor((end - start) / 2);
  const shorter = isAscending && seen > start && seen < end ? seen : half;
  return Math.min(end - 1, Math.max(shorter, start + granularity));
}

/**
 * Asks for a window, and again while the answer lacks rows that are known to lie in it: a replica may lag. Rows that
 * are still missing in the last attempt have changed, and lie elsewhere now.
 */
async function askForKnownRows<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  bounds: Bounds,
  pageSize: number,
  shown: readonly ScannedRow[],
  range: Range,
): Promise<WindowAnswer<Row>> {
  const expected = new Set(shown.filter((record) => isWithin(record, range)).map(({ id }) => id));
  for (const id of (await scan.knownIds?.(range)) ?? []) expected.add(id);
  for (let attempt = 1; ; attempt += 1) {
    const answer = await scan.ask({ ...bounds, pageSize });
    if (attempt >= attemptsForMissing || answer.next !== undefined || answer.records.length >= pageSize) return answer;
    const ids = new Set(answer.records.map(({ id }) => id));
    if ([...expected].every((id) => ids.has(id))) return answer;
  }
}

/**
 * Decides whether an answer without rows counts: a service may answer "200, no rows" while its index is away. The
 * window is empty when an answer without the upper bound shows later rows only. Where the feed has no later rows, it is
 * asked for a window that begins at the anchor, a row that the feed must show: the window is empty when the answer fits
 * a page and shows no row of the range. A row between the lower bound and the range should have been in the first
 * answer: a source that left it out may have left out others, so the window is not empty.
 */
async function verifyEmpty<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  { after, before }: Bounds,
  range: Range,
  known: { anchor: Timestamp | undefined; granularity: number },
): Promise<'empty' | 'not empty' | 'unproven'> {
  const { granularity } = known;
  const pageSize = scan.pageSize();
  const later = await scan.ask({ ...(after === undefined ? {} : { after }), pageSize });
  if (later.records.some((record) => isTimed(record) && record.modified <= range.to)) return 'not empty';
  if (later.records.some(isTimed)) return 'empty';
  const anchor = known.anchor ?? (range.after === undefined ? undefined : await scan.anchor?.(range.after));
  if (anchor === undefined || before === undefined) return 'unproven';
  const earlier = await scan.ask({ after: at(microsFromTimestamp(anchor) - granularity), before, pageSize });
  if (earlier.records.some((record) => isWithin(record, range))) return 'not empty';
  return earlier.records.length > 0 && earlier.next === undefined ? 'empty' : 'unproven';
}

/**
 * Throws when a full page without `next` is not all that lies between the bounds. The window is asked for with one row
 * less: a service that knows `next` then sends one. A service that ignores the requested page size is not found out.
 */
async function refuseForgottenNext<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  bounds: Bounds,
  { records }: WindowAnswer<Row>,
): Promise<void> {
  const fewer = records.length - 1;
  // Rows may leave the window between two answers, so one attempt proves nothing.
  for (let attempt = 1; attempt <= attemptsForMissing; attempt += 1) {
    const less = await scan.ask({ ...bounds, pageSize: Math.max(1, fewer) });
    if (less.next !== undefined || fewer < 1 || less.records.length > fewer) return;
    const again = await scan.ask({ ...bounds, pageSize: records.length });
    if (again.next !== undefined || again.records.length < records.length) return;
  }
  throw scanFailed(`a page of ${fewer} records has no "next" although there are more: what follows cannot be read`);
}

/** Throws when the answer shows rows outside its bounds: then no window would ever fit a page. */
function refuseIgnoredBounds(records: readonly ScannedRow[], { after, before }: Bounds, granularity: number): void {
  const from = after === undefined ? 0 : microsFromTimestamp(after) - 2 * granularity;
  const to = before === undefined ? Number.POSITIVE_INFINITY : microsFromTimestamp(before) + 2 * granularity;
  const outside = records.find((record) => {
    const micros = microsFromTimestamp(record.modified);
    return isTimed(record) && (micros > to || micros < from);
  });
  if (outside)
    throw scanFailed(
      `it was asked for times from ${after ?? 'the beginning'} to ${before}, and shows ${outside.modified}: ` +
        'it does not keep modified_after or modified_before, or rounds them to more than a second (run "bridge check")',
    );
}

/**
 * Reads a stamp that holds more rows than a page, by following the pages. Rows may move between the pages meanwhile, so
 * it counts only when two passes in a row agree and neither saw a row twice.
 */
async function readCrowdedStamp<Row extends ScannedRow>(scan: WindowScan<Row>, bounds: Bounds): Promise<Row[]> {
  let idsBefore: string | undefined;
  const seen = new Map<string, Row>();
  for (let pass = 1; pass <= crowdedPassesMax; pass += 1) {
    const rows: Row[] = [];
    const links = new Set<string>();
    const ids = new Set<string>();
    let idlePages = 0;
    let answer = await scan.ask({ ...bounds, pageSize: scan.pageSize() });
    for (;;) {
      const known = ids.size;
      for (const row of answer.records) ids.add(row.id);
      rows.push(...answer.records);
      idlePages = ids.size > known ? 0 : idlePages + 1;
      if (answer.next === undefined) break;
      if (links.has(answer.next) || idlePages > idlePagesMax)
        throw scanFailed('its pages loop: "next" returns nothing new');
      links.add(answer.next);
      answer = await scan.ask({ next: answer.next });
    }
    for (const row of rows) seen.set(row.id, newerOf(seen.get(row.id), row));
    const idsNow = JSON.stringify(rows.map(({ id }) => id).sort());
    if (idsNow === idsBefore && ids.size === rows.length) return [...seen.values()];
    idsBefore = idsNow;
  }
  throw scanFailed('one stamp holds more records than a page, and they changed all the time while they were read');
}

function newestWithin(records: readonly ScannedRow[], range: Range): Timestamp | undefined {
  return records
    .filter((record) => isWithin(record, range))
    .reduce<Timestamp | undefined>((newest, { modified }) => laterOf(newest, modified), undefined);
}

function newerOf<Row extends ScannedRow>(known: Row | undefined, read: Row): Row {
  return known && known.modified > read.modified ? known : read;
}

/** A record without a time counts as of 1970, but it lies in no range: sources ignore the bounds for it. */
function isTimed({ modified }: ScannedRow): boolean {
  return modified !== withoutTime;
}

function isWithin(record: ScannedRow, { after, to }: Range): boolean {
  return isTimed(record) && record.modified <= to && (after === undefined || record.modified > after);
}

function scanFailed(why: string): AppError {
  return new AppError('unavailable', `The feed cannot be read in windows: ${why}.`, { recovery: { do: 'halt' } });
}

function at(micros: number): Timestamp {
  return timestampFromMicros(Math.max(0, micros));
}
