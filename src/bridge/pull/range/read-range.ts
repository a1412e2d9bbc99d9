/**
 * Reads a closed range of a feed of which nothing is known: not whether its bounds are inclusive, not how it pages, not
 * whether stamps and bounds are rounded to seconds, not in which order it shows its records.
 *
 * It relies on two facts. The range is closed: it ends so far back that a record can leave it, by changing, but not
 * appear in it. And an answer without `next` is a complete picture of what was asked for, whatever the order and the
 * paging. So the range is read in windows, each so short that one page shows all of it:
 *
 * - An answer with `next` proves nothing. What it shows is kept, and the window is made shorter.
 * - An empty answer proves nothing either, as the source's index may be away. A window therefore begins at the newest
 *   record before it, which a sound answer shows again (the anchor). Where that is shown no more, as it has changed, the
 *   window is made longer until it shows a record, also beyond the end of the range.
 * - Any other answer is complete, and the next window begins at its end.
 *
 * A request asks for the granularity more at either end of its window, so that a source that rounds, or that excludes its
 * bounds, still shows all of it. Example: page size 4, records A 10:00:05, B 10:00:15, C 10:00:25, D 10:00:40 and
 * E 10:00:48, range (10:00:05, 10:00:50], fractions of seconds left out:
 *
 * | asked: after .. before | answer        | proven complete      | why                                               |
 * |------------------------|---------------|----------------------|---------------------------------------------------|
 * | 10:00:04 .. 10:00:51   | A B C D, next | nothing yet          | more than a page: the next one ends just before C |
 * | 10:00:04 .. 10:00:25   | A B C         | (10:00:05, 10:00:24] | no `next`; C lies beyond the window, in the overlap |
 * | 10:00:14 .. 10:00:51   | B C D E       | nothing yet          | B is the anchor; a full page may have been cut off |
 * | 10:00:14 .. 10:00:40   | B C D         | (10:00:24, 10:00:39] | no `next`                                         |
 * | 10:00:24 .. 10:00:51   | C D E         | (10:00:39, 10:00:50] | the end is reached                                |
 *
 * The module is pure but for `ask` and `anchor`. It advances no checkpoint itself. `crowded-stamp.ts` says how a stamp is
 * read that holds more than a page, and `finer-granularity.ts` how windows become shorter than a second.
 */

import { laterOf, microsFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Bounds, Range } from '../feed/time-range.ts';
import { readCrowdedStamp } from './crowded-stamp.ts';
import { proveFinerGranularity } from './finer-granularity.ts';
import {
  type Answer,
  at,
  defaultGranularityMicros,
  isAscending,
  isTimed,
  isWithin,
  microsOf,
  type RangeToRead,
  ReadingStopped,
  type ReadRow,
  readingFailed,
  type WindowRead,
} from './range-types.ts';

/** An answer that lacks a record which it should show is asked for this often in all. */
const attemptsForKnown = 3;
/** Where the anchor is shown no more, as it has changed, so many records before it are tried. */
const anchorsMax = 4;
/** So many requests find the right length of a window: the whole past, halved down to a microsecond, takes 51. */
const requestsMax = 200;
/** Which part of a page a window is meant to fill. */
const pageFillTarget = 0.85;
const rowsKept = 8;

/** What the reading learns of the source on its way. */
interface Learned {
  /** The rows on the last page that was not the last one: what fits a page now, where pages shrink or rows are hidden. */
  lastPage: number | undefined;
  granularity: number;
  /** Whether it has tried to prove a finer granularity. */
  triedFiner: boolean;
  /** Some rows that were read, to prove it by. */
  rows: readonly ReadRow[];
  /** The newest record before the window: each request shows it again. Undefined where none is known. */
  anchor: Timestamp | undefined;
}

/** In microseconds. `isFirst`: it begins with the feed, so its request has no lower bound. */
interface Window {
  readonly start: number;
  readonly end: number;
  readonly isFirst: boolean;
}

/**
 * Reads (from, to] in windows. Rejects as `ask` does; with ReadingStopped when the feed answers with nothing at all, or
 * when the pages of one stamp cannot be read to their end; with AppError `unavailable` when the source does not keep its
 * bounds, or when `next` is missing. What was yielded before a rejection stays valid.
 */
