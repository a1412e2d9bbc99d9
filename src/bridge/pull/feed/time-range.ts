/**
 * Spans of a feed's time. `Bounds` is what a request asks for, `Range` is what its answer proves. They differ, because
 * it is not known whether a source takes its bounds as inclusive or exclusive, and to which fraction of a second: a
 * request asks for more than the range that it is meant to prove.
 */
import type { Timestamp } from '#contract/timestamp.ts';

/** What a request asks for, as `modified_after` and `modified_before`; a bound that is left out is open. */
export interface Bounds {
  readonly after?: Timestamp;
  readonly before?: Timestamp;
}

/** The stamps later than `after` (any stamp, when it is undefined) and not later than `to`. */
export interface Range {
  readonly after: Timestamp | undefined;
  readonly to: Timestamp;
}
