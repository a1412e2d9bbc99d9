/**
 * Up to which stamp a feed that does not declare its order is closed: no record can still appear there. Three times
 * limit it, and the earliest of them counts. Example with a lateness of 30 s and a granularity of 1 s:
 *
 * | case                     | our clock | source's `Date` | first-seen bound | closed up to                     |
 * |--------------------------|-----------|-----------------|------------------|----------------------------------|
 * | both clocks are right    | 10:05:00  | 10:04:58        | 10:04:40         | 10:04:27 = 10:04:58 - 30 s - 1 s |
 * | the source sends no date | 10:05:00  | -               | 10:04:40         | 10:04:29 = 10:05:00 - 30 s - 1 s |
 * | our clock is 90 s ahead  | 10:06:30  | -               | 10:04:40         | 10:04:40, the first-seen bound   |
 * | nothing was seen yet     | 10:05:00  | 10:04:58        | -                | nowhere: there is nothing to read |
 *
 * The first-seen bound is a stamp that the bridge has known for the lateness at least. Only our own clock measures for how
 * long, and it measures a difference: so the bound holds although the source's clock, or ours, is wrong by a day. Example:
 *
 * | pull at  | newest stamp | the sample before    | bound    | why                                              |
 * |----------|--------------|----------------------|----------|--------------------------------------------------|
 * | 10:00:00 | 09:59:58     | none                 | none     | the first sample is taken: 09:59:58 at 10:00:00  |
 * | 10:00:20 | 10:00:15     | 09:59:58 at 10:00:00 | none     | it is 20 s old: too young                        |
 * | 10:00:40 | 10:00:33     | 09:59:58 at 10:00:00 | 09:59:58 | it is 40 s old: the bound; a new sample is taken |
 * | 10:01:10 | 10:01:02     | 10:00:33 at 10:00:40 | 10:00:33 | it is 30 s old: the bound; a new sample is taken |
 */
import {
  laterOf,
  microsFromTimestamp,
  type Timestamp,
  timestampFromMicros,
  timestampFromMs,
} from '#contract/timestamp.ts';
import { defaultGranularityMicros } from './range-types.ts';

/** What is known of when the newest stamps were first seen. */
export interface FirstSeen {
  /** It was seen for the lateness at least. */
  readonly bound?: Timestamp;
  /** The newest stamp, and when it was noted. */
  readonly sample?: Timestamp;
  readonly sampledAt?: Timestamp;
}

/**
 * Takes note of the newest stamp that is known now, and makes a sample from before `seenBeforeMs` the bound. A sample whose time is still to come was taken before the clock was
 * set back: it is replaced.
 */
export function noteFirstSeen(
  seen: FirstSeen,
  { newest, nowMs, seenBeforeMs }: { newest: Timestamp; nowMs: number; seenBeforeMs: number },
): FirstSeen {
  const now = timestampFromMs(nowMs);
  const { bound, sample, sampledAt } = seen;
  const isOld = sampledAt !== undefined && sampledAt <= timestampFromMs(seenBeforeMs);
  if (sampledAt !== undefined && !isOld && sampledAt <= now) return seen;
  const known = isOld ? laterOf(bound, sample) : bound;
  return { ...(known === undefined ? {} : { bound: known }), sample: newest, sampledAt: now };
}

/**
 * Returns the stamp up to which the feed is closed: the lateness and the granularity before the earlier of both clocks, and
 * not later than the first-seen bound. So a clock that is wrong, on either side, lets no unread record be passed. Undefined
 * when nothing has been seen for the lateness.
 */
export function closedBound(options: {
  /** Our clock. */
  nowMs: number;
  /**
   * A time that the source's clock had passed: the answer's `Date`, less its round trip and a second for its rounding.
   * Undefined when the answer has no `Date`.
   */
  sourceMs: number | undefined;
  latenessMs: number;
  granularityMicros?: number | undefined;
  firstSeen: FirstSeen;
}): Timestamp | undefined {
  const { nowMs, sourceMs = nowMs, latenessMs, granularityMicros = defaultGranularityMicros } = options;
  const { bound } = options.firstSeen;
  if (bound === undefined) return undefined;
  const closed = (Math.min(nowMs, sourceMs) - latenessMs) * 1_000 - granularityMicros;
  return timestampFromMicros(Math.min(closed, microsFromTimestamp(bound)));
}

/** The latest stamp that is credible: one that lies further in the future says nothing about the source's clock. */
export function latestCredible(nowMs: number, latenessMs: number): Timestamp {
  return timestampFromMs(nowMs + latenessMs);
}
