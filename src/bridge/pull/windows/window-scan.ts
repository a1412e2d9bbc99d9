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
 * The module is pure but for `ask`, `knownIds` and `anchor`. It advances no checkpoint itself. `verify-empty.ts` says when
 * an answer without rows counts, `crowded-stamp.ts` how a stamp is read that holds more than a page, and
 * `finer-granularity.ts` how windows become shorter than a second.
 */

import { laterOf, microsFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Bounds, Range } from '../feed/time-range.ts';
import { readCrowdedStamp } from './crowded-stamp.ts';
import { findRows, proveFinerGranularity } from './finer-granularity.ts';
import { proveLastPage } from './prove-last-page.ts';
import {
  at,
  defaultGranularityMicros,
  isAscending,
  isTimed,
  isWithin,
  microsOf,
  type ScannedRow,
  type ScannedWindow,
  ScanStopped,
  scanFailed,
  type WindowAnswer,
  type WindowScan,
} from './scan-types.ts';
import { type Known, verifyEmpty } from './verify-empty.ts';

/** An answer that lacks a known row is asked for this often in all: the row may have moved, or a replica may lag. */
const attemptsForMissing = 3;
/** Which part of a page a window is meant to fill. */
const pageFillTarget = 0.85;
const contradictionsMax = 10;
const rowsKept = 8;

/** What a scan learns of the source on its way. */
interface Learned extends Known {
  /** The rows on the last page that was not the last one: what fits a page now, where pages shrink or rows are hidden. */
  lastPage: number | undefined;
  granularity: number;
  /** Whether the scan has tried to prove a finer granularity. */
  triedFiner: boolean;
  /** Some rows that were read, to prove it by. */
  rows: readonly ScannedRow[];
  /** The newest row of the windows that were completed. */
  anchor: Timestamp | undefined;
}

/**
 * Scans (from, to] in windows. Rejects as `ask` does; with ScanStopped when the feed answers with nothing at all, which
 * proves nothing, or when the pages of one stamp cannot be read to their end; with AppError `unavailable` when the
 * source does not keep its bounds, or when `next` is missing. What was yielded before a rejection stays valid.
 */
export async function* scanWindows<Row extends ScannedRow>(scan: WindowScan<Row>): AsyncGenerator<ScannedWindow<Row>> {
  const scanEnd = microsFromTimestamp(scan.to);
  const scanStart = scan.from === undefined ? 0 : Math.max(0, microsFromTimestamp(scan.from));
  const learned: Learned = {
    lastPage: undefined,
    granularity: scan.granularityMicros ?? defaultGranularityMicros,
    triedFiner: false,
    rows: [],
    anchor: undefined,
    gap: undefined,
  };
  let start = scanStart;
  let span = scanEnd - start;
  while (start < scanEnd) {
    const isFirst = scan.from === undefined && start === scanStart;
    const window = readWindow(scan, learned, { start, end: Math.min(scanEnd, start + span), isFirst });
    let read = await window.next();
    for (; read.done !== true; read = await window.next()) yield read.value;
    ({ end: start, nextSpan: span } = read.value);
  }
}

/**
 * Reads the window, or a shorter one from its start on that fits a page. Returns where the window ended that was
 * completed, and how long the next one should be; both in microseconds.
 */
async function* readWindow<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  learned: Learned,
  window: { start: number; end: number; isFirst: boolean },
): AsyncGenerator<ScannedWindow<Row>, { end: number; nextSpan: number }> {
  const { start, isFirst } = window;
  let { end } = window;
  let contradictions = 0;
  let shortened = 0;
  let shown: readonly Row[] = [];
  for (;;) {
    const { granularity } = learned;
    const range: Range = { after: isFirst ? undefined : at(start), to: at(end) };
    const bounds: Bounds = {
      // At the beginning of the feed there is no lower bound: records that are dated before 1970 belong to it, too.
      ...(isFirst ? {} : { after: at(start - granularity) }),
      before: at(end + granularity),
    };
    const pageSize = scan.pageSize();
    const answer = await askForKnownRows(scan, bounds, pageSize, shown, range);
    if (answer.records.length === 0 && answer.next === undefined) {
      const verdict = await verifyEmpty(scan, bounds, range, learned);
      if (verdict === 'unproven') throw new ScanStopped(bounds, 'the feed answers with no record at all');
      if (verdict === 'not empty') {
        contradictions += 1;
        if (contradictions > contradictionsMax)
          throw new ScanStopped(bounds, 'it is answered with no record, although other answers show some of it');
        continue;
      }
    }
    // A full page without `next` may be the last one, or the source may have left `next` out.
    const mayBeCut = answer.next === undefined && scan.cap.mayBeCut(answer.records.length, pageSize);
    const isShortest = end - start <= granularity;
    let isLast = answer.next === undefined && !mayBeCut;
    let first = answer;
    if (!isLast) {
      refuseIgnoredBounds(answer.records, bounds, granularity);
      // These rows are worth storing; but the feed may hold more rows between them than the page shows.
      yield { records: answer.records, complete: undefined, crowded: false };
      shown = answer.records;
      learned.lastPage = answer.records.length;
    }
    const isCrowded = isShortest && !isLast && !(await provesFiner(scan, learned, answer.records, end));
    if (isCrowded && mayBeCut) {
      first = await pageWithNext(scan, bounds, answer, pageSize);
      isLast = first === answer;
    }
    if (isLast) {
      yield { records: answer.records, complete: range, crowded: false };
      learned.anchor = laterOf(learned.anchor, newestWithin(answer.records, range));
      learned.rows = [...answer.records, ...learned.rows].filter(isTimed).slice(0, rowsKept);
      return { end, nextSpan: nextSpan(end - start, answer.records.length, { ...learned, pageSize, shortened }) };
    }
    if (isCrowded) {
      for await (const step of readCrowdedStamp(scan, first, bounds, range)) {
        yield step;
        learned.anchor = laterOf(learned.anchor, newestWithin(step.records, range));
        learned.rows = [...step.records, ...learned.rows].filter(isTimed).slice(0, rowsKept);
      }
      return { end, nextSpan: granularity };
    }
    end = shorterEnd(answer.records, start, end, learned.granularity);
    shortened += 1;
  }
}

