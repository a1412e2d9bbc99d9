/**
 * How far behind its source the mirror of a feed is, in seconds, and why. It is computed from the row of its checkpoint.
 *
 * The mirror of a feed is known to be complete up to some time. That is the watermark. If nothing newer than the
 * watermark is known, it is the time of the last pull that read to the end, as that pull would have shown newer
 * records; in a feed that does not declare its order, less the lateness bound. So a feed without changes is as far
 * behind as its last pull, and not as its last change. The times of pulls come from the bridge's clock and the
 * watermark from the source's: if the clocks differ, the lag is wrong by that difference, which `bridge doctor` shows.
 *
 * A feed is in step only while its watermark moves: one that stands still for longer than the lateness bound allows is
 * not, although new records are read all the time.
 */
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { progressText } from './read-progress.ts';

export interface Lag {
  /** Null when it is unknown, because the feed was never read to its end. */
  readonly seconds: number | null;
  /** The reason, one sentence for a person. */
  readonly why: string;
  /** Whether everything is well, or will be soon without further work. */
  readonly inStep: boolean;
}

export interface FeedProgress {
  readonly watermark: Timestamp | null;
  readonly lastPull: Timestamp | null;
  readonly nextPull: Timestamp;
  /** The newest `modified` in the mirror. */
  readonly newest: Timestamp | null;
  /** Whether the feed declares the order of its commits. */
  readonly ordered: boolean;
  readonly latenessSeconds: number;
  /** How many notifications no pull has answered yet. */
  readonly waiting: number;
  readonly failures: number;
  readonly lastError: string | null;
  readonly pollSeconds: number;
  /** Why the watermark stands still although newer records are known; names the request that repeats. */
  readonly stalledWhy: string | null;
  /** Since when the mirror holds the oldest record that the watermark has not passed; null when there is none. */
  readonly unprovedSince: Timestamp | null;
  /** When the feed was first read; null before. */
  readonly created: Timestamp | null;
  /** The oldest stamp in the mirror. */
  readonly oldest: Timestamp | null;
}

/**
 * How long the watermark may need to pass a record: up to twice the lateness bound until the first-seen bound is
 * reached, half of it until the next scan, and some time for the pulls themselves.
 */
function stillAllowedSeconds({ latenessSeconds, pollSeconds }: FeedProgress): number {
  return 3 * latenessSeconds + pollSeconds;
}

/** For how many seconds records have been known that the watermark has not passed; 0 when there are none. */
export function stillSeconds({ unprovedSince }: Pick<FeedProgress, 'unprovedSince'>, now: Timestamp): number {
  return unprovedSince === null ? 0 : Math.max(0, (msFromTimestamp(now) - msFromTimestamp(unprovedSince)) / 1000);
}

/** Whether a record has been known for longer than the watermark may need to pass it. */
function isUnproved(feed: FeedProgress, now: Timestamp): boolean {
  return feed.lastPull !== null && stillSeconds(feed, now) > stillAllowedSeconds(feed);
}

/** Whether the watermark is standing still for longer than the lateness bound allows, while the feed is being read. */
export function isStalled(feed: FeedProgress, now: Timestamp): boolean {
  return isUnproved(feed, now) && feed.stalledWhy !== null;
}

