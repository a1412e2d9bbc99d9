/**
 * Up to which stamp a feed that does not declare its order may be scanned: no record can still appear before the upper
 * bound. Three times limit it, and the earliest of them counts. Example with a lateness of 30 s and a granularity of 1
 * s:
 *
 * | case                     | our clock | source's `Date` | first-seen bound | upper bound                      |
 * |--------------------------|-----------|-----------------|------------------|----------------------------------|
 * | both clocks are right    | 10:05:00  | 10:04:58        | 10:04:40         | 10:04:27 = 10:04:58 - 30 s - 1 s |
 * | the source sends no date | 10:05:00  | -               | 10:04:40         | 10:04:29 = 10:05:00 - 30 s - 1 s |
 * | our clock is 90 s ahead  | 10:06:30  | -               | 10:04:40         | 10:04:40, the first-seen bound   |
 * | nothing was seen yet     | 10:05:00  | 10:04:58        | -                | none: there is nothing to scan   |
 *
 * `Date` counts with the offset that was learnt between it and the stamps: where it is 120 s behind them, 10:02:58 in
 * the header is 10:04:58 here. `clock-offset.ts` says how that is learnt, and why it is never too much.
 */
import { microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { defaultGranularityMicros } from './scan-types.ts';

/**
 * Returns the upper bound: the lateness and the granularity before the earlier of both clocks, and not later than the
 * first-seen bound. So a clock that is wrong, on either side, lets no unread record be passed. Undefined when nothing
 * has been seen for the lateness bound. All numbers are microseconds.
 */
export function upperBound(options: {
  /** Our clock when the request was sent. */
  sentMicros: number;
  /**
   * A time that the source's clock had passed: the answer's `Date`, less its round trip and a second for its rounding,
   * and with the offset that was learnt. Undefined when the answer has no `Date`.
   */
  sourceMicros: number | undefined;
  latenessMicros: number;
  granularityMicros?: number | undefined;
  /** The newest stamp that was first seen at least the lateness ago. */
  firstSeenBound: Timestamp | undefined;
}): Timestamp | undefined {
  if (options.firstSeenBound === undefined) return undefined;
  const clocks = Math.min(options.sentMicros, options.sourceMicros ?? options.sentMicros);
  const closed = clocks - options.latenessMicros - (options.granularityMicros ?? defaultGranularityMicros);
  return timestampFromMicros(Math.min(closed, microsFromTimestamp(options.firstSeenBound)));
}

/** The latest stamp that is credible: one that lies further in the future says nothing about the source's clock. */
export function latestCredibleMs({ nowMs, latenessMs }: { nowMs: number; latenessMs: number }): number {
  return nowMs + latenessMs;
}