/** Tries once in a scan whether the source keeps its bounds to a finer step; then windows can be shorter. */
async function provesFiner<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  learned: Learned,
  rows: readonly Row[],
  end: number,
): Promise<boolean> {
  if (learned.triedFiner) return false;
  learned.triedFiner = true;
  const seen = [...rows, ...learned.rows];
  const samples = seen.length > 0 ? seen : await findRows(scan, { from: end, to: microsFromTimestamp(scan.to) });
  const finer = await proveFinerGranularity(scan, samples, learned.granularity);
  if (finer === undefined) return false;
  learned.granularity = finer;
  scan.onFinerGranularity?.(finer);
  return true;
}

/**
 * The span that fills the targeted part of a page, if the next window is as crowded as this one. Where the last page
 * that named a next page showed few rows, others were hidden: then as few fit a page. After a window that had to be
 * shortened and showed nothing, the span grows slowly: the rows that filled its pages were hidden.
 */
function nextSpan(
  span: number,
  rows: number,
  { pageSize, lastPage, granularity, shortened }: Learned & { pageSize: number; shortened: number },
): number {
  const fits = Math.max(1, Math.min(pageSize, lastPage ?? pageSize));
  const growth = rows === 0 ? (shortened > 0 ? 2 : 16) : Math.min(8, (pageFillTarget * fits) / rows);
  return Math.max(granularity, Math.floor(span * growth));
}

/**
 * The end of a shorter window: just before the stamps near the page's end, if the page comes in the order of its stamps
 * and the overlap does not reach to its end; else just before the first row that was shown, if more than half of the
 * window lies before it; else half of the window. Some room is left on the page, because the answer also shows the rows
 * of the overlap, and a full page proves nothing.
 */
function shorterEnd(records: readonly ScannedRow[], start: number, end: number, granularity: number): number {
  const stamps = records.filter(isTimed).map(microsOf);
  const first = Math.min(...stamps);
  const nearEnd = records[Math.floor((records.length - 1) * pageFillTarget)];
  const seen = nearEnd === undefined ? 0 : microsOf(nearEnd) - 1;
  const isUsable = isAscending(records) && seen > start && seen < end;
  const isShorter = isUsable && seen + granularity < Math.max(...stamps);
  const half = start + Math.floor((end - start) / 2);
  const beforeAll = first - granularity - 1;
  const isEmptyBefore = stamps.length > 0 && first <= end && beforeAll > half;
  const shorter = isEmptyBefore && !isShorter ? beforeAll : isUsable ? seen : half;
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
 * Returns the answer, a full page without `next`, where it is proved to be all that lies between the bounds; or the same
 * page with a `next`. Throws where neither can be had: then the watermark stays before these rows.
 */
async function pageWithNext<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  bounds: Bounds,
  answer: WindowAnswer<Row>,
  pageSize: number,
): Promise<WindowAnswer<Row>> {
  const { length } = answer.records;
  const proof = await proveLastPage((size) => scan.ask({ ...bounds, pageSize: size }), length, pageSize);
  if (proof === undefined)
    throw scanFailed(
      `a page of ${length} records between ${bounds.after ?? 'the beginning'} and ${bounds.before} names ` +
        'no next page, neither by "next" nor by Link, and whether more follow cannot be known',
    );
  if (proof !== 'last') return proof;
  scan.cap.noteWhole(length);
  return answer;
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

function newestWithin(records: readonly ScannedRow[], range: Range): Timestamp | undefined {
  return records
    .filter((record) => isWithin(record, range))
    .reduce<Timestamp | undefined>((newest, { modified }) => laterOf(newest, modified), undefined);
}