export async function* readRange<Row extends ReadRow>(range: RangeToRead<Row>): AsyncGenerator<WindowRead<Row>> {
  const rangeEnd = microsFromTimestamp(range.to);
  const rangeStart = range.from === undefined ? 0 : Math.max(0, microsFromTimestamp(range.from));
  const learned: Learned = {
    lastPage: undefined,
    granularity: range.granularityMicros ?? defaultGranularityMicros,
    triedFiner: false,
    rows: [],
    anchor: range.from === undefined ? undefined : await range.anchor?.(range.from),
  };
  let start = rangeStart;
  const oldest = range.from === undefined && range.oldest !== undefined ? microsFromTimestamp(range.oldest) : rangeEnd;
  let span = Math.min(rangeEnd, oldest) - start;
  while (start < rangeEnd) {
    const isFirst = range.from === undefined && start === rangeStart;
    const window = readWindow(range, learned, { start, end: Math.min(rangeEnd, start + span), isFirst });
    let read = await window.next();
    for (; read.done !== true; read = await window.next()) yield read.value;
    ({ end: start, nextSpan: span } = read.value);
    // The time before the first record says nothing of how close they lie.
    if (isFirst) span = rangeEnd - start;
  }
}

/**
 * Reads the window, or one from its start on that is shorter, or longer, until it shows some records and fits a page.
 * Returns where it ended, and how long the next one should be.
 */
async function* readWindow<Row extends ReadRow>(
  range: RangeToRead<Row>,
  learned: Learned,
  { start, end: wanted, isFirst }: Window,
): AsyncGenerator<WindowRead<Row>, { end: number; nextSpan: number }> {
  const rangeEnd = microsFromTimestamp(range.to);
  const last = range.newest === undefined ? rangeEnd : Math.max(rangeEnd, microsFromTimestamp(range.newest));
  let end = wanted;
  /** Up to here an answer has shown nothing. */
  let tooShort = start;
  /** Up to here an answer has shown more than a page. */
  let tooLong = Number.POSITIVE_INFINITY;
  let shortened = 0;
  let anchors = 0;
  for (let requests = 1; ; requests += 1) {
    const bounds = boundsOf(learned, { start, end, isFirst });
    if (requests > requestsMax) throw new ReadingStopped(bounds, 'its answers contradict each other');
    const pageSize = range.pageSize();
    const answer = await askForKnown(range, bounds, learned, rangeOf({ start, end, isFirst }));
    if (answer.records.length === 0 && answer.next === undefined) {
      if (end < last) {
        learned.anchor = undefined;
        tooShort = end;
        // Its records have changed since.
        if (end >= tooLong) tooLong = Number.POSITIVE_INFINITY;
        end = longerEnd(start, end, { tooLong, shortest: learned.granularity, last });
        continue;
      }
      anchors += 1;
      learned.anchor = anchors > anchorsMax ? undefined : await anchorBefore(range, learned, start);
      if (learned.anchor === undefined) throw new ReadingStopped(bounds, 'the feed answers with no record at all');
      tooShort = start;
      continue;
    }
    // A full page without `next` may be the last one, or the source may have left `next` out.
    const isWhole = answer.next === undefined && !range.cap.mayBeCut(answer.records.length, pageSize);
    const window = rangeOf({ start, end: Math.min(end, rangeEnd), isFirst });
    if (isWhole) {
      yield { records: answer.records, complete: window };
      noteRows(learned, answer.records, window);
      const span = nextSpan(answer.records, { start, end, wasShortened: shortened > 0, pageSize, ...learned });
      return { end: Math.min(end, rangeEnd), nextSpan: span };
    }
    refuseIgnoredBounds(answer.records, bounds, learned.granularity);
    // These rows are worth storing; but the feed may hold more rows between them than the page shows.
    yield { records: answer.records, complete: undefined };
    learned.lastPage = answer.records.length;
    tooLong = end;
    shortened += 1;
    const isShortest = end - tooShort <= learned.granularity;
    // Without the anchor the window has shown nothing: only its pages lead past the anchor.
    const isCrowded = anchors > 0 || isCrowdBehind(answer.records, { start, end });
    if ((isCrowded || isShortest) && (await provesFiner(range, learned, answer.records))) continue;
    if (!isCrowded && !isShortest) end = shorterEnd(answer.records, { ...learned, start, end, tooShort, pageSize });
    else if (!isCrowded && isBefore(learned.anchor, start)) {
      // The anchor's own stamp may fill the page. What was asked for with it says nothing of the window alone.
      learned.anchor = undefined;
      tooShort = start;
      tooLong = Number.POSITIVE_INFINITY;
    } else {
      // The overlap of the next window does not show the crowd again.
      end = Math.min(last, Math.max(end, newestOf(answer.records) + learned.granularity + 1));
      const reached = yield* readCrowd(range, learned, { start, end, isFirst, tooShort });
      if (reached !== undefined) return { end: Math.min(reached, rangeEnd), nextSpan: learned.granularity };
    }
  }
}