/** Returns the lag of a feed. */
export function lagOfFeed(feed: FeedProgress, now: Timestamp): Lag {
  const nowMs = msFromTimestamp(now);
  const { completeMs, isOpen } = completeUntil(feed);
  const seconds = completeMs === null ? null : Math.max(0, (nowMs - completeMs) / 1000);
  if (feed.failures > 0) {
    const failed = feed.failures === 1 ? 'the last pull failed' : `the last ${feed.failures} pulls failed`;
    const why = `${failed}, the next is at ${shortTime(feed.nextPull)}: ${feed.lastError ?? 'no reason known'}`;
    return { seconds, inStep: false, why };
  }
  // The error of a pull that did not fail: the source allows no request before its next.
  if (feed.lastError !== null && msFromTimestamp(feed.nextPull) - nowMs > feed.pollSeconds * 1000) {
    const why = `throttled until ${shortTime(feed.nextPull)}: ${feed.lastError}`;
    return { seconds, inStep: false, why };
  }
  if (feed.lastPull === null) return { seconds, inStep: false, why: firstReadText(feed, now) };
  const idleSeconds = (nowMs - msFromTimestamp(feed.lastPull)) / 1000;
  if (idleSeconds > 2 * feed.pollSeconds + 60) {
    const read = `it was last read at ${shortTime(feed.lastPull)}`;
    return { seconds, inStep: false, why: `${read}: the bridge is catching up, or no process with the role pull runs` };
  }
  // Holds whatever the pull says of itself: a record that nothing has proved complete for so long is not in step.
  if (isUnproved(feed, now)) {
    const upTo = feed.watermark === null ? 'the beginning' : shortTime(feed.watermark);
    const proved = `new records are read; that none is missing is proved only up to ${upTo}`;
    return { seconds, inStep: false, why: feed.stalledWhy === null ? proved : `${proved}: ${feed.stalledWhy}` };
  }
  if (feed.newest === null && feed.stalledWhy !== null) return { seconds, inStep: false, why: feed.stalledWhy };
  if (feed.waiting > 0) return { seconds, inStep: false, why: `${countOf(feed.waiting, 'notification')} to answer` };
  if (isOpen && feed.watermark === null && !feed.ordered)
    return { seconds, inStep: false, why: 'records are read; that none is missing is not proved yet' };
  if (isOpen)
    return {
      seconds,
      inStep: true,
      why: `records become final ${feed.latenessSeconds} s after their time: all are read`,
    };
  return { seconds, inStep: true, why: `up to date, read ${Math.max(0, Math.round(idleSeconds))} s ago` };
}

function firstReadText({ watermark, oldest, created }: FeedProgress, now: Timestamp): string {
  const text = 'it is being read for the first time';
  if (watermark === null || oldest === null || created === null) return text;
  const progress = progressText({ from: oldest, to: now, position: watermark, began: created }, now);
  return progress === '' ? text : `${text}: ${progress}`;
}

/** Returns until when the mirror is complete, and whether records newer than the watermark are known (`isOpen`). */
function completeUntil(feed: FeedProgress): { completeMs: number | null; isOpen: boolean } {
  const watermarkMs = feed.watermark === null ? null : msFromTimestamp(feed.watermark);
  const isOpen = feed.newest !== null && (feed.watermark === null || feed.newest > feed.watermark);
  if (isOpen || feed.lastPull === null) return { completeMs: watermarkMs, isOpen };
  const readMs = msFromTimestamp(feed.lastPull) - (feed.ordered ? 0 : feed.latenessSeconds * 1000);
  return { completeMs: Math.max(watermarkMs ?? Number.NEGATIVE_INFINITY, readMs), isOpen };
}

/** Returns at most `max` of the rows: first those that are not in step, and of these the furthest behind. */
export function furthestBehind<Row extends { readonly lag: Lag }>(rows: readonly Row[], max: number): Row[] {
  return rows
    .toSorted((a, b) => {
      if (a.lag.inStep !== b.lag.inStep) return a.lag.inStep ? 1 : -1;
      // Two that are not known are equal: infinity less infinity would be no number.
      return a.lag.seconds === b.lag.seconds ? 0 : orInfinity(b.lag.seconds) - orInfinity(a.lag.seconds);
    })
    .slice(0, max);
}
/** To the second, for a person. */
export function shortTime(timestamp: Timestamp): string {
  return `${timestamp.slice(0, 19)}Z`;
}

/** An unknown lag sorts behind all others. */
export function orInfinity(seconds: number | null): number {
  return seconds ?? Number.POSITIVE_INFINITY;
}

/** `1 document`, `2 documents`. */
export function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
