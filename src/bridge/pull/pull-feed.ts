/**
 * The pull of one feed: from its watermark to its end, page by page. Each page is one transaction under the feed's
 * lease: versions stored, documents marked, watermark moved. A kill between two pages costs reading one page again.
 *
 * A feed may declare to be commit-ordered (header `Feed-Order: commit`): the order of `modified` is the order of commits
 * and `next` is a cursor over it. Then everything up to the last record of a page has been seen, and the watermark moves
 * with each page; one that declares it and shows another order is refused. Of any other feed the pages are only the quick
 * news: the watermark moves when a range of time is settled (`settle-feed.ts`). Such a feed is first read once without a
 * filter, for records that have no `modified`.
 */
import { z } from 'zod';
import type { SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestamp } from '#contract/scalars.ts';
import { addMicros, laterOf, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database, Sql } from '#platform/database/database.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import { type AcquireLease, type Lease, LeaseLost, unlessLost } from '../leases/lease.ts';
import { withoutTime } from '../mirror/read-version.ts';
import { retrySchedules, retryWaitMs } from '../retry-schedules.ts';
import type { SourceSettings } from '../settings.ts';
import {
  answerNotifications,
  CheckpointMoved,
  type DuePull,
  type FeedId,
  failPull,
  finishPull,
  holdCheckpoint,
  readDuePull,
  readFailures,
  readNewest,
  readNotificationBodies,
  rememberNoIncludes,
  saveUnfilteredNext,
} from './feed/checkpoint-store.ts';
import { createFeedReader, type FeedReader, includesOf, PagesTooLarge } from './feed/feed-reader.ts';
import { createPageStore, type StorePage } from './feed/page-store.ts';
import { PaginationLoop, readForward } from './read-forward.ts';
import { advanceWatermark, newestMs, rereadRanges } from './windows/advance-watermark.ts';
import { type Bounds, defaultGranularityMicros } from './windows/window-scan.ts';

/** What reading a feed into the mirror needs, whether live or over a range beside it. */
export interface ReadingDeps {
  source: SourceSettings;
  client: Pick<SourceClient, 'readFeed'>;
  database: Database;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  records: Counter<'feed' | 'result'>;
  /** Wakes the flows of this source, after a commit that marked documents. */
  wakeFlows: () => void;
}

export interface PullDeps extends ReadingDeps {
  /** How long a feed's next notification waits. */
  throttleMs: (feed: FeedName) => Promise<number>;
}

/** More notifications than this are not looked into: one of them is news. */
const notificationsLookedInto = 200;
/** Times that are later than this cannot be counted in microseconds, and no window is asked for around them. */
const countableBefore: Timestamp = '2250-01-01T00:00:00.000000Z';

const announcement = z.looseObject({ payload: z.looseObject({ feed_modified: timestamp }) });

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
  let pageSize = source.page_size;
  let due: DuePull | undefined;
  try {
    for (;;) {
      due = await lease.transaction((tx) => readDuePull(tx, feed, timestampNow(clock)));
      if (!due) return;
      const found = due;
      const smaller = await lease.during((lost) =>
        // All of it, not each request: one may be under way while the page before is stored.
        pullOnce(openPull(deps, lease, feed, found, pageSize, AbortSignal.any([signal, lost]))),
      );
      if (smaller === undefined) return;
      pageSize = smaller;
    }
  } catch (error) {
    // A checkpoint that a person has set is due at once; this pull belongs to the one before.
    if (error instanceof LeaseLost || error instanceof CheckpointMoved || signal.aborted) return;
    const hadToWait = error instanceof AppError && error.code === 'too-many';
    if (hadToWait) log.info({ ...feed }, `pull waits: ${error.message}`);
    else log.warn({ err: error, ...feed }, 'pull failed');
    const noted = lease.transaction(async (tx) => {
      const waitMs = retryWaitMs(retrySchedules.pull, await readFailures(tx, feed), { floorMs: askedToWaitMs(error) });
      const text = error instanceof AppError ? error.publicMessage : errorText(error);
      // A page to go on with may not be there any more: then it is begun anew. Where only a record is at fault, it is.
      const restart = error instanceof AppError && error.recovery.do === 'halt' && error.issues.length === 0;
      const next = timestampFromMs(clock.nowMs() + waitMs);
      await failPull(tx, feed, { error: text, next, hadToWait, restart, generation: due?.generation });
    });
    await unlessLost(noted);
  }
}

