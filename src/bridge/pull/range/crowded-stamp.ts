/**
 * Reads a crowded stamp: one that holds more rows than a usual page, so that no window is short enough. One page of the
 * contract's largest size often shows all of it. Else its pages are followed in passes. A pass proves little: a row that
 * moves between the pages may be skipped, and a source that sorts equal stamps in no order may show another order with
 * each page. So the union of the passes counts, and it is complete when
 *
 * - two passes in a row have shown exactly the union, no row twice: the pages have an order; or
 * - so many passes in a row have shown nothing new.
 *
 * How likely is a miss in the second case? If each page is drawn at random, a pass of p pages misses a given row with the
 * chance (1 - 1/p)^p, below 0.37. All quiet passes must miss it: 0.37^12 is one in 150,000 at worst. An audit finds what is
 * left. Passes have different page sizes, so that a row which always lies at a boundary of pages does not always lie there.
 *
 * Example: rows A to F share a stamp, a page holds 3, and each page is sorted anew:
 *
 * | pass | pages          | new  | quiet passes |
 * |------|----------------|------|--------------|
 * | 1    | A B C, B D A   | all  | 0            |
 * | 2    | C E, A B, D C  | E    | 0            |
 * | 3    | B F, D A, C E  | F    | 0            |
 * | 4-15 | no others      | none | 12: complete |
 */
import { sizeOfPass } from '../feed/pass-size.ts';
import type { Bounds, Range } from '../feed/time-range.ts';
import { followPages, PagesBroken } from '../follow-pages.ts';
import { proveLastPage } from './prove-last-page.ts';
import {
  type Answer,
  isRefusal,
  type RangeToRead,
  ReadingStopped,
  type ReadRow,
  readingFailed,
  type WindowRead,
} from './range-types.ts';

const quietPassesWanted = 12;
const passesMax = 80;
const brokenPassesMax = 3;
/** The longest page of the contract; a setting may ask for more. */
const contractPageMax = 1_000;
/** The ids of so many rows are held in memory. */
const rowsMax = 1_000_000;

/**
 * Yields the pages as they are read, and at the end the window as complete. Throws ReadingStopped when the pages cannot be
 * read to their end, or go on to show new rows; what was yielded is worth storing. Throws AppError `unavailable` when a
 * full page names no next one, and whether more follow cannot be known. Rejects as `ask` does.
 */
export async function* readCrowdedStamp<Row extends ReadRow>(
  range: RangeToRead<Row>,
  bounds: Bounds,
  window: Range,
): AsyncGenerator<WindowRead<Row>> {
  const long = await askForLongPage(range, bounds);
  // "200, no rows" proves nothing: more than a page was shown before.
  if (long.answer.next === undefined && long.answer.records.length > 0) {
    yield { records: long.answer.records, complete: window };
    return;
  }
  const union = new Set<string>();
  let quietPasses = 0;
  let exactPasses = 0;
  let brokenPasses = 0;
  for (let pass = 0; pass < passesMax; pass += 1) {
    const known = union.size;
    const ids = new Set<string>();
    let rows = 0;
    let pages = 0;
    // Where pages break off, as cursors expire, the long ones lead further.
    const shorter = sizeOfPass(Math.max(1, Math.min(range.pageSize(), range.cap.records())), pass);
    const pageSize = brokenPasses > 0 ? long.pageSize : shorter;
    try {
      for await (const { records } of followPages(range.ask, { ...bounds, pageSize })) {
        pages += 1;
        rows += records.length;
        for (const { id } of records) {
          ids.add(id);
          union.add(id);
        }
        if (union.size > rowsMax)
          throw new ReadingStopped(
            bounds,
            `one stamp holds more than ${rowsMax} records, which are too many to compare`,
          );
        yield { records, complete: undefined };
      }
      // The answer before has named a next page. Several pages without a record hold hidden ones.
      if (pages === 1 && (rows === 0 || range.cap.mayBeCut(rows, pageSize)))
        throw new PagesBroken(`they end after ${rows} records, although more were shown before.`);
    } catch (error) {
      if (!(error instanceof PagesBroken) && !isRefusal(error)) throw error;
      // An expired cursor ends a pass, not the reading: with a random order the next pass shows other rows.
      brokenPasses = union.size > known ? 1 : brokenPasses + 1;
      if (brokenPasses > brokenPassesMax)
        throw new ReadingStopped(bounds, `more than a page lies there. ${error.publicMessage}`);
      continue;
    }
    const isExact = rows === ids.size && ids.size === union.size && (pass === 0 || union.size === known);
    exactPasses = isExact ? exactPasses + 1 : 0;
    quietPasses = union.size === known ? quietPasses + 1 : 0;
    if (exactPasses >= 2 || quietPasses >= quietPassesWanted) {
      yield { records: [], complete: window, shown: union };
      return;
    }
  }
  throw new ReadingStopped(bounds, `one stamp holds more than a page, and ${passesMax} passes have shown new records`);
}

interface LongPage<Row extends ReadRow> {
  readonly answer: Answer<Row>;
  readonly pageSize: number;
}

/**
 * Asks for the longest page that the contract has, or that the settings have where the source refuses it. Without `next` it
 * is proved to be all. Throws where it names no next one, and whether more follow cannot be known.
 */
async function askForLongPage<Row extends ReadRow>(range: RangeToRead<Row>, bounds: Bounds): Promise<LongPage<Row>> {
  const longest = Math.max(range.pageSize(), contractPageMax);
  const ask = async (pageSize: number) => ({ answer: await range.ask({ ...bounds, pageSize }), pageSize });
  const long = await ask(longest).catch((error: unknown) => {
    if (isRefusal(error)) return ask(range.pageSize());
    throw error;
  });
  const { records, next } = long.answer;
  if (next !== undefined || !range.cap.mayBeCut(records.length, long.pageSize)) return long;
  const proof = await proveLastPage(async (size) => (await ask(size)).answer, records.length, long.pageSize);
  if (proof === undefined)
    throw readingFailed(
      `a page of ${records.length} records between ${bounds.after ?? 'the beginning'} and ${bounds.before} names ` +
        'no next page, neither by "next" nor by Link, and whether more follow cannot be known',
    );
  if (proof !== 'last') return { ...long, answer: proof };
  range.cap.noteWhole(records.length);
  return long;
}