/**
 * Reads a window that no shorter one leads past by its pages, and returns where it ended. Where hidden rows fill the pages,
 * shorter windows, or one that begins among them, show what follows them: then it returns undefined, as the granularity
 * is finer now, or the end of what has shown nothing.
 */
async function* readCrowd<Row extends ReadRow>(
  range: RangeToRead<Row>,
  learned: Learned,
  { tooShort, ...window }: Window & { tooShort: number },
): AsyncGenerator<WindowRead<Row>, number | undefined> {
  const rangeEnd = microsFromTimestamp(range.to);
  const within = rangeOf({ ...window, end: Math.min(window.end, rangeEnd) });
  try {
    for await (const step of readCrowdedStamp(range, boundsOf(learned, window), within)) {
      yield step;
      noteRows(learned, step.records, within);
    }
    // Shown again, it would fill the next page, too.
    learned.anchor = undefined;
    return window.end;
  } catch (error) {
    if (!(error instanceof ReadingStopped)) throw error;
    const { newest } = range;
    if (newest !== undefined && (await provesFiner(range, learned, [{ id: '', modified: newest }]))) return undefined;
    const before = { ...window, end: tooShort };
    if (tooShort === window.start || !(await isEmptyAgain(range, learned, before))) throw error;
    yield { records: [], complete: rangeOf({ ...before, end: Math.min(tooShort, rangeEnd) }) };
    return tooShort;
  }
}

function rangeOf({ start, end, isFirst }: Window): Range {
  return { after: isFirst ? undefined : at(start), to: at(end) };
}

function isBefore(anchor: Timestamp | undefined, start: number): boolean {
  return anchor !== undefined && microsFromTimestamp(anchor) < start;
}

/** Whether a full page shows nothing of the window, but only what lies just behind it. */
function isCrowdBehind(records: readonly ReadRow[], { start, end }: { start: number; end: number }): boolean {
  const stamps = records.filter(isTimed).map(microsOf);
  return stamps.some((stamp) => stamp > end) && !stamps.some((stamp) => stamp > start && stamp <= end);
}

function newestOf(records: readonly ReadRow[]): number {
  return Math.max(0, ...records.filter(isTimed).map(microsOf));
}

/** What is asked for to read a window: at the beginning of the feed also records that are dated before 1970. */
function boundsOf({ anchor, granularity }: Learned, { start, end, isFirst }: Window): Bounds {
  const since = anchor === undefined ? start : Math.min(start, microsFromTimestamp(anchor));
  return { ...(isFirst ? {} : { after: at(since - granularity) }), before: at(end + granularity) };
}

/**
 * Asks for a window, and again while the answer names no next page and lacks what it should show: the anchor, or rows that
 * are known to lie in the window. An index may be away in part, or a replica may lag. Rows that are still missing in the
 * last answer have changed, and lie elsewhere now.
 */
async function askForKnown<Row extends ReadRow>(
  range: RangeToRead<Row>,
  bounds: Bounds,
  { anchor }: Learned,
  window: Range,
): Promise<Answer<Row>> {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await range.ask({ ...bounds, pageSize: range.pageSize() });
    if (answer.next !== undefined || attempt >= attemptsForKnown) return answer;
    const isEmpty = answer.records.length === 0;
    if (isEmpty && anchor === undefined) return answer;
    const shown = new Set(answer.records.map(({ id }) => id));
    if (!isEmpty && (await range.knownIds?.(window))?.isSubsetOf(shown) !== false) return answer;
  }
}

/** Whether a window that was answered with nothing, while a longer one shows that the feed is there, is so twice more. */
async function isEmptyAgain<Row extends ReadRow>(
  range: RangeToRead<Row>,
  learned: Learned,
  window: Window,
): Promise<boolean> {
  for (let attempt = 1; attempt < attemptsForKnown; attempt += 1) {
    const { records, next } = await range.ask({ ...boundsOf(learned, window), pageSize: range.pageSize() });
    if (records.length > 0 || next !== undefined) return false;
  }
  return true;
}

/** A record before the anchor; before the window, where there is none. */
async function anchorBefore<Row extends ReadRow>(
  range: RangeToRead<Row>,
  { anchor, granularity }: Learned,
  start: number,
): Promise<Timestamp | undefined> {
  return range.anchor?.(at(anchor === undefined ? start : microsFromTimestamp(anchor) - granularity - 1));
}

function noteRows(learned: Learned, rows: readonly ReadRow[], window: Range): void {
  const newest = rows
    .filter((row) => isWithin(row, window))
    .reduce<Timestamp | undefined>((latest, { modified }) => laterOf(latest, modified), undefined);
  learned.anchor = newest ?? learned.anchor;
  learned.rows = [...rows, ...learned.rows].filter(isTimed).slice(0, rowsKept);
}

