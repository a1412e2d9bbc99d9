/**
 * The pull of one feed: from its watermark to its end, page by page. Each page is one transaction under the feed's
 * lease: versions stored, documents marked, watermark moved. A kill between two pages costs reading one page again.
 *
 * This is the walk for feeds that declare to be commit-ordered (header `Feed-Order: commit`): the order of `modified` is
 * the order of commits and `next` is a cursor over it, so everything up to the last record of a page has been seen. A
 * feed that does not declare it, or declares it and shows another order, is refused rather than read with losses.
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
  let newest: Timestamp | undefined;
  for (;;) {
    const page = await lease.during((lost) => client.readFeed(name, at, AbortSignal.any([signal, lost])));
    refuseUndeclared(page, source, name);
    refuseStandstill(page, at, name);
    newest = (await storePage(deps, lease, name, page, newest)) ?? newest;
    if (page.next === undefined) break;
    at = { next: page.next };
  }
  await lease.transaction((tx) =>
    finishPull(tx, feedIdOf(source, name), {
      notifications: due.notifications,
      now: timestampNow(clock),
      next: timestampFromMs(clock.nowMs() + source.poll_seconds * 1000),
    }),
  );
}

/** Gives the newest `modified` of the page; `before` is that of the page before it in this walk. */
async function storePage(
  deps: PullDeps,
  lease: Lease,
  name: FeedName,
  page: FeedPage,
  before: Timestamp | undefined,
): Promise<Timestamp | undefined> {
  const { source, clock, log } = deps;
  const feed = feedIdOf(source, name);
  const stored = await lease.transaction(async (tx) => {
    const result = await storeRecords(tx, { ...feed, feed: name, records: page.records, now: timestampNow(clock) });
    refuseDisorder(result.times, before, name);
    const last = result.times.at(-1);
    if (last !== undefined) await advanceWatermark(tx, feed, last);
    return result;
  });
  deps.records.inc({ feed: name, result: 'changed' }, stored.changed);
  deps.records.inc({ feed: name, result: 'known' }, page.records.length - stored.changed);
  if (stored.unreadable.length > 0) {
    deps.records.inc({ feed: name, result: 'unreadable' }, stored.unreadable.length);
    log.warn({ ...feed, count: stored.unreadable.length }, `records are not as documented: ${stored.unreadable[0]}`);
  }
  if (stored.changed > 0) deps.wakeFlows();
  return stored.times.at(-1);
}

function feedIdOf(source: SourceSettings, feed: FeedName): FeedId {
  return { source: source.name, feed };
}

/**
 * Following `next` over a feed in another order loses records: those that move while the pages are read, and those that
 * are committed late. That is worse than not reading it, because nobody would notice.
 */
function refuseUndeclared(page: FeedPage, source: SourceSettings, feed: FeedName): void {
  if (page.commitOrdered) return;
  throw new AppError(
    'unavailable',
    `The feed ${feed} of source "${source.name}" does not declare that it is in the order of commits ` +
      '(header "Feed-Order: commit"). Such feeds cannot be read without losses by this version, so nothing was read.',
    { recovery: { do: 'halt' } },
  );
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
