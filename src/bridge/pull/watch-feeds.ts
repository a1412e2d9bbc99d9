/** Tells the log when a feed falls behind, and when it is in step again: one line for each change, not for each pull. */
import { lagOfFeed } from '#bridge/mirror/feed-lag.ts';
import type { FeedStatus } from '#bridge/mirror/feed-statuses.ts';
import { readFeedStatuses } from '#bridge/mirror/feed-statuses.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Logger } from '#platform/log.ts';

const everyMs = 30_000;

/**
 * Returns a function that is called with each sweep, and looks every half minute. A feed that has never been read is
 * being read for the first time: it is not behind yet. Nor is a feed with notifications to answer, as long as it has been
 * read between two looks: in a busy feed there are always some. Several processes that pull write the line each.
 */
export function createFeedWatch(deps: {
  database: Sql;
  log: Logger;
  clock: Clock;
  settings: Pick<BridgeSettings, 'sources'>;
}): () => Promise<void> {
  const { database, log, clock, settings } = deps;
  const behind = new Set<string>();
  /** When the feeds with notifications to answer had been read at the last look. */
  const waiting = new Map<string, FeedStatus['lastPull']>();
  let nextMs = Number.NEGATIVE_INFINITY;
  return async () => {
    const nowMs = clock.nowMs();
    // The absolute difference: after the clock was set back, it must not stay silent until the clock has caught up.
    if (nowMs < nextMs && nextMs - nowMs <= everyMs) return;
    nextMs = nowMs + everyMs;
    const now = timestampNow(clock);
    for (const status of await readFeedStatuses(database, settings, now)) note(status, now);
  };

  /** Whether notifications wait that no pull has answered although there was time for one. */
  function areLeft(name: string, { waiting: count, lastPull }: FeedStatus): boolean {
    const before = waiting.get(name);
    if (count > 0) waiting.set(name, lastPull);
    else waiting.delete(name);
    return count > 0 && before === lastPull;
  }

  function note(status: FeedStatus, now: Timestamp): void {
    const { source, feed, lastPull, failures, watermark } = status;
    const name = `${source}/${feed}`;
    const lag = areLeft(name, status) ? status.lag : lagOfFeed({ ...status, waiting: 0 }, now);
    const isBehind = !lag.inStep && (lastPull !== null || failures > 0);
    if (isBehind === behind.has(name)) return;
    const facts = { source, feed, state: isBehind ? 'behind' : 'in step', lagSeconds: lag.seconds, watermark };
    if (isBehind) {
      behind.add(name);
      log.warn(facts, `feed behind: ${lag.why}`);
    } else {
      behind.delete(name);
      log.info(facts, 'feed in step again');
    }
  }
}
