/** Why each feed is behind, in words for people. */
import type { FeedStatus } from '#bridge/status/status.ts';

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
