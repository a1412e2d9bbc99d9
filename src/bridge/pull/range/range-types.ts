/** The types of reading a range: what is asked for, what was read, and how it ends when the source does not let it go on. */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import { microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import type { PageCap } from '../feed/page-cap.ts';
import type { Bounds, Range } from '../feed/time-range.ts';

export interface ReadRow {
  readonly id: string;
  readonly modified: Timestamp;
}

export interface Answer<Row extends ReadRow> {
  readonly records: readonly Row[];
  /** The query of the next page; undefined on the last one. */
  readonly next: string | undefined;
  /** How long the source took to answer, without waits for the quota. */
  readonly tookMs: number;
}

/** One request: a window, or the next page of an earlier answer. */
export type Ask<Row extends ReadRow> = (
  at: (Bounds & { readonly pageSize: number }) | { readonly next: string },
) => Promise<Answer<Row>>;

/** What one answer, or several of the same window, have shown. */
export interface WindowRead<Row> {
  readonly records: readonly Row[];
  /**
   * Once these records are stored, all that the feed holds of this range has been shown. Undefined where more may lie
   * between them.
   */
  readonly complete: Range | undefined;
  /** With `complete`: the ids of all records that were shown, also by earlier steps. Undefined: those of this step. */
  readonly shown?: ReadonlySet<string>;
}

export interface RangeToRead<Row extends ReadRow> {
  readonly ask: Ask<Row>;
  /** The range begins after this stamp; undefined: at the beginning of the feed. */
  readonly from: Timestamp | undefined;
  /** It ends with this stamp: no record can appear in it any more. */
  readonly to: Timestamp;
  /** Called before each request, as the page size may shrink. */
  readonly pageSize: () => number;
  /** How full a page can be. The caller notes each answer in it. */
  readonly cap: PageCap;
  /** The step that the source may round stamps and bounds to. A second, unless it is known to be less or more. */
  readonly granularityMicros?: number | undefined;
  /** Called when the reading has proved that the source keeps its bounds to a finer step. */
  readonly onFinerGranularity?: (micros: number) => void;
  /** The oldest stamp that is known: a range from the beginning of the feed begins with a window up to there. */
  readonly oldest?: Timestamp | undefined;
  /** The newest stamp that is known: where the end of the range shows nothing, a window up to there must show a record. */
  readonly newest?: Timestamp | undefined;
  /** Returns the ids of the rows that are known to lie in the range: an answer that lacks one is asked for again. */
  readonly knownIds?: (range: Range) => Promise<ReadonlySet<string>>;
  /** Returns the newest stamp, not later than the given one, at which the feed should show a record. */
  readonly anchor?: (time: Timestamp) => Promise<Timestamp | undefined>;
}

export const defaultGranularityMicros = 1_000_000;

/**
 * The reading cannot go on for now: what was yielded stays valid, and the same request is made again by the next one. It
 * is not the caller's fault, and no reason to stop following the pages.
 */
export class ReadingStopped extends AppError {
  constructor({ after, before }: Bounds, why: string) {
    super(
      'unavailable',
      `The window from ${after ?? 'the beginning'} to ${before ?? 'now'} is asked for again and again: ${why}.`,
    );
    this.name = 'ReadingStopped';
  }
}

/** The source answers in a way that no window can be read: an operator has to act. */
export function readingFailed(why: string): AppError {
  return new AppError('unavailable', `The feed cannot be read in windows: ${why}.`, { recovery: { do: 'halt' } });
}

/** A record without a time counts as of 1970, but it lies in no range: sources ignore the bounds for it. */
export function isTimed({ modified }: ReadRow): boolean {
  return modified !== withoutTime;
}

export function isWithin(record: ReadRow, { after, to }: Range): boolean {
  return isTimed(record) && record.modified <= to && (after === undefined || record.modified > after);
}

export function isAscending(records: readonly ReadRow[]): boolean {
  return records.every((record, index) => index === 0 || (records[index - 1]?.modified ?? '') <= record.modified);
}

/** The timestamp, not before 1970. */
export function at(micros: number): Timestamp {
  return timestampFromMicros(Math.max(0, micros));
}

export function microsOf(row: ReadRow): number {
  return microsFromTimestamp(row.modified);
}

/** The service has refused a page that an earlier one named, and will refuse it again. */
export function isRefusal(error: unknown): error is AppError {
  return (
    error instanceof AppError &&
    error.recovery.do === 'halt' &&
    error.code !== 'unauthorized' &&
    error.code !== 'forbidden'
  );
}
