/**
 * The pull of one feed. Each page is one transaction under the feed's lease: versions stored, documents marked as due,
 * watermark advanced. A kill between two pages costs reading one page again.
 *
 * A feed whose declared order of commits is proved is followed from the watermark on (`follow-order.ts`). Of any other
 * feed, the news are read first (`read-news.ts`); then windows advance the watermark up to where the feed is closed
 * (`advance-watermark.ts`).
 */
import { type Lease, LeaseLost, unlessLost } from '#bridge/ledger/leases/lease.ts';
import { wakeEventAwards } from '#bridge/mirror/due/wake-event-awards.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { FeedName } from '#contract/feed.ts';
import { msFromTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { advanceWatermark } from './advance-watermark.ts';
import { OrderBroken } from './commit-order.ts';
import {
  CheckpointMoved,
  type DuePull,
  failPull,
  failuresBefore,
  finishPull,
  forgetOrder,
  learnProfile,
  lockCheckpointAt,
  markAnswered,
  readDuePull,
  saveOrderBroken,
  saveThrottled,
} from './feed/checkpoint-store.ts';
import { createFeedReader, includesToRequest, PagesTooLarge } from './feed/feed-reader.ts';
import { createPageStore } from './feed/page-store.ts';
import { latenessMsOf, type ReadingDeps } from './feed/reading-deps.ts';
import { followOrder } from './follow-order.ts';
import type { Pull } from './pull.ts';
import { inPullTrace } from './pull-trace.ts';
import { readNews } from './read-news.ts';

export interface PullDeps extends ReadingDeps {
  /** Asked for windows: it leaves a part of the quota to the news. */
  background: ReadingDeps['client'];
  /** Returns how long a feed's next notification waits. */
  throttleMs: (feed: FeedName) => number;
}

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
      const next = timestampFromMs(clock.nowMs() + waitMs);
      await failPull(tx, feed, { error: text, failures, next, isRateLimited, generation: due?.generation });
    });
    await unlessLost(stored);
  }
}

/** Returns undefined when the pull is done; else how many records the next attempt requests at once. */
async function pullOnce(pull: Pull): Promise<number | undefined> {
  const { feed, reader, transaction, clock, log } = pull;
  try {
    await pullToEnd(pull);
    return undefined;
  } catch (error) {
    // The pages that were stored stay stored: the next attempt goes on after them, with smaller pages or in windows.
    if (error instanceof OrderBroken) {
      log.warn({ ...feed }, `${error.message} It is read in windows from now on.`);
      await transaction((tx) => saveOrderBroken(tx, feed, { why: error.why, now: timestampNow(clock) }));
    } else if (!(error instanceof PagesTooLarge)) throw error;
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
  const latenessMs = latenessMsOf(source, due.profile);
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
    pageCap: due.profile.pageSize,
    onRefused: async () => {
      log.info(feed, 'the service does not accept include: related objects are not read');
      await transaction((tx) => learnProfile(tx, feed, { includes: [] }));
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
    granularityMicros: due.profile.granularityMicros,
    database: deps.database,
    throttleMs: deps.throttleMs,
    wakeFlows: deps.wakeFlows,
  };
}

async function pullToEnd(pull: Pull): Promise<void> {
  const { feed, due, clock } = pull;
  const read = await readFeed(pull);
  const now = timestampNow(clock);
  const throttleMs = pull.throttleMs(feed.feed);
  const pageCap = pull.reader.cap.records();
  const woken = await pull.transaction(async (tx) => {
    if (pageCap > (due.profile.pageSize ?? 0)) await learnProfile(tx, feed, { pageSize: pageCap });
    await finishPull(tx, feed, {
      ...read,
      pull: pull.id,
      lastNotification: due.lastNotification,
      now,
      throttledUntil: timestampFromMs(clock.nowMs() + throttleMs),
    });
    return feed.feed === 'awards' && (await wakeEventAwards(tx, feed.source, now));
  });
  if (woken) pull.wakeFlows();
  logRead(pull);
}

/** Reads the feed to its end, and says when it is to be read again. */
async function readFeed(pull: Pull) {
  const { due, clock, pollMs, latenessMs } = pull;
  const inOrder = () => ({
    next: timestampFromMs(clock.nowMs() + pollMs),
    firstSeen: due.firstSeen,
    stalledBy: null,
  });
  if (due.profile.orderProved !== undefined) {
    if (await followOrder(pull)) return inOrder();
    await pull.transaction((tx) => forgetOrder(tx, pull.feed));
  }
  const news = await readNews(pull);
  if (news.isOrdered && (await followOrder(pull))) return inOrder();
  const windows = { ...pull, meanwhile: createMeanwhile(pull) };
  const { isOpen, firstSeen, stalledBy } = await advanceWatermark(windows, news);
  const times = [
    // A pull that only a notification asked for leaves the schedule as it is.
    due.scheduled ? clock.nowMs() + pollMs : msFromTimestamp(due.nextPull),
    ...(isOpen ? [clock.nowMs() + latenessMs / 2] : []),
    ...(news.isCutOff ? [0] : []),
  ];
  return { next: timestampFromMs(Math.min(...times)), firstSeen, stalledBy };
}

/**
 * Returns a function that is called between two windows: it answers the notifications that have come since by reading the
 * news, which do not wait for the end of windows that take minutes. A spent quota is left to the windows to wait for.
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
      await readNews({ ...pull, due });
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
