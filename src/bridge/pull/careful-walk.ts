/**
 * Reading a feed of which nothing is known: not whether bounds are inclusive, not how it pages, not whether stamps and
 * bounds are cut to whole seconds, not whether a record is committed later than its stamp says. Following its pages makes
 * new records quick, and proves nothing. What proves something is the settling walk over a range that is closed: its
 * end, the cut, lies so far back that rows can leave the range, by changing, but not appear in it. A window whose answer
 * has no `next` is a snapshot: complete, whatever the order or the paging. So the range is read in windows that fit a
 * page, which overlap by a second on either side.
 *
 * Pure but for `ask`: it moves no checkpoint itself, it says up to where what it gave is complete. Source: the design's
 * "Checkpoints", rules 1 to 4. Rule 5 (a replica that shows older versions) is the mirror's, which takes none.
 */
import { microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';

export interface WalkedRecord {
  readonly id: string;
  readonly modified: Timestamp;
}

export interface Answer<Record extends WalkedRecord> {
  readonly records: readonly Record[];
  /** The query of the next page. */
  readonly next: string | undefined;
}

/** One request: a window, or the next page of an earlier answer. */
export type Ask<Record extends WalkedRecord> = (
  at: { after: Timestamp; before: Timestamp } | { next: string },
) => Promise<Answer<Record>>;

export interface Walked<Record> {
  readonly records: readonly Record[];
  /** Everything up to here has been given; only after these records are stored. */
  readonly completeTo: Timestamp | undefined;
}

/** A row that was shown and is missing in the next answer is asked for this often: it may have moved, or it may not. */
const asksForMissing = 3;
const drainPassesMax = 12;
/** Stamps or bounds may be cut or rounded to whole seconds: windows overlap by as much, and are not made shorter. */
const granularityMicros = 1_000_000;

/**
 * Reads (from, cut] in windows. Rejects with what `ask` rejects with, or when a crowded second does not hold still;
 * everything given before stays valid.
 */
export async function* settle<Record extends WalkedRecord>(options: {
  ask: Ask<Record>;
  from: Timestamp;
  cut: Timestamp;
}): AsyncGenerator<Walked<Record>> {
  const { ask } = options;
  const cut = microsFromTimestamp(options.cut);
  let start = microsFromTimestamp(options.from);
  let span = cut - start;
  while (start < cut) {
    let end = Math.min(cut, start + span);
    let shown: readonly Record[] = [];
    for (;;) {
      const window = { after: at(start - granularityMicros), before: at(end + granularityMicros) };
      const answer = await askUntilWhole(ask, window, shown, start, end);
      if (answer.next === undefined) {
        yield { records: answer.records, completeTo: at(end) };
        // The windows after it may hold twice as much; one that is too long is cut back at the price of one request.
        span = Math.max(2 * (end - start), granularityMicros);
        break;
      }
      // Already worth storing; but more may lie between these rows than the page shows.
      yield { records: answer.records, completeTo: undefined };
      shown = answer.records;
      if (end - start <= granularityMicros) {
        yield { records: await drain(ask, window), completeTo: at(end) };
        break;
      }
      end = shorterEnd(answer.records, start, end);
    }
    start = end;
  }
}

/** Just before the page's last stamp, if the page comes in the order of its stamps; else half of the window. */
function shorterEnd(records: readonly WalkedRecord[], start: number, end: number): number {
  const last = Math.max(...records.map(({ modified }) => microsFromTimestamp(modified)));
  const half = start + Math.max(1, Math.floor((end - start) / 2));
  return last - 1 > start && last - 1 < end ? last - 1 : half;
}

/**
 * An answer that lacks rows which the one before showed in the same range may come from a replica that lags, and is
 * asked again; rows that are still missing then have changed, and stand elsewhere.
 */
async function askUntilWhole<Record extends WalkedRecord>(
  ask: Ask<Record>,
  window: { after: Timestamp; before: Timestamp },
  shown: readonly WalkedRecord[],
  start: number,
  end: number,
): Promise<Answer<Record>> {
  const expected = shown.filter(({ modified }) => {
    const micros = microsFromTimestamp(modified);
    return micros > start && micros <= end;
  });
  for (let tries = 1; ; tries += 1) {
    const answer = await ask(window);
    const ids = new Set(answer.records.map(({ id }) => id));
    if (tries >= asksForMissing || answer.next !== undefined || expected.every(({ id }) => ids.has(id))) return answer;
  }
}

/** More rows than a page in one second: paged through until two passes agree and neither saw a row twice. */
async function drain<Record extends WalkedRecord>(
  ask: Ask<Record>,
  window: { after: Timestamp; before: Timestamp },
): Promise<Record[]> {
  let before: string | undefined;
  const seen = new Map<string, Record>();
  for (let pass = 1; pass <= drainPassesMax; pass += 1) {
    const rows: Record[] = [];
    let answer = await ask(window);
    rows.push(...answer.records);
    while (answer.next !== undefined) {
      answer = await ask({ next: answer.next });
      rows.push(...answer.records);
    }
    for (const row of rows) seen.set(row.id, newerOf(seen.get(row.id), row));
    const ids = rows.map(({ id }) => id).sort();
    const print = JSON.stringify(ids);
    if (print === before && new Set(ids).size === ids.length) return [...seen.values()];
    before = print;
  }
  throw new Error('A second holds more rows than a page, and they did not hold still long enough to be read.');
}

function newerOf<Record extends WalkedRecord>(known: Record | undefined, read: Record): Record {
  return known && known.modified > read.modified ? known : read;
}

function at(micros: number): Timestamp {
  return timestampFromMicros(Math.max(0, micros));
}

/**
 * Up to where a range is closed: `lateness` and the granularity before the earlier of both clocks, and not beyond what
 * was first seen `lateness` ago, so that a clock that is wrong, on either side, lets nothing through. All in micros.
 */
export function cutOf(options: {
  sentMicros: number;
  /** The answer's `Date`, less its round trip and a second for its rounding; undefined when there is none. */
  sourceMicros: number | undefined;
  latenessMicros: number;
  /** The newest stamp among the records that were first seen at least `lateness` ago. */
  seenLongAgo: Timestamp | undefined;
}): Timestamp | undefined {
  if (options.seenLongAgo === undefined) return undefined;
  const clocks = Math.min(options.sentMicros, options.sourceMicros ?? options.sentMicros);
  const closed = clocks - options.latenessMicros - granularityMicros;
  return timestampFromMicros(Math.min(closed, microsFromTimestamp(options.seenLongAgo)));
}
