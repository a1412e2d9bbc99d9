/**
 * Whether a page that names no next page may have been cut off. A service may put fewer records on a page than it was
 * asked for, and a next page may be named in a way that does not arrive: so a page is the last one only if it has fewer
 * records than another page had. Example, with 200 records asked for:
 *
 * | page                    | largest page so far | may be cut off                                     |
 * |-------------------------|---------------------|----------------------------------------------------|
 * | 7 records               | -                   | no: no service that is known cuts pages so short   |
 * | 30 records              | -                   | yes: it is as full as any that was seen            |
 * | 30 records, proved whole| 30                  | no, and never again: the service can show 30       |
 * | 30 records              | 200                 | no                                                 |
 * | 200 records             | 200                 | yes                                                |
 */
import { fullPageMin } from '#client/read-feed.ts';

export interface PageCap {
  /** Takes note of a page with so many records, whether or not another one follows. */
  note(records: number): void;
  /** A page of so many records without a next page was proved to be the last one. */
  noteWhole(records: number): void;
  /** Whether a page of so many records without a next page may have been cut off. */
  mayBeCut(records: number, requested: number): boolean;
  /** A page of at least so many records may have been cut off. */
  records(): number;
}

/** `known` is what earlier reads have learned. */
export function createPageCap(known = 0): PageCap {
  let cap = known;
  return {
    note: (records) => {
      cap = Math.max(cap, records);
    },
    noteWhole: (records) => {
      cap = Math.max(cap, records + 1);
    },
    mayBeCut: (records, requested) => {
      const full = Math.max(cap, fullPageMin);
      // A service that ignores the size that was asked for shows more.
      return records >= (records > requested ? full : Math.min(requested, full));
    },
    records: () => cap,
  };
}
