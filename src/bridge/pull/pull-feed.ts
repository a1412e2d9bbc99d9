/**
 * The live pull of one feed: from its checkpoint to its end, page by page. Each page is one transaction under the
 * feed's lease: versions stored, documents marked as due, watermark advanced. A kill between two pages costs reading
 * one page again.
 *
 * A feed may declare that it is commit-ordered (header `Feed-Order: commit`): the order of `modified` is the order of
 * commits, and `next` is a cursor over it. Once that is proved (`commit-order.ts`), a page proves that everything up to
 * its last record was shown, and the watermark advances with each page. A feed that ever breaks this order is read as
 * any other from then on.
 *
 * Of any other feed the live read shows new records soon and proves nothing; the watermark advances behind it, by
 * window scans (`windows/advance-watermark.ts`). Such a feed is first read without a filter, for records that have no
 * `modified`.
 */
import { z } from 'zod';
import { type Lease, LeaseLost, unlessLost } from '#bridge/ledger/leases/lease.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestamp } from '#contract/scalars.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { OrderBroken } from './commit-order.ts';
import {
  CheckpointMoved,
  type DuePull,
  failPull,
  failuresBefore,
  finishPull,
  lockCheckpointAt,
  markAnswered,
  readDuePull,
  readNotificationBodies,
  rememberNoIncludes,
  rememberPageCap,
  saveOrderBroken,
  saveThrottled,
} from './feed/checkpoint-store.ts';
import { createFeedReader, includesToRequest, PagesTooLarge } from './feed/feed-reader.ts';
import { createPageStore } from './feed/page-store.ts';
import { latenessMsOf, type ReadingDeps } from './feed/reading-deps.ts';
import { restartUnfilteredPass } from './feed/unfiltered-store.ts';
import { readLive } from './live-read.ts';
import type { Pull } from './pull.ts';
import { inPullTrace } from './pull-trace.ts';
import { continueUnfiltered } from './unfiltered-passes.ts';
import { advanceWatermark, rereadRanges } from './windows/advance-watermark.ts';
import { emptyPagesOf } from './windows/scan-feed.ts';

export interface PullDeps extends ReadingDeps {
  /** Asked by window scans: it leaves a part of the quota to the live read. */
  background: ReadingDeps['client'];
  /** Returns how long a feed's next notification waits. */
  throttleMs: (feed: FeedName) => number;
}

/** With more notifications than this, none is parsed: one of them will announce something new. */
const parsedNotificationsMax = 200;

const feedNotification = z.looseObject({ payload: z.looseObject({ feed_modified: timestamp }) });

/**
 * Creates the worker that reads one of the source's feeds to its end, if it is due. A failure is stored in the
 * checkpoint; the worker rejects only when the database is away.
 */
