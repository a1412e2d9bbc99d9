/** Throttles the pulls that notifications ask for, while little is left of the source's quota. */

import { readQuotasLeft } from '#bridge/mirror/source/quotas-left.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { effectiveLimit } from '#contract/limits.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';

/**
 * Returns a function that says how long a feed's next notification waits after a pull, in milliseconds. It is 0 while
 * at least half of the burst quota is left; then what is left is spread over the quota's window. So a steady stream of
 * single changes becomes fewer pulls of several changes each. Without it each change would cause a pull, until the
 * quota is spent and nothing can be read for a minute.
 */
export function createNotificationThrottle(deps: {
  source: SourceSettings;
  database: Sql;
  clock: Clock;
}): (feed: FeedName) => Promise<number> {
  const { source, database, clock } = deps;
  const limit = effectiveLimit(source.quotas, 'feeds');
  if (!limit) return async () => 0;
  const { requests, seconds } = limit.burst;
  return async (feed) => {
    const quotas = await readQuotasLeft(database, [source], timestampNow(clock));
    const burst = quotas.find(({ bucket, window }) => bucket === `feeds.${feed}` && window === 'burst');
    const left = burst?.left ?? requests;
    return left * 2 >= requests ? 0 : Math.ceil((seconds * 1000) / Math.max(1, left));
  };
}
