/**
 * How far behind the bridge is, in seconds, and why. It is computed from the rows of checkpoints and flows.
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
import type { Loss } from '../lost-commits/note-lost-commits.ts';
import type { LookingFlow } from '../lost-commits/open-loss.ts';

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
  /** How many versions are suspect: older than those in the mirror, perhaps from a replica that lags. */
  readonly suspects: number;
  readonly pollSeconds: number;
  /** Since when the watermark stands still although newer records are known, and why; null while it moves. */
  readonly stalledSince: Timestamp | null;
  /** Names the request that repeats. */
  readonly stalledWhy: string | null;
  /** Since when the mirror holds the oldest record that the watermark has not passed; null when there is none. */
  readonly unprovedSince: Timestamp | null;
}

/**
 * How long the watermark may need to pass a record: up to twice the lateness bound until the first-seen bound is
 * reached, half of it until the next scan, and some time for the pulls themselves.
 */
function stillAllowedSeconds({ latenessSeconds, pollSeconds }: FeedProgress): number {
  return 3 * latenessSeconds + pollSeconds;
}

/** For how many seconds the watermark has stood still; 0 while it moves. */
export function stillSeconds({ stalledSince }: Pick<FeedProgress, 'stalledSince'>, now: Timestamp): number {
  return stalledSince === null ? 0 : Math.max(0, (msFromTimestamp(now) - msFromTimestamp(stalledSince)) / 1000);
}

