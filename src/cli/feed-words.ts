/** Why each feed is behind, in words for people. */
import type { Lag } from '#bridge/mirror/feed-lag.ts';
import type { FeedStatus } from '#bridge/mirror/feed-statuses.ts';
import type { AuditStatus } from '#bridge/operate/status/part-statuses.ts';
import { lagText, shortTime } from './output.ts';

/**
 * The reasons in the order of `feeds`. An error that several feeds of a source share is shown for the first of them;
 * the others refer to it.
 */
export function whysOf(feeds: readonly FeedStatus[]): string[] {
  return feeds.map((feed, index) => {
    const shown = feeds
      .slice(0, index)
      .find(
        ({ source, failures, lastError }) =>
          source === feed.source && failures > 0 && feed.failures > 0 && lastError === feed.lastError,
      );
    if (shown === undefined || feed.lastError === null) return feed.lag.why;
    return feed.lag.why.replace(feed.lastError, () => `as ${shown.feed}`);
  });
}

/** What an operator should know of a feed although it is being read; a sentence each. */
export function warningsOf(feed: FeedStatus): string[] {
  const { warning, orderBroken, orderBrokenWhy } = feed;
  const warnings = warning === null ? [] : [warning];
  if (orderBroken !== null)
    warnings.push(
      `it declares the order of commits and does not keep it (${orderBrokenWhy ?? 'no reason known'}): ` +
        `read in windows since ${shortTime(orderBroken)}`,
    );
  return warnings;
}

/** By how much a feed is behind; null of one that is in step: that it was read a while ago is no lag. */
export function behindText({ inStep, seconds }: Lag): string | null {
  return inStep ? null : lagText(seconds);
}

/** `under way: 37 %, about 4 min left`. */
export function underWay(progress: string): string {
  return progress === '' ? 'under way' : `under way: ${progress}`;
}

/** The first feed that has not been read to its end, and how far that is; empty when there is none. */
export function readingText(feeds: readonly FeedStatus[]): string {
  const reading = feeds.find(({ lastPull, failures }) => lastPull === null && failures === 0);
  return reading === undefined ? '' : `${reading.source}/${reading.feed}: ${reading.lag.why}`;
}

/** How far an audit has come, in words: finished, under way, or why it cannot go on. */
export function auditState({ finished, cancelled, failures, lastError, nextTry, progress }: AuditStatus): string {
  if (finished !== null) return `finished ${shortTime(finished)}`;
  if (cancelled !== null) return `cancelled ${shortTime(cancelled)}`;
  if (failures === 0) return underWay(progress);
  const times = failures === 1 ? 'failed once' : `failed ${failures} times`;
  return `${times}, tried again at ${shortTime(nextTry)}: ${lastError ?? 'no reason known'}`;
}
