/** Throttles the pulls that notifications ask for, while little is left of the source's quota. */
import { sourceLimit } from '#bridge/mirror/source/source-limit.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { MemoryQuotas } from '#client/memory-quotas.ts';
import type { FeedName } from '#contract/feed.ts';

/**
 * Returns a function that says how long a feed's next notification waits after a pull, in milliseconds. It is 0 while
 * at least half of the burst quota is left; then what is left is spread over the quota's window. So a steady stream of
 * single changes becomes fewer pulls of several changes each. Without it each change would cause a pull, until the
 * quota is spent and nothing can be read for a minute.
 */
export function createNotificationThrottle(
  source: SourceSettings,
  quotas: Pick<MemoryQuotas, 'burstLeft'>,
): (feed: FeedName) => number {
  const limit = sourceLimit(source, 'feeds');
  if (!limit) return () => 0;
  const { requests, seconds } = limit.burst;
  return (feed) => {
    const left = quotas.burstLeft(`feeds.${feed}`) ?? requests;
    return left * 2 >= requests ? 0 : Math.ceil((seconds * 1000) / Math.max(1, left));
  };
}