export function createFeedPull(deps: PullDeps) {
  const { source, database, clock } = deps;
  return async (name: FeedName, signal: AbortSignal): Promise<void> => {
    const feed = { source: source.name, feed: name };
    // Checked again after the lease was released: a worker that was woken while it was held did not get it.
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
  let pageSize = source.page_size;
  let due: DuePull | undefined;
  try {
    for (;;) {
      const smallerPageSize = await lease.during(async (lost) => {
        due = await readDuePull(deps.database, feed, timestampNow(clock));
        if (!due) return undefined;
        // The lease is kept around the whole pull: a request may be under way while the page before it is stored.
        const pull = openPull(deps, lease, feed, due, pageSize, AbortSignal.any([signal, lost]));
        return inPullTrace({ ...pull, database: deps.database }, () => pullOnce(pull));
      });
      if (smallerPageSize === undefined) return;
      pageSize = smallerPageSize;
    }
  } catch (error) {
    // A checkpoint that an operator has set is due at once. This pull read from the old one: it stores no failure.
    if (error instanceof LeaseLost || error instanceof CheckpointMoved || signal.aborted) return;
    const isRateLimited = error instanceof AppError && error.code === 'too-many';
    if (isRateLimited) log.info({ ...feed }, `pull waits: ${error.message}`);
    else log.warn({ err: error, ...feed }, 'pull failed');
    const stored = lease.transaction(async (tx) => {
      const failures = due ? await failuresBefore(tx, feed, due) : 0;
      const waitMs = retryWaitMs(retrySchedules.pull, failures, { floorMs: askedToWaitMs(error) });
      const text = error instanceof AppError ? error.publicMessage : errorText(error);
      // The page to go on with may no longer exist: then the read without a filter begins again. Where only a record is
      // wrong, the page does exist.
      const restart = error instanceof AppError && error.recovery.do === 'halt' && error.issues.length === 0;
      const now = timestampNow(clock);
      const next = timestampFromMs(clock.nowMs() + waitMs);
      await failPull(tx, feed, {
        error: text,
        failures,
        now,
        next,
        isRateLimited,
        restart,
        generation: due?.generation,
      });
    });
    await unlessLost(stored);
  }
}

/** Returns undefined when the pull is done; else how many records the next attempt requests at once. */
async function pullOnce(pull: Pull): Promise<number | undefined> {
  const { feed, reader, transaction, clock, log } = pull;
  try {
    if (!(await skipReadNotifications(pull))) await pullToEnd(pull);
    return undefined;
  } catch (error) {
    // The pages that were stored stay stored: the next attempt goes on after them, with smaller pages or in windows.
    if (error instanceof PagesTooLarge) await transaction((tx) => restartUnfilteredPass(tx, feed));
    else if (error instanceof OrderBroken) {
      log.warn({ ...feed }, `${error.message} It is read in windows from now on.`);
      await transaction((tx) => saveOrderBroken(tx, feed, { why: error.why, now: timestampNow(clock) }));
    } else throw error;
    return reader.pageSize();
  }
}

function openPull(
  deps: PullDeps,
  lease: Lease,
  feed: Pull['feed'],
  due: DuePull,
  pageSize: number,
  signal: AbortSignal,
): Pull {
  const { source, client, background, clock, log } = deps;
  const latenessMs = latenessMsOf(source, due.latenessMs);
  const transaction: Pull['transaction'] = (work) =>
    lease.transaction(async (tx) => {
      await lockCheckpointAt(tx, feed, due.generation);
      return work(tx);
    });
  const reader = createFeedReader({
    client,
    background,
    feed: feed.feed,
    pageSize,
    includes: includesToRequest(feed.feed, { isWanted: source.includes, profile: due.profile }),
    pageCap: due.profile?.pageSize,
    onRefused: async () => {
      log.info(feed, 'the service does not accept include: related objects are not read');
      await transaction((tx) => rememberNoIncludes(tx, feed));
    },
    onThrottled: ({ publicMessage }, waitMs) =>
      transaction((tx) =>
        saveThrottled(tx, feed, { until: timestampFromMs(clock.nowMs() + waitMs), why: publicMessage }),
      ),
    clock,
    during: (work) => work(signal),
  });
  const id = timeOrderedId(clock.nowMs());
  const storePage = createPageStore({ ...deps, feed, pull: id, latenessMs, transaction });
  let changed = 0;
  return {
    id,
    startedMs: clock.nowMs(),
    changed: () => changed,
    feed,
    due,
    reader,
    store: async (page) => {
      const stored = await storePage(page);
      changed += stored.changed;
      return stored;
    },
    transaction,
    latenessMs,
    clock,
    log,
    pollMs: source.poll_seconds * 1000,
    emptyPages: emptyPagesOf(source),
    granularityMicros: due.profile?.granularityMicros,
    database: deps.database,
    throttleMs: deps.throttleMs,
  };
}

/**
 * Answers the notifications without a request when everything that they announce has been read already. Returns whether
 * it did so. Only the `feed_modified` of a commit-ordered feed proves that: in any other feed an earlier record may have
 * been committed since.
 */
async function skipReadNotifications({ id, feed, due, database, transaction, clock }: Pull): Promise<boolean> {
  const { scheduled, commitOrdered, watermark, answered, lastNotification: last } = due;
  if (scheduled || commitOrdered !== true || watermark === null || last === null) return false;
  const bodies = await readNotificationBodies(database, feed, { answered, last, max: parsedNotificationsMax });
  if (!bodies?.every((body) => isAlreadyRead(body, watermark))) return false;
  await transaction((tx) => markAnswered(tx, feed, { pull: id, lastNotification: last, now: timestampNow(clock) }));
  return true;
}

function isAlreadyRead(body: string, watermark: Timestamp): boolean {
  try {
    const notification = feedNotification.safeParse(JSON.parse(body));
    return notification.success && notification.data.payload.feed_modified <= watermark;
  } catch {
    return false;
  }
}

async function pullToEnd(pull: Pull): Promise<void> {
  const { feed, due, clock } = pull;
  const { ordered, isBehind, ...live } = await readLive(pull);
  const nextMs = clock.nowMs() + pull.pollMs;
  const scanDeps = { ...pull, nowMs: clock.nowMs(), meanwhile: createMeanwhile(pull) };
  if (due.hasRereads) await rereadRanges(scanDeps);
  const { nextScanMs, ...advance } = ordered
    ? { nextScanMs: undefined, stalledBy: null }
    : await advanceWatermark({ ...scanDeps, watermark: due.watermark, ...live });
  const stalledBy = advance.stalledBy === null ? (live.stoppedBy ?? null) : advance.stalledBy;
  const unfilteredMs = ordered ? undefined : await continueUnfiltered(pull);
  const throttleMs = pull.throttleMs(feed.feed);
  const pageCap = pull.reader.cap.records();
  await pull.transaction(async (tx) => {
    if (pageCap > (due.profile?.pageSize ?? 0)) await rememberPageCap(tx, feed, pageCap);
    await finishPull(tx, feed, {
      pull: pull.id,
      lastNotification: due.lastNotification,
      now: timestampNow(clock),
      next: timestampFromMs(Math.min(nextMs, nextScanMs ?? nextMs, unfilteredMs ?? nextMs, isBehind ? 0 : nextMs)),
      throttledUntil: timestampFromMs(clock.nowMs() + throttleMs),
      commitOrdered: ordered,
      stalledBy,
    });
  });
  logRead(pull);
}

/**
 * Returns a function that a scan calls on its way: it answers the notifications that have come since, by a live read, so
 * that new records do not wait for the end of a scan that takes minutes. A spent quota is left to the scan to wait for.
 */
function createMeanwhile(pull: Pull): () => Promise<void> {
  const { id, feed, database, clock } = pull;
  let answered = pull.due.lastNotification ?? 0;
  let nextMs = 0;
  return async () => {
    if (clock.nowMs() < nextMs) return;
    const due = await readDuePull(database, feed, timestampNow(clock));
    const last = due?.lastNotification ?? 0;
    if (due === undefined || last <= answered) return;
    try {
      await readLive({ ...pull, due });
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'too-many') throw error;
      nextMs = clock.nowMs() + Math.max(askedToWaitMs(error), retryWaitMs(retrySchedules.pull, 0));
      return;
    }
    answered = last;
    nextMs = clock.nowMs() + pull.throttleMs(feed.feed);
    await pull.transaction((tx) =>
      markAnswered(tx, feed, { pull: id, lastNotification: last, now: timestampNow(clock) }),
    );
  };
}

/** A pull that found something, or was asked for, is a line of its own; the others would fill the log with nothing. */
function logRead({ id, feed, due, clock, startedMs, changed, log }: Pull): void {
  const found = changed();
  const hadWaiting = due.lastNotification !== null;
  const facts = {
    ...feed,
    pull: id,
    changed: found,
    // Those that it answers have ids after the first and up to the second.
    ...(hadWaiting ? { notifications: [due.answered, due.lastNotification] } : {}),
    durationMs: clock.nowMs() - startedMs,
  };
  if (found > 0 || hadWaiting) log.info(facts, 'feed read');
  else log.debug(facts, 'feed read');
}
