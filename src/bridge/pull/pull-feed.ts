/**
 * The pull of one feed: from its watermark to its end, page by page. Each page is one transaction under the feed's
 * lease: versions stored, documents marked, watermark moved. A kill between two pages costs reading one page again.
 *
 * This is the walk for feeds that declare to be commit-ordered (header `Feed-Order: commit`): the order of `modified` is
 * the order of commits and `next` is a cursor over it, so everything up to the last record of a page has been seen. A
 * feed that does not declare it is refused rather than read with losses: see `refuseUnordered`.
 */

import type { FeedPage, SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import { type AcquireLease, type Lease, LeaseLost } from '../lease.ts';
import { storeRecords } from '../mirror/store-records.ts';
import type { SourceSettings } from '../settings.ts';
import { advanceWatermark, failPull, finishPull, readCheckpoint, waitingNotifications } from './checkpoint-store.ts';

export interface PullDeps {
  source: SourceSettings;
  client: SourceClient;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  records: Counter<'feed' | 'result'>;
  /** Wakes the flows of this source, after a commit that marked documents. */
  wakeFlows: () => void;
}

const backoffFirstMs = 2_000;
const backoffMostMs = 5 * 60_000;

/** Creates the worker that reads one of the source's feeds to its end. Failures end in the checkpoint, not in the air. */
export function createFeedPull(deps: PullDeps) {
  return async (feed: FeedName, signal: AbortSignal): Promise<void> => {
    const { source, clock, log } = deps;
    const lease = await deps.acquireLease(`pull/${source.name}/${feed}`);
    if (!lease) return;
    try {
      await pullToEnd(deps, lease, feed, signal);
    } catch (error) {
      if (error instanceof LeaseLost || signal.aborted) return;
      log.warn({ err: error, source: source.name, feed }, 'pull failed');
      await lease.transaction(async (tx) => {
        const { failures } = await readCheckpoint(tx, source.name, feed);
        const waitMs = Math.max(backoffMs(failures), retryAfterOf(error));
        const next = timestampFromMs(clock.nowMs() + waitMs);
        await failPull(tx, { source: source.name, feed, error: errorText(error), next });
      });
    } finally {
      await lease.release();
    }
  };
}

async function pullToEnd(deps: PullDeps, lease: Lease, feed: FeedName, signal: AbortSignal): Promise<void> {
  const { source, client, clock } = deps;
  const begun = await lease.transaction(async (tx) => ({
    notifications: await waitingNotifications(tx, source.name, feed),
    checkpoint: await readCheckpoint(tx, source.name, feed),
  }));
  // The bound is inclusive: the record at the watermark comes again, is known, and changes nothing.
  let at: Parameters<SourceClient['readFeed']>[1] = {
    modifiedAfter: begun.checkpoint.watermark ?? undefined,
    pageSize: source.page_size,
  };
  for (;;) {
    const page = await lease.during(() => client.readFeed(feed, at, signal));
    refuseUnordered(page, source, feed);
    const changed = await storePage(deps, lease, feed, page);
    if (changed > 0) deps.wakeFlows();
    if (page.next === undefined) break;
    at = { next: page.next };
  }
  await lease.transaction((tx) => {
    const now = timestampNow(clock);
    const next = timestampFromMs(clock.nowMs() + source.poll_seconds * 1000);
    return finishPull(tx, { source: source.name, feed, notifications: begun.notifications, now, next });
  });
}

async function storePage(deps: PullDeps, lease: Lease, feed: FeedName, page: FeedPage): Promise<number> {
  const { source, clock } = deps;
  const { changed } = await lease.transaction(async (tx) => {
    const stored = await storeRecords(tx, {
      source: source.name,
      feed,
      records: page.records,
      now: timestampNow(clock),
    });
    if (stored.newest !== undefined) await advanceWatermark(tx, source.name, feed, stored.newest);
    return stored;
  });
  deps.records.inc({ feed, result: 'changed' }, changed);
  deps.records.inc({ feed, result: 'known' }, page.records.length - changed);
  return changed;
}

/**
 * Following `next` over a feed in another order loses records: those that move while the pages are read, and those that
 * are committed late. That is worse than not reading it, because nobody would notice.
 */
function refuseUnordered(page: FeedPage, source: SourceSettings, feed: FeedName): void {
  if (page.commitOrdered) return;
  throw new AppError(
    'unavailable',
    `The feed ${feed} of source "${source.name}" does not declare that it is in the order of commits ` +
      '(header "Feed-Order: commit"). Such feeds cannot be read without losses by this version, so nothing was read.',
    { recovery: { do: 'halt' } },
  );
}

function backoffMs(failures: number): number {
  return Math.min(backoffMostMs, backoffFirstMs * 2 ** Math.min(failures, 20));
}

function retryAfterOf(error: unknown): number {
  return error instanceof AppError && error.recovery.do === 'retry' ? (error.recovery.afterMs ?? 0) : 0;
}
