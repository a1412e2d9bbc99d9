/**
 * The pull of one feed: from its watermark to its end, page by page. Each page is one transaction under the feed's
 * lease: versions stored, documents marked, watermark moved. A kill between two pages costs reading one page again.
 *
 * A feed may declare to be commit-ordered (header `Feed-Order: commit`): the order of `modified` is the order of commits
 * and `next` is a cursor over it. Then everything up to the last record of a page has been seen, and the watermark moves
 * with each page; one that declares it and shows another order is refused. Of any other feed the pages are only the quick
 * news: the watermark moves when a range of time is settled (`settle-feed.ts`).
 */
import type { FeedPage, SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import { backoffMs } from '../backoff.ts';
import { type AcquireLease, type Lease, LeaseLost } from '../lease.ts';
import { storeRecords } from '../mirror/store-records.ts';
import type { SourceSettings } from '../settings.ts';
import {
  advanceWatermark,
  type DuePull,
  type FeedId,
  failPull,
  finishPull,
  readDuePull,
  readFailures,
} from './checkpoint-store.ts';
import { settleFeed } from './settle-feed.ts';

export interface PullDeps {
  source: SourceSettings;
  client: SourceClient;
  database: Database;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  records: Counter<'feed' | 'result'>;
  /** Wakes the flows of this source, after a commit that marked documents. */
  wakeFlows: () => void;
}

const backoff = { firstMs: 2_000, mostMs: 5 * 60_000 };

/**
 * Creates the worker that reads one of the source's feeds to its end, if it is due. Failures end in the checkpoint, not
 * in the air; only a database that is away makes it reject.
 */
export function createFeedPull(deps: PullDeps) {
  const { source, database, clock } = deps;
  return async (name: FeedName, signal: AbortSignal): Promise<void> => {
    const feed = { source: source.name, feed: name };
    // Looked at again without the lease: a wake-up that came while it was held went to a worker that did not get it.
    while (!signal.aborted && (await readDuePull(database, feed, timestampNow(clock)))) {
      const lease = await deps.acquireLease(`pull/${source.name}/${name}`);
      if (!lease) return;
      try {
        await pullIfDue(deps, lease, name, signal);
      } finally {
        await lease.release();
      }
    }
  };
}

async function pullIfDue(deps: PullDeps, lease: Lease, name: FeedName, signal: AbortSignal): Promise<void> {
  const { source, clock, log } = deps;
  const feed = { source: source.name, feed: name };
  try {
    const due = await lease.transaction((tx) => readDuePull(tx, feed, timestampNow(clock)));
    if (due) await pullToEnd(deps, lease, name, due, signal);
  } catch (error) {
    if (error instanceof LeaseLost || signal.aborted) return;
    log.warn({ err: error, ...feed }, 'pull failed');
    await lease.transaction(async (tx) => {
      const waitMs = backoffMs({ ...backoff, failures: await readFailures(tx, feed), floorMs: retryAfterOf(error) });
      await failPull(tx, feed, { error: errorText(error), next: timestampFromMs(clock.nowMs() + waitMs) });
    });
  }
}

async function pullToEnd(
  deps: PullDeps,
  lease: Lease,
  name: FeedName,
  due: DuePull,
  signal: AbortSignal,
): Promise<void> {
  const { source, client, clock } = deps;
  // The bound is inclusive: the record at the watermark comes again, is known, and changes nothing.
  let at: Parameters<SourceClient['readFeed']>[1] = {
    modifiedAfter: due.watermark ?? undefined,
    pageSize: source.page_size,
  };
  const readPage = (where: typeof at) =>
    lease.during((lost) => client.readFeed(name, where, AbortSignal.any([signal, lost])));
  let newest: Timestamp | undefined;
  let page: FeedPage;
  let ordered = true;
  for (;;) {
    page = await readPage(at);
    ordered &&= page.commitOrdered;
    refuseStandstill(page, at, name);
    const times = await storePage(deps, lease, name, page.records, (stored) => {
      if (!ordered) return undefined;
      refuseDisorder(stored, newest, name);
      return stored.at(-1);
    });
    newest = times.at(-1) ?? newest;
    if (page.next === undefined) break;
    at = { next: page.next };
  }
  const nextMs = clock.nowMs() + source.poll_seconds * 1000;
  const open = ordered
    ? undefined
    : await settleFeed({
        feed: feedIdOf(source, name),
        watermark: due.watermark,
        latenessMs: source.lateness_seconds * 1000,
        pageSize: source.page_size,
        nowMs: clock.nowMs(),
        sourceMs: page.sourceMs,
        transaction: (work) => lease.transaction(work),
        readPage,
        store: async (records, completeTo) => {
          await storePage(deps, lease, name, records, () => completeTo);
        },
      });
  await lease.transaction((tx) =>
    finishPull(tx, feedIdOf(source, name), {
      notifications: due.notifications,
      now: timestampNow(clock),
      next: timestampFromMs(Math.min(nextMs, open?.againMs ?? nextMs)),
    }),
  );
}

/** Stores records and moves the watermark to what `completeTo` makes of their times, in one transaction. */
async function storePage(
  deps: PullDeps,
  lease: Lease,
  name: FeedName,
  records: readonly Record<string, unknown>[],
  completeTo: (times: readonly Timestamp[]) => Timestamp | undefined,
): Promise<readonly Timestamp[]> {
  const { source, clock, log } = deps;
  const feed = feedIdOf(source, name);
  const stored = await lease.transaction(async (tx) => {
    const result = await storeRecords(tx, { ...feed, feed: name, records, now: timestampNow(clock) });
    const complete = completeTo(result.times);
    if (complete !== undefined) await advanceWatermark(tx, feed, complete);
    return result;
  });
  deps.records.inc({ feed: name, result: 'changed' }, stored.changed);
  deps.records.inc({ feed: name, result: 'known' }, records.length - stored.changed);
  if (stored.unreadable.length > 0) {
    deps.records.inc({ feed: name, result: 'unreadable' }, stored.unreadable.length);
    log.warn({ ...feed, count: stored.unreadable.length }, `records are not as documented: ${stored.unreadable[0]}`);
  }
  if (stored.changed > 0) deps.wakeFlows();
  return stored.times;
}

function feedIdOf(source: SourceSettings, feed: FeedName): FeedId {
  return { source: source.name, feed };
}

/** A walk over such pages would never end. */
function refuseStandstill(page: FeedPage, at: Parameters<SourceClient['readFeed']>[1], feed: FeedName): void {
  if (page.next === undefined) return;
  if (page.records.length > 0 && !('next' in at && at.next === page.next)) return;
  throw new AppError('unavailable', `A page of the feed ${feed} leads nowhere: its "next" gives no further records.`, {
    recovery: { do: 'halt' },
  });
}

/** With the watermark at the page's last record, an earlier one that comes later would never be read. */
function refuseDisorder(times: readonly Timestamp[], before: Timestamp | undefined, feed: FeedName): void {
  for (const [index, time] of times.entries()) {
    const previous = index === 0 ? before : times[index - 1];
    if (previous === undefined || time >= previous) continue;
    throw new AppError(
      'unavailable',
      `The feed ${feed} declares the order of commits and shows another: ${time} comes after ${previous}.`,
      { recovery: { do: 'halt' } },
    );
  }
}

function retryAfterOf(error: unknown): number {
  return error instanceof AppError && error.recovery.do === 'retry' ? (error.recovery.afterMs ?? 0) : 0;
}
