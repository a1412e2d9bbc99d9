/**
 * Whether the records of a feed still have the fields that flows need. A field may be missing in some records; it
 * counts as gone when it is missing in so many records in a row that chance does not explain it. Example: a tag that
 * 600 of 1,000 records had is gone after 6 records without it; a field that 200 had, after the first. Pure.
 */
import type { NeededField } from '#bridge/documents/needed-fields.ts';

/** How often a field was there, as it is kept in SQL. */
export interface NeededCount {
  had: number;
  of: number;
  /** How many records in a row have lacked it. */
  lacking: number;
  gone: boolean;
}

/** With fewer records nothing is known of a field. */
const recordsMin = 10;
/** Below this the run of records without the field is no chance. */
const chanceMax = 0.005;

/**
 * Counts the record; returns what has become of the field with it. During the first sync (`isFirst`) records are only
 * counted: they may come in any order, and the old ones may never have had the field.
 */
export function countNeeded(
  count: NeededCount,
  field: NeededField,
  record: Readonly<Record<string, unknown>>,
  isFirst: boolean,
): 'gone' | 'back' | undefined {
  const shown = field.isIn(record);
  if (shown === undefined) return undefined;
  if (shown) {
    count.had += 1;
    count.of += 1;
    count.lacking = 0;
    if (!count.gone) return undefined;
    count.gone = false;
    return 'back';
  }
  if (isFirst) {
    count.of += 1;
    return undefined;
  }
  count.lacking += 1;
  if (count.gone) return undefined;
  if (count.of >= recordsMin && count.had > 0) {
    // Of n records that all had it, the next one is expected to lack it with a chance of 1 in n + 1 at most.
    const chance = Math.max(1 - count.had / count.of, 1 / (count.of + 1));
    if (chance ** count.lacking <= chanceMax) {
      count.gone = true;
      return 'gone';
    }
  }
  // While it may still be chance, the record counts among those that lack it.
  count.of += 1;
  return undefined;
}
