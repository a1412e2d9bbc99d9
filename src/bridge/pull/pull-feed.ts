/**
 * The live pull of one feed: from its checkpoint to its end, page by page. Each page is one transaction under the
 * feed's lease: versions stored, documents marked as due, watermark advanced. A kill between two pages costs reading
 * one page again.
 *
 * A feed may declare that it is commit-ordered (header `Feed-Order: commit`): the order of `modified` is the order of
 * commits, and `next` is a cursor over it. Then a page proves that everything up to its last record was shown, and the
 * watermark advances with each page. A feed that declares this order and shows another is refused.
 *
 * Of any other feed the live read shows new records soon and proves nothing; the watermark advances behind it, by
 * window scans (`windows/advance-watermark.ts`). Such a feed is first read once without a filter, for records that have
 * no `modified`.
 */
import { z } from 'zod';
import type { FeedName } from '#contract/feed.ts';
import { timestamp } from '#contract/scalars.ts';
import { addMicros, laterOf, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { type Lease, LeaseLost, unlessLost } from '../leases/lease.ts';
import { withoutTime } from '../mirror/read-version.ts';
import { retrySchedules, retryWaitMs } from '../retry-schedules.ts';
import {
  CheckpointMoved,
  type DuePull,
  type FeedId,
  failPull,
  finishPull,
  lockCheckpointAt,
  markNotificationsProcessed,
  readDuePull,
  readFailures,
  readNotificationBodies,
  rememberNoIncludes,
  saveUnfilteredNext,
} from './feed/checkpoint-store.ts';
import { createFeedReader, type FeedReader, includesToRequest, PagesTooLarge } from './feed/feed-reader.ts';
import { readNewestStamp } from './feed/held-records.ts';
import { createPageStore, type StorePage } from './feed/page-store.ts';
import { latenessMsOf, type ReadingDeps } from './feed/reading-deps.ts';
import type { Bounds } from './feed/time-range.ts';
import { PaginationLoop, readForward } from './read-forward.ts';
import { advanceWatermark, rereadRanges } from './windows/advance-watermark.ts';
import { latestCredibleMs } from './windows/upper-bound.ts';
import { defaultGranularityMicros } from './windows/window-scan.ts';

export interface PullDeps extends ReadingDeps {
  /** Returns how long a feed's next notification waits. */
  throttleMs: (feed: FeedName) => Promise<number>;
}

/** With more notifications than this, none is parsed: one of them will announce something new. */
const parsedNotificationsMax = 200;
/** Microseconds are exact up to the year 2255: no window is asked for around a later stamp. */
const scannableBefore: Timestamp = '2250-01-01T00:00:00.000000Z';

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
      due = await lease.transaction((tx) => readDuePull(tx, feed, timestampNow(clock)));
      if (!due) return;
      const found = due;
      const smallerPageSize = await lease.during((lost) =>
        // The lease is kept around the whole pull: a request may be under way while the page before it is stored.
        pullOnce(openPull(deps, lease, feed, found, pageSize, AbortSignal.any([signal, lost]))),
      );
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
      const waitMs = retryWaitMs(retrySchedules.pull, await readFailures(tx, feed), { floorMs: askedToWaitMs(error) });
      const text = error instanceof AppError ? error.publicMessage : errorText(error);
      // The page to go on with may no longer exist: then the read without a filter begins again. Where only a record is
      // wrong, the page does exist.
      const restart = error instanceof AppError && error.recovery.do === 'halt' && error.issues.length === 0;
      const next = timestampFromMs(clock.nowMs() + waitMs);
      await failPull(tx, feed, { error: text, next, isRateLimited, restart, generation: due?.generation });
    });
    await unlessLost(stored);
  }
}

/** Returns undefined when the pull is done; else how many records the next attempt requests at once. */
async function pullOnce(pull: Pull): Promise<number | undefined> {
  try {
    if (!(await skipReadNotifications(pull))) await pullToEnd(pull);
    return undefined;
  } catch (error) {
    // The pages that were stored stay stored: the next attempt goes on after them, with smaller pages.
    if (!(error instanceof PagesTooLarge)) throw error;
    await pull.transaction((tx) => saveUnfilteredNext(tx, pull.feed, null));
    return pull.reader.pageSize();
  }
}

