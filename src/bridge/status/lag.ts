/**
 * How far behind the bridge is, in seconds, and why: worked out from what the checkpoints and flows hold.
 *
 * A feed's mirror is known to be complete up to a time. That is the watermark; and where nothing newer than the watermark
 * is known, the time of the last pull that read to the end, for it would have shown what there was (in a feed that does
 * not declare its order, less the lateness bound). So a feed in which nothing happens is as far behind as its last pull,
 * and not as its last change. The times of pulls are ours and the watermark is the source's: where the clocks differ, so
 * does the lag, and `bridge doctor` says by how much.
 */
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';

export interface Lag {
  /** Null when it is not known: nothing was ever read to its end. */
  readonly seconds: number | null;
  /** One sentence for a person. */
  readonly why: string;
  /** Whether it gets better by itself. */
  readonly inStep: boolean;
}

export interface FeedProgress {
  readonly watermark: Timestamp | null;
  readonly lastPull: Timestamp | null;
  readonly nextPull: Timestamp;
  /** The newest stamp in the mirror. */
  readonly newest: Timestamp | null;
  /** Whether the feed declares the order of its commits. */
  readonly ordered: boolean;
  readonly latenessSeconds: number;
  /** Notifications that no pull has answered. */
  readonly waiting: number;
  readonly failures: number;
  readonly lastError: string | null;
  /** Older versions that may be a lagging replica's. */
  readonly suspects: number;
  readonly pollSeconds: number;
}

export function lagOfFeed(feed: FeedProgress, now: Timestamp): Lag {
  const nowMs = msFromTimestamp(now);
  const { completeMs, open } = completeTo(feed);
  const seconds = completeMs === null ? null : Math.max(0, (nowMs - completeMs) / 1000);
  if (feed.failures > 0)
    return {
      seconds,
      inStep: false,
      why: `the last ${feed.failures === 1 ? 'pull' : `${feed.failures} pulls`} failed, the next is at ${shortTime(feed.nextPull)}: ${feed.lastError ?? 'no reason known'}`,
    };
  if (feed.lastPull === null) return { seconds, inStep: false, why: 'it is being read for the first time' };
  const idleSeconds = (nowMs - msFromTimestamp(feed.lastPull)) / 1000;
  if (idleSeconds > 2 * feed.pollSeconds + 60)
    return {
      seconds,
      inStep: false,
      why: `it was last read at ${shortTime(feed.lastPull)}: it is being caught up with, or no process with the role pull runs`,
    };
  if (feed.waiting > 0) return { seconds, inStep: false, why: `${countOf(feed.waiting, 'notification')} to answer` };
  if (feed.suspects > 0)
    return { seconds, inStep: true, why: `${countOf(feed.suspects, 'older version')} shown, doubted for a while` };
  if (open)
    return { seconds, inStep: true, why: `records settle ${feed.latenessSeconds} s after their time: they are in` };
  return { seconds, inStep: true, why: 'in step' };
}

function completeTo(feed: FeedProgress): { completeMs: number | null; open: boolean } {
  const watermarkMs = feed.watermark === null ? null : msFromTimestamp(feed.watermark);
  const open = feed.newest !== null && (feed.watermark === null || feed.newest > feed.watermark);
  if (open || feed.lastPull === null) return { completeMs: watermarkMs, open };
  const readMs = msFromTimestamp(feed.lastPull) - (feed.ordered ? 0 : feed.latenessSeconds * 1000);
  return { completeMs: Math.max(watermarkMs ?? Number.NEGATIVE_INFINITY, readMs), open };
}

export interface FlowProgress {
  readonly pausedReason: string | null;
  /** When the circuit lets one document through; null while it is closed. */
  readonly circuitUntil: Timestamp | null;
  /** Documents that wait, dead letters not among them. */
  readonly due: number;
  readonly retrying: number;
  readonly lastError: string | null;
  readonly deadLetters: number;
  /** Since when the oldest of those that wait differs from what the ERP holds. */
  readonly oldestWaiting: Timestamp | null;
}

/** The flow's own lag, or that of the feed furthest behind of its source, if that is greater. */
export function lagOfFlow(flow: FlowProgress, feeds: readonly { feed: string; lag: Lag }[], now: Timestamp): Lag {
  const own =
    flow.oldestWaiting === null ? 0 : Math.max(0, (msFromTimestamp(now) - msFromTimestamp(flow.oldestWaiting)) / 1000);
  const byLag = feeds.toSorted((a, b) => orInfinity(b.lag.seconds) - orInfinity(a.lag.seconds));
  const behind = byLag[0];
  // One that fails may be less far behind than one that is only read seldom.
  const late = byLag.find(({ lag }) => !lag.inStep);
  const ofFeed = behind === undefined ? 0 : behind.lag.seconds;
  const seconds = ofFeed === null ? null : Math.max(own, ofFeed);
  const why = whyOfFlow(flow, now);
  if (why !== undefined) return { seconds, inStep: false, why };
  if (late !== undefined) return { seconds, inStep: false, why: `the feed ${late.feed} is late: see there` };
  return { seconds, inStep: true, why: 'in step' };
}

function whyOfFlow(flow: FlowProgress, now: Timestamp): string | undefined {
  if (flow.pausedReason !== null) return `paused: ${flow.pausedReason}`;
  if (flow.circuitUntil !== null && flow.circuitUntil > now)
    return `too many failures in a row, one document is tried at ${shortTime(flow.circuitUntil)}: ${flow.lastError ?? 'see the dead letters'}`;
  if (flow.retrying > 0)
    return `${countOf(flow.retrying, 'document')} to try again: ${flow.lastError ?? 'no reason known'}`;
  if (flow.due > 0) return `${countOf(flow.due, 'document')} to deliver`;
  if (flow.deadLetters > 0) return `${countOf(flow.deadLetters, 'dead letter')}, all else is delivered`;
  return undefined;
}

function shortTime(timestamp: Timestamp): string {
  return `${timestamp.slice(0, 19)}Z`;
}

function orInfinity(seconds: number | null): number {
  return seconds ?? Number.POSITIVE_INFINITY;
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
