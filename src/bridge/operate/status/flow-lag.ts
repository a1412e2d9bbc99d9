/** How far behind a flow is, in seconds, and why: by its own documents, and by the feeds of its source. */
import type { Loss } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import type { LookingFlow } from '#bridge/ledger/lost-commits/open-loss.ts';
import { countOf, type Lag, orInfinity, shortTime } from '#bridge/mirror/feed-lag.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';

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
    return `${trial}: ${flow.lastError ?? 'see the refused documents'}`;
  }
  const parts = [whyLookingUp(flow), whyCutOff(flow)];
  const others = flow.due - flow.cutOff;
  if (flow.retrying > 0)
    parts.push(`${countOf(flow.retrying, 'document')} to try again: ${flow.lastError ?? 'no reason known'}`);
  else if (others > 0) parts.push(`${countOf(others, 'document')} to deliver`);
  const why = parts.filter((part) => part !== undefined).join('; ');
  if (why !== '') return why;
  return flow.deadLetters > 0 ? `${countOf(flow.deadLetters, 'refused document')}, all else is delivered` : undefined;
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