interface Pull {
  readonly feed: FeedId & { readonly feed: FeedName };
  readonly due: DuePull;
  readonly reader: FeedReader;
  readonly store: StorePage;
  readonly database: Database;
  /** Writes only while the lease is held and the checkpoint has not been set by an operator. */
  readonly transaction: <T>(work: (tx: Sql) => Promise<T>) => Promise<T>;
  readonly latenessMs: number;
  readonly pollMs: number;
  readonly throttleMs: PullDeps['throttleMs'];
  readonly clock: Clock;
  readonly log: Logger;
}

function openPull(
  deps: PullDeps,
  lease: Lease,
  feed: Pull['feed'],
  due: DuePull,
  pageSize: number,
  signal: AbortSignal,
): Pull {
  const { source, client, clock, log } = deps;
  const latenessMs = latenessMsOf(source, due.latenessMs);
  const transaction: Pull['transaction'] = (work) =>
    lease.transaction(async (tx) => {
      await lockCheckpointAt(tx, feed, due.generation);
      return work(tx);
    });
  const reader = createFeedReader({
    client,
    feed: feed.feed,
    pageSize,
    includes: includesToRequest(feed.feed, { isWanted: source.includes, profile: due.profile }),
    onRefused: async () => {
      log.info(feed, 'the service does not accept include: related objects are not read');
      await transaction((tx) => rememberNoIncludes(tx, feed));
    },
    clock,
    during: (work) => work(signal),
  });
  const store = createPageStore({ ...deps, feed, latenessMs, transaction });
  const pollMs = source.poll_seconds * 1000;
  const { database, throttleMs } = deps;
  return { feed, due, reader, store, database, transaction, latenessMs, pollMs, throttleMs, clock, log };
}

/**
 * Marks the notifications as processed, without a request, when everything that they announce has been read already.
 * Returns whether it did so. Only the `feed_modified` of a commit-ordered feed proves that: in any other feed an
 * earlier record may have been committed since.
 */
async function skipReadNotifications({ due, transaction, clock }: Pull): Promise<boolean> {
  const { scheduled, commitOrdered, watermark, notifications } = due;
  if (scheduled || commitOrdered !== true || watermark === null || notifications.length > parsedNotificationsMax)
    return false;
  return transaction(async (tx) => {
    const bodies = await readNotificationBodies(tx, notifications);
    if (!bodies.every((body) => isAlreadyRead(body, watermark))) return false;
    await markNotificationsProcessed(tx, notifications, timestampNow(clock));
    return true;
  });
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
  const { ordered, newestShown, sourceMs, unfiltered } = await readLive(pull);
  const nextMs = clock.nowMs() + pull.pollMs;
  const scanDeps = { ...pull, granularityMicros: due.profile?.granularityMicros, nowMs: clock.nowMs() };
  await rereadRanges(scanDeps);
  const scan = ordered
    ? undefined
    : await advanceWatermark({ ...scanDeps, watermark: due.watermark, sourceMs, newestShown });
  const throttleMs = await pull.throttleMs(feed.feed);
  await pull.transaction((tx) =>
    finishPull(tx, feed, {
      notifications: due.notifications,
      now: timestampNow(clock),
      next: timestampFromMs(Math.min(nextMs, scan?.nextScanMs ?? nextMs)),
      throttledUntil: timestampFromMs(clock.nowMs() + throttleMs),
      commitOrdered: ordered,
      unfiltered,
    }),
  );
}

/** What the pages of a live read have shown so far. */
interface LiveRead {
  /** Every page declared the order of commits. */
  ordered: boolean;
  /** The stamp that was shown last. */
  lastShown: Timestamp | undefined;
  /** The newest stamp that was shown, among those that are credible. */
  newestShown: Timestamp | undefined;
  /** The last page has shown no record. */
  endedEmpty: boolean;
  /** A time that the source's clock had passed, by the last page. */
  sourceMs: number | undefined;
}

/**
 * Follows the pages to the last one. Where they loop, it goes on from the newest record, as long as that shows a later
 * one.
 */