/** Whether the watermark is standing still for longer than the lateness bound allows, while the feed is being read. */
export function isStalled(feed: FeedProgress, now: Timestamp): boolean {
  return stillSeconds(feed, now) > stillAllowedSeconds(feed);
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
  // The error of a pull that did not fail: the source asked it to wait.
  if (feed.lastError !== null && msFromTimestamp(feed.nextPull) - nowMs > feed.pollSeconds * 1000) {
    const why = `the source asked to wait, the next pull is at ${shortTime(feed.nextPull)}: ${feed.lastError}`;
    return { seconds, inStep: false, why };
  }
  if (feed.lastPull === null) return { seconds, inStep: false, why: 'it is being read for the first time' };
  const idleSeconds = (nowMs - msFromTimestamp(feed.lastPull)) / 1000;
  if (idleSeconds > 2 * feed.pollSeconds + 60) {
    const read = `it was last read at ${shortTime(feed.lastPull)}`;
    return { seconds, inStep: false, why: `${read}: the bridge is catching up, or no process with the role pull runs` };
  }
  if (isStalled(feed, now)) {
    const since = `the watermark stands still since ${shortTime(feed.stalledSince ?? now)}`;
    return { seconds, inStep: false, why: `${since}: ${feed.stalledWhy ?? 'no reason known'}` };
  }
  // Holds whatever the pull says of itself: a record that nothing has proved complete for so long is not in step.
  if (feed.unprovedSince !== null && (nowMs - msFromTimestamp(feed.unprovedSince)) / 1000 > stillAllowedSeconds(feed)) {
    const upTo = feed.watermark === null ? 'the beginning' : shortTime(feed.watermark);
    return { seconds, inStep: false, why: `new records are read; that none is missing is proved only up to ${upTo}` };
  }
  if (feed.waiting > 0) return { seconds, inStep: false, why: `${countOf(feed.waiting, 'notification')} to answer` };
  if (feed.suspects > 0)
    return { seconds, inStep: true, why: `${countOf(feed.suspects, 'older version')} shown, suspect for a while` };
  if (isOpen && feed.watermark === null && !feed.ordered)
    return { seconds, inStep: false, why: 'records are read; that none is missing is not proved yet' };
  if (isOpen)
    return {
      seconds,
      inStep: true,
      why: `records become final ${feed.latenessSeconds} s after their time: all are read`,
    };
  return { seconds, inStep: true, why: 'in step' };
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
/** How far a flow has come since the database lost commits. */
export interface FlowLoss extends Pick<Loss, 'lost' | 'why'>, Omit<LookingFlow, 'flow'> {}

export interface FlowProgress {
  readonly pausedReason: string | null;
  /** Set while the flow catches up with commits that the database has lost. */
  readonly commitsLost: FlowLoss | null;
  /** When the circuit lets one document through; null while it is closed. */
  readonly circuitUntil: Timestamp | null;
  /** How many documents wait to be delivered; dead letters are not counted. */
  readonly due: number;
  /** How many of them have failed and are tried again. */
  readonly retrying: number;
  readonly lastError: string | null;
  /** How many documents wait until a call that was cut off can no longer take effect; `retrying` leaves them out. */
  readonly cutOff: number;
  /** When the last of them ends its wait; null when none waits. */
  readonly cutOffUntil: Timestamp | null;
  readonly deadLetters: number;
  /** Since when the document that waits longest differs from what the ERP holds. */
  readonly oldestWaiting: Timestamp | null;
}

/**
 * Returns the lag of a flow: its own, or that of the feed of its source that is furthest behind, if that is greater.
 */
export function lagOfFlow(flow: FlowProgress, feeds: readonly { feed: string; lag: Lag }[], now: Timestamp): Lag {
  const own =
    flow.oldestWaiting === null ? 0 : Math.max(0, (msFromTimestamp(now) - msFromTimestamp(flow.oldestWaiting)) / 1000);
  const byLag = feeds.toSorted((a, b) => orInfinity(b.lag.seconds) - orInfinity(a.lag.seconds));
  const furthestBehind = byLag[0];
  // A feed that fails may be less far behind than a feed that is well but read seldom.
  const late = byLag.find(({ lag }) => !lag.inStep);
  const ofFeeds = furthestBehind === undefined ? 0 : furthestBehind.lag.seconds;
  const seconds = ofFeeds === null ? null : Math.max(own, ofFeeds);
  const why = whyOfFlow(flow, now);
  if (why !== undefined) return { seconds, inStep: false, why };
  if (late !== undefined) return { seconds, inStep: false, why: `the feed ${late.feed} is late: see there` };
  return { seconds, inStep: true, why: 'in step' };
}

function whyOfFlow(flow: FlowProgress, now: Timestamp): string | undefined {
  if (flow.pausedReason !== null) return `paused: ${flow.pausedReason}`;
  if (flow.commitsLost?.isSourceRead === false)
    return `${lossText(flow.commitsLost)}: nothing is sent before its source was read again`;
  if (flow.circuitUntil !== null && flow.circuitUntil > now) {
    const trial = `too many failures in a row, one document is tried at ${shortTime(flow.circuitUntil)}`;
    return `${trial}: ${flow.lastError ?? 'see the dead letters'}`;
  }
  const parts = [whyLookingUp(flow), whyCutOff(flow)];
  const others = flow.due - flow.cutOff;
  if (flow.retrying > 0)
    parts.push(`${countOf(flow.retrying, 'document')} to try again: ${flow.lastError ?? 'no reason known'}`);
  else if (others > 0) parts.push(`${countOf(others, 'document')} to deliver`);
  const why = parts.filter((part) => part !== undefined).join('; ');
  if (why !== '') return why;
  return flow.deadLetters > 0 ? `${countOf(flow.deadLetters, 'dead letter')}, all else is delivered` : undefined;
}

function whyLookingUp({ commitsLost }: FlowProgress): string | undefined {
  if (commitsLost === null) return undefined;
  const { documents, toLookUp } = commitsLost;
  const done = `${documents - toLookUp} of ${countOf(documents, 'document')}`;
  return `${lossText(commitsLost)}: the ERP is asked what it holds of each document before it is written, ${done} so far`;
}

/** How and when commits were lost, for a person. */
export function lossText({ why, lost }: Pick<Loss, 'why' | 'lost'>): string {
  const at = shortTime(lost);
  if (why === 'restored') return `the database was restored at ${at}`;
  const what = why === 'timeline' ? 'another database server was promoted' : 'the database has lost an attempt';
  return `${what} (noticed at ${at}), so commits may be lost`;
}

function whyCutOff({ cutOff, cutOffUntil }: FlowProgress): string | undefined {
  if (cutOff === 0 || cutOffUntil === null) return undefined;
  const until = `${countOf(cutOff, 'document')} ${cutOff === 1 ? 'waits' : 'wait'} until ${shortTime(cutOffUntil)}`;
  return `${until}: the call was cut off and may still take effect; then the ERP is asked what it holds`;
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