/** Tries once in a reading whether the source keeps its bounds to a finer step; then windows can be shorter. */
async function provesFiner<Row extends ReadRow>(
  range: RangeToRead<Row>,
  learned: Learned,
  rows: readonly ReadRow[],
): Promise<boolean> {
  const samples = [...rows, ...learned.rows];
  if (learned.triedFiner || samples.length === 0) return false;
  learned.triedFiner = true;
  const finer = await proveFinerGranularity(range, samples, learned.granularity);
  if (finer === undefined) return false;
  learned.granularity = finer;
  range.onFinerGranularity?.(finer);
  return true;
}

/**
 * The span that fills the targeted part of a page, if the next window is as crowded as this one; the rows of the overlap
 * take their places, too. Where the last page that named a next page showed few rows, others were hidden: then as few fit a
 * page. After a window that had to be shortened and showed nothing, the span grows slowly: the rows that filled its pages
 * were hidden.
 */
function nextSpan(
  records: readonly ReadRow[],
  {
    start,
    end,
    pageSize,
    wasShortened,
    ...learned
  }: Learned & { start: number; end: number; pageSize: number; wasShortened: boolean },
): number {
  const within = records.filter((row) => microsOf(row) > start && microsOf(row) <= end).length;
  const fits = Math.min(pageSize, learned.lastPage ?? pageSize) - (records.length - within);
  const slowly = wasShortened ? 2 : 16;
  const growth = within === 0 ? slowly : Math.min(8, (pageFillTarget * Math.max(1, fits)) / within);
  return Math.max(learned.granularity, Math.floor((end - start) * growth));
}

/** The end of a longer window: halfway to one that has shown more than a page, else much longer. */
function longerEnd(
  start: number,
  end: number,
  { tooLong, shortest, last }: { tooLong: number; shortest: number; last: number },
): number {
  const longer = tooLong < Number.POSITIVE_INFINITY ? end + Math.floor((tooLong - end) / 2) : end + 16 * (end - start);
  return Math.min(last, tooLong, Math.max(longer, end + shortest));
}

/**
 * The end of a shorter window: just before the stamps near the page's end, if the page comes in the order of its stamps
 * and the overlap does not reach to its end; else at the first row that was shown, if more than half of the window lies
 * before it; else half of the window. Some room is left on the page, because the answer also shows the rows of the
 * overlap, and a full page proves nothing. Where rows of the overlap fill the page, one of their stamps is crowded, and only
 * the shortest window leads past it.
 */
function shorterEnd(
  records: readonly ReadRow[],
  {
    start,
    end,
    tooShort,
    pageSize,
    ...learned
  }: Learned & { start: number; end: number; tooShort: number; pageSize: number },
): number {
  const { granularity, anchor } = learned;
  const shortest = tooShort + learned.granularity;
  const stamps = records.filter(isTimed).map(microsOf);
  const first = Math.min(...stamps.filter((stamp) => stamp > start));
  if (stamps.length >= pageSize && first === Number.POSITIVE_INFINITY) return Math.min(end - 1, shortest);
  const nearEnd = records[Math.floor((records.length - 1) * pageFillTarget)];
  const seen = nearEnd === undefined ? 0 : microsOf(nearEnd) - 1;
  const isUsable = isAscending(records) && seen > tooShort && seen < end;
  const isShorter = isUsable && seen + granularity < Math.max(...stamps);
  const half = tooShort + Math.floor((end - tooShort) / 2);
  // Without an anchor the window must show a record.
  const beforeFirst = anchor === undefined ? first : first - granularity - 1;
  const isEmptyBefore = first <= end && beforeFirst > half;
  const shorter = isEmptyBefore && !isShorter ? beforeFirst : isUsable ? seen : half;
  return Math.min(end - 1, Math.max(shorter, shortest));
}

/** Throws when the answer shows rows outside its bounds: then no window would ever fit a page. */
function refuseIgnoredBounds(records: readonly ReadRow[], { after, before }: Bounds, granularity: number): void {
  const from = after === undefined ? 0 : microsFromTimestamp(after) - 2 * granularity;
  const to = before === undefined ? Number.POSITIVE_INFINITY : microsFromTimestamp(before) + 2 * granularity;
  const outside = records.find((record) => {
    const micros = microsFromTimestamp(record.modified);
    return isTimed(record) && (micros > to || micros < from);
  });
  if (outside)
    throw readingFailed(
      `it was asked for times from ${after ?? 'the beginning'} to ${before}, and shows ${outside.modified}: ` +
        'it does not keep modified_after or modified_before, or rounds them to more than a second (run "bridge doctor")',
    );
}