async function readLive(pull: Pull): Promise<LiveRead & { unfiltered: boolean }> {
  const { feed, due, log } = pull;
  const read: LiveRead = {
    ordered: true,
    lastShown: undefined,
    newestShown: undefined,
    endedEmpty: false,
    sourceMs: undefined,
  };
  let from = await startOfLiveRead(pull);
  const unfiltered = isUnfiltered(from);
  const isResumed = 'next' in from;
  for (;;) {
    try {
      // Pages that were read before the feed declared its order may have skipped records: they prove nothing.
      await followPages(pull, from, due.commitOrdered !== false && !isResumed, read);
      break;
    } catch (error) {
      // Where window scans advance the watermark, a loop only delays new records: none is lost.
      if (!(error instanceof PaginationLoop) || read.ordered) throw error;
      log.warn({ err: error, ...feed }, 'the pages of the feed cannot be followed');
      const further = await boundsFromNewest(pull);
      if (further.after === undefined || (!isUnfiltered(from) && further.after <= (from.after ?? ''))) break;
      from = further;
    }
  }
  // "200, no rows" may come from a feed that is away: such an end counts when the next pull finds it once more.
  return { ...read, unfiltered: unfiltered && (isResumed || !read.endedEmpty) };
}

function isUnfiltered(from: Bounds | { next: string }): from is { next: string } | Record<string, never> {
  return 'next' in from || from.after === undefined;
}

/** While the feed declares its order, and is read from the watermark, the watermark advances with each page. */
async function followPages(
  { feed, reader, store, latenessMs, clock }: Pull,
  from: Bounds | { next: string },
  isFromWatermark: boolean,
  read: LiveRead,
): Promise<void> {
  const unfiltered = isUnfiltered(from);
  const latestCredible = () => timestampFromMs(latestCredibleMs({ nowMs: clock.nowMs(), latenessMs }));
  for await (const page of readForward(reader, from, feed.feed)) {
    read.ordered &&= page.commitOrdered;
    const { stamps } = await store({
      ...page,
      whileWriting: page.readAhead,
      // No window scan reaches a stamp in the future until its time has come: older versions there are recorded here.
      watchSuspects: (modified) => read.ordered || (modified > latestCredible() && modified < scannableBefore),
      completeTo: (shown) => {
        if (!read.ordered) return undefined;
        const timed = shown.filter((stamp) => stamp !== withoutTime);
        refuseDisorder(timed, read.lastShown, feed.feed);
        return isFromWatermark ? timed.at(-1) : undefined;
      },
      afterRecords: async (tx) => {
        if (unfiltered && !read.ordered && page.records.length > 0)
          await saveUnfilteredNext(tx, feed, page.next ?? null);
      },
    });
    read.lastShown = stamps.at(-1) ?? read.lastShown;
    const latest = latestCredible();
    read.newestShown = stamps
      .filter((stamp) => stamp <= latest)
      .reduce<Timestamp | undefined>((a, b) => laterOf(a, b), read.newestShown);
    read.endedEmpty = page.records.length === 0;
    read.sourceMs = page.sourceMs;
  }
}

/**
 * Where the live read begins. In a commit-ordered feed: at the watermark, including its record, so that it does not
 * matter whether the bound is inclusive. In any other feed: first without a filter, later at the newest record.
 */
async function startOfLiveRead(pull: Pull): Promise<Bounds | { next: string }> {
  const { watermark, commitOrdered, unfiltered, unfilteredNext } = pull.due;
  if (commitOrdered !== true && unfilteredNext !== null) return { next: unfilteredNext };
  if (commitOrdered === false) return unfiltered === null ? {} : boundsFromNewest(pull);
  return watermark === null ? {} : { after: addMicros(watermark, -1) };
}

/** From the newest record in the mirror, or from the watermark where that is later. */
async function boundsFromNewest({ feed, due, database, latenessMs, clock }: Pull): Promise<Bounds> {
  const latest = timestampFromMs(latestCredibleMs({ nowMs: clock.nowMs(), latenessMs }));
  const newest = laterOf(due.watermark ?? undefined, (await readNewestStamp(database, feed, latest)) ?? undefined);
  const granularity = due.profile?.granularityMicros ?? defaultGranularityMicros;
  return newest === undefined ? {} : { after: addMicros(newest, -granularity) };
}

/** Throws when stamps go back: once the watermark stands at a page's last record, an earlier one is never read. */
function refuseDisorder(stamps: readonly Timestamp[], before: Timestamp | undefined, feed: FeedName): void {
  for (const [index, stamp] of stamps.entries()) {
    const previous = index === 0 ? before : stamps[index - 1];
    if (previous === undefined || stamp >= previous) continue;
    throw new AppError(
      'unavailable',
      `The feed ${feed} declares the order of commits and shows another: ${stamp} comes after ${previous}.`,
      { recovery: { do: 'halt' } },
    );
  }
}
