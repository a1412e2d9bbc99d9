/**
 * Reads a crowded stamp: one that holds more rows than a page, so that no window is short enough. Its pages are followed
 * in passes. A pass proves little: a row that moves between the pages may be skipped, and a source that sorts equal
 * stamps in no order may show another order with each page. So the union of the passes counts, and it is complete when
 *
 * - two passes in a row have shown exactly the union, no row twice: the pages have an order; or
 * - so many passes in a row have shown nothing new.
 *
 * How likely is a miss in the second case? If each page is drawn at random, a pass of p pages misses a given row with the
 * chance (1 - 1/p)^p, below 0.37. All quiet passes must miss it: 0.37^6 is one in 400 at worst. The range is read once
 * more after the lateness bound, by the same rule: one in 150,000. An audit finds what is left. Passes have different
 * page sizes, so that a row which always lies at a boundary of pages does not always lie there.
 *
 * Example: rows A to F share a stamp, a page holds 3, and each page is sorted anew:
 *
 * | pass | pages          | new  | quiet passes |
 * |------|----------------|------|--------------|
 * | 1    | A B C, B D A   | all  | 0            |
 * | 2    | C E, A B, D C  | E    | 0            |
 * | 3    | B F, D A, C E  | F    | 0            |
 * | 4-9  | no others      | none | 6: complete  |
 */
import { sizeOfPass } from '../feed/pass-size.ts';
import type { Bounds, Range } from '../feed/time-range.ts';
import { followPages } from './follow-pages.ts';
import {
  isRefusal,
  type ScannedRow,
  type ScannedWindow,
  ScanStopped,
  type WindowAnswer,
  type WindowScan,
} from './scan-types.ts';

const quietPassesWanted = 6;
const passesMax = 60;
const brokenPassesMax = 3;
/** Where the pages break off, each pass asks for pages so many times as long: fewer of them lead to the end. */
const growthFactor = 4;
/** The longest page of the contract; a setting may ask for more. */
const contractPageMax = 1_000;
/** The ids of so many rows are held in memory. */
const rowsMax = 1_000_000;

/**
 * Reads on from `answer`, the first page of these bounds. Yields the pages as they are read, and at the end the range
 * as complete. Throws ScanStopped when the pages cannot be read to their end, or go on to show new rows; what was yielded
 * is worth storing. Rejects as `ask` does.
 */
export async function* readCrowdedStamp<Row extends ScannedRow>(
  scan: WindowScan<Row>,
  answer: WindowAnswer<Row>,
  bounds: Bounds,
  range: Range,
): AsyncGenerator<ScannedWindow<Row>> {
  const union = new Set<string>();
  let quietPasses = 0;
  let exactPasses = 0;
  let brokenPasses = 0;
  let growth = 1;
  let growthMax = Number.POSITIVE_INFINITY;
  for (let pass = 0; pass < passesMax; pass += 1) {
    const known = union.size;
    const ids = new Set<string>();
    let rows = 0;
    try {
      const longest = Math.max(scan.pageSize(), contractPageMax);
      const pageSize = Math.min(longest, sizeOfPass(scan.pageSize(), pass, growth));
      const first = pass === 0 ? answer : await scan.ask({ ...bounds, pageSize });
      for await (const { records } of followPages(scan, bounds, first)) {
        rows += records.length;
        for (const { id } of records) {
          ids.add(id);
          union.add(id);
        }
        if (union.size > rowsMax)
          throw new ScanStopped(bounds, `one stamp holds more than ${rowsMax} records, which are too many to compare`);
        yield { records, complete: undefined, crowded: true };
      }
    } catch (error) {
      // An expired cursor ends a pass, not the reading: with a random order the next pass shows other rows.
      if (!isRefusal(error)) throw error;
      brokenPasses = union.size > known ? 0 : brokenPasses + 1;
      if (brokenPasses >= brokenPassesMax)
        throw new ScanStopped(bounds, `more than a page lies there, and its pages break off: ${error.publicMessage}`);
      // A source that refuses the first page of a pass may not take pages as long as that.
      if (rows === 0 && growth > 1) growthMax = growth / growthFactor;
      growth = Math.min(growth * growthFactor, growthMax);
      continue;
    }
    exactPasses =
      rows === ids.size && ids.size === union.size && (pass === 0 || union.size === known) ? exactPasses + 1 : 0;
    quietPasses = union.size === known ? quietPasses + 1 : 0;
    if (exactPasses >= 2 || quietPasses >= quietPassesWanted) {
      yield { records: [], complete: range, shown: union, crowded: true };
      return;
    }
  }
  throw new ScanStopped(bounds, `one stamp holds more than a page, and ${passesMax} passes have shown new records`);
}
