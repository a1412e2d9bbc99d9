/** Why each feed is behind, in words for a person: what is wrong with a whole source is told once, not for each of its feeds. */
import type { FeedStatus } from '#bridge/status/status.ts';

/** In the order of `feeds`. */
export function whysOf(feeds: readonly FeedStatus[]): string[] {
  return feeds.map((feed, index) => {
    const told = feeds
      .slice(0, index)
      .find(
        ({ source, failures, lastError }) =>
          source === feed.source && failures > 0 && feed.failures > 0 && lastError === feed.lastError,
      );
    if (told === undefined || feed.lastError === null) return feed.lag.why;
    return feed.lag.why.replace(feed.lastError, () => `as ${told.feed}`);
  });
}
