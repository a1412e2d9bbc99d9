/**
 * Reading a feed of which nothing is known: not whether bounds are inclusive, not how it pages, not whether stamps and
 * bounds are cut to whole seconds, not whether a record is committed later than its stamp says. Following its pages makes
 * new records quick, and proves nothing. What proves something is a walk over a range that is closed: its end, the cut,
 * lies so far back that rows can leave the range, by changing, but not appear in it. A window whose answer has no `next`
 * is a snapshot: complete, whatever the order or the paging. So the range is read in windows that fit a page, and that
 * overlap by the granularity on either side.
 *
 * Pure but for `ask` and `known`: it moves no checkpoint itself, it says which windows are complete. Source: the design's
 * "Checkpoints", rules 1 to 4.
 */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import { laterOf, microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';

export interface ScannedRecord {
  readonly id: string;
  readonly modified: Timestamp;
}

export interface WindowAnswer<Record extends ScannedRecord> {
  readonly records: readonly Record[];
  /** The query of the next page. */
  readonly next: string | undefined;
}

/** Bounds that a page is asked for; one that is left out is open. */
export interface Bounds {
  readonly after?: Timestamp;
  readonly before?: Timestamp;
}

/** One request: a window, or the next page of an earlier answer. */
export type AskWindow<Record extends ScannedRecord> = (
  at: (Bounds & { readonly pageSize: number }) | { readonly next: string },
) => Promise<WindowAnswer<Record>>;

/** The times later than `after` (any, when it is left out), and not later than `to`. */
export interface Range {
  readonly after: Timestamp | undefined;
  readonly to: Timestamp;
}

export interface ScannedWindow<Record> {
  readonly records: readonly Record[];
  /** `records` are all that the feed holds of this range; undefined where more may lie between them. */
  readonly complete: Range | undefined;
  /** It had to be paged through, as one stamp holds more than a page: to be read once more, later. */
  readonly drained: boolean;
}

export interface WindowScan<Record extends ScannedRecord> {
  readonly ask: AskWindow<Record>;
  /** Undefined: from the beginning. */
  readonly from: Timestamp | undefined;
  readonly cut: Timestamp;
  /** Asked for before each request, as it may have to shrink. */
  readonly pageSize: () => number;
  /** What stamps and bounds may be cut or rounded to. A second, unless it is known to be less or more. */
  readonly granularityMicros?: number | undefined;
  /** The ids that are known to have stood in the range: an answer without them is asked for again. */
  readonly known?: (range: Range) => Promise<ReadonlySet<string>>;
  /** The newest time not later than the given one at which a row is known. */
  readonly anchor?: (time: Timestamp) => Promise<Timestamp | undefined>;
}

/** A row that was shown and is missing in the next answer is asked for this often: it may have moved, or it may not. */
const asksForMissing = 3;
/** How much of a page a window is meant to fill. */
const fillAim = 0.85;
const drainPassesMax = 12;
const contradictionsMax = 10;
/** Pages of one walk that may follow each other without showing anything new. */
const idlePagesMax = 20;
export const defaultGranularityMicros = 1_000_000;

/**
 * Reads (from, cut] in windows. Ends before the cut when the feed answers with nothing at all: that proves nothing, and
 * is to be tried again. Rejects with what `ask` rejects with; with an AppError `unavailable` when bounds are not kept,
 * when `next` leads nowhere or is missing, or when a crowded stamp does not hold still. All given before stays valid.
 */
export async function* scanWindows<Record extends ScannedRecord>(
  walk: WindowScan<Record>,
): AsyncGenerator<ScannedWindow<Record>> {
  const granularity = walk.granularityMicros ?? defaultGranularityMicros;
  const cut = microsFromTimestamp(walk.cut);
  const beginning = walk.from === undefined ? 0 : Math.max(0, microsFromTimestamp(walk.from));
  const boundsOf = (start: number, end: number): Bounds => ({
    // What is dated before 1970 stands at the beginning, too.
    ...(walk.from === undefined && start === beginning ? {} : { after: at(start - granularity) }),
    before: at(end + granularity),
  });
  let start = beginning;
  let span = cut - start;
  /** A service may give smaller pages than it is asked for. */
  let largestPage = 0;
  /** The newest row of the windows that were completed: the feed itself has shown it. */
  let anchor: Timestamp | undefined;
  while (start < cut) {
    let contradictions = 0;
    let end = Math.min(cut, start + span);
    let shown: readonly Record[] = [];
    for (;;) {
      const range: Range = {
        after: walk.from === undefined && start === beginning ? undefined : at(start),
        to: at(end),
      };
      const pageSize = walk.pageSize();
      const bounds = boundsOf(start, end);
      const answer = await askUntilWhole(walk, bounds, pageSize, shown, range);
      if (answer.records.length === 0 && answer.next === undefined) {
        const verdict = await verifyEmpty(walk, bounds, range, { anchor, granularity });
        if (verdict === 'nothing at all') return;
        if (verdict === 'not empty') {
          contradictions += 1;
          if (contradictions > contradictionsMax)
            throw scanFailed('it shows records of a time, and then none, again and again');
          continue;
        }
      }
      if (answer.next !== undefined) largestPage = Math.max(largestPage, answer.records.length);
      const fullPage = largestPage === 0 ? pageSize : Math.min(largestPage, pageSize);
      // A full page without `next` may be the last one, or `next` may have been forgotten.
      const isFull = answer.records.length >= fullPage;
      const isShortest = end - start <= granularity;
      if (answer.next === undefined && (!isFull || isShortest)) {
        if (isFull) await refuseForgottenNext(walk, bounds, answer);
        yield { records: answer.records, complete: range, drained: false };
        anchor = laterOf(anchor, newestWithin(answer.records, range));
        span = nextSpan(end - start, answer.records.length, fullPage, granularity);
        break;
      }
      refuseIgnoredBounds(answer.records, bounds, granularity);
      // Already worth storing; but more may lie between these rows than the page shows.
      yield { records: answer.records, complete: undefined, drained: false };
      shown = answer.records;
      if (isShortest) {
        const records = await drain(walk, bounds);
        yield { records, complete: range, drained: true };
        anchor = laterOf(anchor, newestWithin(records, range));
        span = granularity;
        break;
      }
      end = shorterEnd(answer.records, start, end, granularity);
    }
    start = end;
  }
}

/** As long as what it aims at needs, if it is as crowded as the one before. */
function nextSpan(span: number, held: number, pageSize: number, granularity: number): number {
  const growth = held === 0 ? 16 : Math.min(8, (fillAim * pageSize) / held);
  return Math.max(granularity, Math.floor(span * growth));
}

/**
 * Just before the stamps at the page's end, if the page comes in the order of its stamps; else half of the window. Some
 * room is left: what lies in the overlap is shown, too, and a full page proves nothing.
 */
function shorterEnd(records: readonly ScannedRecord[], start: number, end: number, granularity: number): number {
  const isAscending = records.every(
    (record, index) => index === 0 || (records[index - 1]?.modified ?? '') <= record.modified,
  );
  const nearEnd = records[Math.floor((records.length - 1) * fillAim)];
  const seen = nearEnd === undefined ? 0 : microsFromTimestamp(nearEnd.modified) - 1;
  const half = start + Math.floor((end - start) / 2);
  const shorter = isAscending && seen > start && seen < end ? seen : half;
  return Math.min(end - 1, Math.max(shorter, start + granularity));
}

/**
 * An answer that lacks rows which are known to have stood in the same range may come from a replica that lags, and is
 * asked for again; rows that are still missing then have changed, and stand elsewhere.
 */
async function askUntilWhole<Record extends ScannedRecord>(
  walk: WindowScan<Record>,
  bounds: Bounds,
  pageSize: number,
  shown: readonly ScannedRecord[],
  range: Range,
): Promise<WindowAnswer<Record>> {
  const expected = new Set(shown.filter((record) => isWithin(record, range)).map(({ id }) => id));
  for (const id of (await walk.known?.(range)) ?? []) expected.add(id);
  for (let tries = 1; ; tries += 1) {
    const answer = await walk.ask({ ...bounds, pageSize });
    if (tries >= asksForMissing || answer.next !== undefined || answer.records.length >= pageSize) return answer;
    const ids = new Set(answer.records.map(({ id }) => id));
    if ([...expected].every((id) => ids.has(id))) return answer;
  }
}

/**
 * "200, no rows" proves nothing by itself. It counts when an answer without an upper bound shows later rows only; or,
 * where there are none, when one that begins so early that a known row belongs to it shows earlier rows only. A row that
 * stands between the lower bound and the range should have been shown: who passes it over may pass over others.
 */
async function verifyEmpty<Record extends ScannedRecord>(
  walk: WindowScan<Record>,
  { after, before }: Bounds,
  range: Range,
  given: { anchor: Timestamp | undefined; granularity: number },
): Promise<'empty' | 'not empty' | 'nothing at all'> {
  const { granularity } = given;
  const pageSize = walk.pageSize();
  const later = await walk.ask({ ...(after === undefined ? {} : { after }), pageSize });
  if (later.records.some((record) => isTimed(record) && record.modified <= range.to)) return 'not empty';
  if (later.records.some(isTimed)) return 'empty';
  const anchor = given.anchor ?? (range.after === undefined ? undefined : await walk.anchor?.(range.after));
  if (anchor === undefined || before === undefined) return 'nothing at all';
  const earlier = await walk.ask({ after: at(microsFromTimestamp(anchor) - granularity), before, pageSize });
  if (earlier.records.some((record) => isWithin(record, range))) return 'not empty';
  return earlier.records.length > 0 && earlier.next === undefined ? 'empty' : 'nothing at all';
}

/**
 * Throws when a full page without `next` is not all that the bounds hold: asked for one less, a service that knows of
 * `next` gives it. One that takes no notice of what is asked for cannot be told apart.
 */
async function refuseForgottenNext<Record extends ScannedRecord>(
  walk: WindowScan<Record>,
  bounds: Bounds,
  { records }: WindowAnswer<Record>,
): Promise<void> {
  const fewer = records.length - 1;
  // Rows may leave between two answers: once proves nothing.
  for (let tries = 1; tries <= asksForMissing; tries += 1) {
    const less = await walk.ask({ ...bounds, pageSize: Math.max(1, fewer) });
    if (less.next !== undefined || fewer < 1 || less.records.length > fewer) return;
    const again = await walk.ask({ ...bounds, pageSize: records.length });
    if (again.next !== undefined || again.records.length < records.length) return;
  }
  throw scanFailed(`a page of ${fewer} records has no "next" although there are more: what follows cannot be read`);
}

/** Without a bound that is kept, no window ever fits a page. */
function refuseIgnoredBounds(records: readonly ScannedRecord[], { after, before }: Bounds, granularity: number): void {
  const from = after === undefined ? 0 : microsFromTimestamp(after) - 2 * granularity;
  const to = before === undefined ? Number.POSITIVE_INFINITY : microsFromTimestamp(before) + 2 * granularity;
  const outside = records.find((record) => {
    const micros = microsFromTimestamp(record.modified);
    return isTimed(record) && (micros > to || micros < from);
  });
  if (outside)
    throw scanFailed(
      `it was asked for times from ${after ?? 'the beginning'} to ${before}, and shows ${outside.modified}: ` +
        'it does not keep modified_after or modified_before, or cuts them to more than a second (run "bridge check")',
    );
}

/** More rows than a page in one stamp: paged through until two passes agree and neither saw a row twice. */
async function drain<Record extends ScannedRecord>(walk: WindowScan<Record>, bounds: Bounds): Promise<Record[]> {
  let before: string | undefined;
  const seen = new Map<string, Record>();
  for (let pass = 1; pass <= drainPassesMax; pass += 1) {
    const rows: Record[] = [];
    const links = new Set<string>();
    const ids = new Set<string>();
    let idle = 0;
    let answer = await walk.ask({ ...bounds, pageSize: walk.pageSize() });
    for (;;) {
      const known = ids.size;
      for (const row of answer.records) ids.add(row.id);
      rows.push(...answer.records);
      idle = ids.size > known ? 0 : idle + 1;
      if (answer.next === undefined) break;
      if (links.has(answer.next) || idle > idlePagesMax) throw scanFailed('its "next" leads nowhere');
      links.add(answer.next);
      answer = await walk.ask({ next: answer.next });
    }
    for (const row of rows) seen.set(row.id, newerOf(seen.get(row.id), row));
    const print = JSON.stringify(rows.map(({ id }) => id).sort());
    if (print === before && ids.size === rows.length) return [...seen.values()];
    before = print;
  }
  throw scanFailed('one stamp holds more records than a page, and they did not hold still long enough to be read');
}

function newestWithin(records: readonly ScannedRecord[], range: Range): Timestamp | undefined {
  return records
    .filter((record) => isWithin(record, range))
    .reduce<Timestamp | undefined>((newest, { modified }) => laterOf(newest, modified), undefined);
}

function newerOf<Record extends ScannedRecord>(known: Record | undefined, read: Record): Record {
  return known && known.modified > read.modified ? known : read;
}

/** One that says no time counts as of 1970, but stands in no range: no bound is kept for it. */
function isTimed({ modified }: ScannedRecord): boolean {
  return modified !== withoutTime;
}

function isWithin(record: ScannedRecord, { after, to }: Range): boolean {
  return isTimed(record) && record.modified <= to && (after === undefined || record.modified > after);
}

function scanFailed(why: string): AppError {
  return new AppError('unavailable', `The feed cannot be read in windows: ${why}.`, { recovery: { do: 'halt' } });
}

function at(micros: number): Timestamp {
  return timestampFromMicros(Math.max(0, micros));
}

/**
 * Up to where a range is closed: `lateness` and the granularity before the earlier of both clocks, and not beyond what
 * was first seen `lateness` ago, so that a clock that is wrong, on either side, lets nothing through. All in micros.
 */
export function upperBound(options: {
  sentMicros: number;
  /** The answer's `Date`, less its round trip and a second for its rounding; undefined when there is none. */
  sourceMicros: number | undefined;
  latenessMicros: number;
  granularityMicros?: number | undefined;
  /** The newest stamp among the records that were first seen at least `lateness` ago. */
  firstSeenBound: Timestamp | undefined;
}): Timestamp | undefined {
  if (options.firstSeenBound === undefined) return undefined;
  const clocks = Math.min(options.sentMicros, options.sourceMicros ?? options.sentMicros);
  const closed = clocks - options.latenessMicros - (options.granularityMicros ?? defaultGranularityMicros);
  return timestampFromMicros(Math.min(closed, microsFromTimestamp(options.firstSeenBound)));
}