/** Undefined when it is done; else how many records to ask for at once in the next try. */
async function pullOnce(pull: Pull): Promise<number | undefined> {
  try {
    if (!(await answerOldNews(pull))) await pullToEnd(pull);
    return undefined;
  } catch (error) {
    // What was stored is stored: it goes on from there, with smaller pages.
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
  /** Writes only while the lease is held and nobody has set the checkpoint. */
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
  const latenessMs = Math.max(source.lateness_seconds * 1000, due.latenessMs ?? 0);
  const transaction: Pull['transaction'] = (work) =>
    lease.transaction(async (tx) => {
      await holdCheckpoint(tx, feed, due.generation);
      return work(tx);
    });
  const known = due.profile?.includes;
  const reader = createFeedReader({
    client,
    feed: feed.feed,
    pageSize,
    includes: source.includes ? includesOf(feed.feed).filter((name) => known?.includes(name) ?? true) : [],
    onRefused: async () => {
      log.info(feed, 'the service does not take include: related objects are not read');
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
 * Notifications of a commit-ordered feed whose `feed_modified` has been read already ask for nothing; it is believed of
 * no other feed, where something earlier may have been committed since.
 */
async function answerOldNews({ due, transaction, clock }: Pull): Promise<boolean> {
  const { scheduled, commitOrdered, watermark, notifications } = due;
  if (scheduled || commitOrdered !== true || watermark === null || notifications.length > notificationsLookedInto)
    return false;
  return transaction(async (tx) => {
    const bodies = await readNotificationBodies(tx, notifications);
    if (!bodies.every((body) => isOldNews(body, watermark))) return false;
    await answerNotifications(tx, notifications, timestampNow(clock));
    return true;
  });
}

function isOldNews(body: string, watermark: Timestamp): boolean {
  try {
    const announced = announcement.safeParse(JSON.parse(body));
    return announced.success && announced.data.payload.feed_modified <= watermark;
  } catch {
    return false;
  }
}

async function pullToEnd(pull: Pull): Promise<void> {
  const { feed, due, clock } = pull;
  const { ordered, latest, sourceMs, unfiltered } = await readNews(pull);
  const nextMs = clock.nowMs() + pull.pollMs;
  const reading = { ...pull, granularityMicros: due.profile?.granularityMicros, nowMs: clock.nowMs() };
  await rereadRanges(reading);
  const open = ordered
    ? undefined
    : await advanceWatermark({ ...reading, watermark: due.watermark, sourceMs, shown: latest });
  const paceMs = await pull.throttleMs(feed.feed);
  await pull.transaction((tx) =>
    finishPull(tx, feed, {
      notifications: due.notifications,
      now: timestampNow(clock),
      next: timestampFromMs(Math.min(nextMs, open?.againMs ?? nextMs)),
      throttledUntil: timestampFromMs(clock.nowMs() + paceMs),
      commitOrdered: ordered,
      unfiltered,
    }),
  );
}

interface News {
  /** Every page declared the order of commits. */
  ordered: boolean;
  /** The last time that was shown. */
  shown: Timestamp | undefined;
  /** The latest time that was shown and is no news of the future. */
  latest: Timestamp | undefined;
  /** The last page has shown nothing. */
  endedBlank: boolean;
  /** What the source's clock had passed, by the last page. */
  sourceMs: number | undefined;
}

/** Follows the pages to the last one; where they go round in a circle, from the newest record on, as long as it helps. */
async function readNews(pull: Pull): Promise<News & { unfiltered: boolean }> {
  const { feed, due, log } = pull;
  const news: News = { ordered: true, shown: undefined, latest: undefined, endedBlank: false, sourceMs: undefined };
  let from = await beginningOf(pull);
  const unfiltered = isUnfiltered(from);
  const isResumed = 'next' in from;
  for (;;) {
    try {
      // Of what was read before its order was declared nobody knows what is missing.
      await followPages(pull, from, due.commitOrdered !== false && !isResumed, news);
      break;
    } catch (error) {
      // Where the watermark moves by windows this makes news slower, and loses nothing.
      if (!(error instanceof PaginationLoop) || news.ordered) throw error;
      log.warn({ err: error, ...feed }, 'the pages of the feed cannot be followed');
      const further = await newestBounds(pull);
      if (further.after === undefined || (!isUnfiltered(from) && further.after <= (from.after ?? ''))) break;
      from = further;
    }
  }
  // "200, no rows" may be a feed that is away: such an end counts when it is found once more, by the next pull.
  return { ...news, unfiltered: unfiltered && (isResumed || !news.endedBlank) };
}

function isUnfiltered(from: Bounds | { next: string }): from is { next: string } | Record<string, never> {
  return 'next' in from || from.after === undefined;
}

/** While the feed declares its order, and is read from the watermark, the watermark moves with each page. */
async function followPages(
  { feed, reader, store, latenessMs, clock }: Pull,
  from: Bounds | { next: string },
  isFromWatermark: boolean,
  news: News,
): Promise<void> {
  const unfiltered = isUnfiltered(from);
  const latestNow = () => timestampFromMs(newestMs({ nowMs: clock.nowMs(), latenessMs }));
  for await (const page of readForward(reader, from, feed.feed)) {
    news.ordered &&= page.commitOrdered;
    const { times } = await store({
      ...page,
      whileWriting: page.readAhead,
      // What is dated so late settles only when its time has come.
      suspects: (modified) => news.ordered || (modified > latestNow() && modified < countableBefore),
      completeTo: (shown) => {
        if (!news.ordered) return undefined;
        const stamped = shown.filter((time) => time !== withoutTime);
        refuseDisorder(stamped, news.shown, feed.feed);
        return isFromWatermark ? stamped.at(-1) : undefined;
      },
      also: async (tx) => {
        if (unfiltered && !news.ordered && page.records.length > 0)
          await saveUnfilteredNext(tx, feed, page.next ?? null);
      },
    });
    news.shown = times.at(-1) ?? news.shown;
    const until = latestNow();
    news.latest = times
      .filter((time) => time <= until)
      .reduce<Timestamp | undefined>((a, b) => laterOf(a, b), news.latest);
    news.endedBlank = page.records.length === 0;
    news.sourceMs = page.sourceMs;
  }
}

/**
 * Where the pages are followed from. A commit-ordered feed: from the watermark, with its record once more, so that it
 * does not matter whether the bound is inclusive. Any other: first without a filter; then from the newest record.
 */
async function beginningOf(pull: Pull): Promise<Bounds | { next: string }> {
  const { watermark, commitOrdered, unfiltered, unfilteredNext } = pull.due;
  if (commitOrdered !== true && unfilteredNext !== null) return { next: unfilteredNext };
  if (commitOrdered === false) return unfiltered === null ? {} : newestBounds(pull);
  return watermark === null ? {} : { after: addMicros(watermark, -1) };
}

/** From the newest record, or from the watermark where that is later. */
async function newestBounds({ feed, due, database, latenessMs, clock }: Pull): Promise<Bounds> {
  const until = timestampFromMs(newestMs({ nowMs: clock.nowMs(), latenessMs }));
  const newest = laterOf(due.watermark ?? undefined, (await readNewest(database, feed, until)) ?? undefined);
  const granularity = due.profile?.granularityMicros ?? defaultGranularityMicros;
  return newest === undefined ? {} : { after: addMicros(newest, -granularity) };
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
