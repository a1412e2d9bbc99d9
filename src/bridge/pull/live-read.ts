/**
 * The live read of a feed: from the newest record on, page by page, so that new records arrive soon. In a feed whose
 * order of commits is proved it begins at the watermark, which advances with each page.
 */
import { withoutTime } from '#bridge/mirror/read-version.ts';
import type { ClockDifference } from '#client/read-feed.ts';
import { addMicros, laterOf, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { disorderIn, OrderBroken, placeIn, proveOrder } from './commit-order.ts';
import { markScanned, saveFollowed, saveOrderProved } from './feed/checkpoint-store.ts';
import type { PulledPage } from './feed/feed-reader.ts';
import { readNewestStamp } from './feed/held-records.ts';
import type { Bounds } from './feed/time-range.ts';
import { breakUnfilteredPass, finishUnfilteredPass, saveUnfilteredPage } from './feed/unfiltered-store.ts';
import type { Pull } from './pull.ts';
import { PagesBroken, readForward } from './read-forward.ts';
import { lookBehindPage } from './unfiltered-passes.ts';
import { scanFeed } from './windows/scan-feed.ts';
import { defaultGranularityMicros, ScanStopped } from './windows/scan-types.ts';
import { latestCredibleMs } from './windows/upper-bound.ts';

/** A search for the first record of a feed takes some 40 requests: it is made no more often than this. */
const searchEveryMs = 300_000;

/** Microseconds are exact up to the year 2255: no window is asked for around a later stamp. */
const scannableBefore: Timestamp = '2250-01-01T00:00:00.000000Z';

/**
 * A live read that proves nothing ends after this, also where the source grows faster than it is read: the window scan
 * must have its turn.
 */
const longestMs = 120_000;

/** What the pages of a live read have shown. */
export interface LiveRead {
  /** Every page declared the order of commits, and it is proved. */
  ordered: boolean;
  /** The read did not begin where the next one will: that is to follow at once. */
  isBehind: boolean;
  /** The stamp that was shown last. */
  lastShown: Timestamp | undefined;
  /** The newest stamp that was shown, among those that are credible. */
  newestShown: Timestamp | undefined;
  /** A time that the source's clock had passed, by the last page. */
  sourceMs: number | undefined;
  clockDifference: ClockDifference | undefined;
  pages: number;
  /** It has ended before the last page, as it took too long. */
  isCutOff: boolean;
  /** The last page has shown no record. */
  endedEmpty: boolean;
  /** A page has named a next one. */
  namesNext: boolean;
  /** The last page has named no next one, and may have been cut off all the same. */
  endedFull: boolean;
  /** How many records the last page has shown. */
  lastPage: number;
  /** Why nothing of the feed could be read, although its pages name more; undefined when something could. */
  stoppedBy: string | undefined;
}

type From = Bounds | { readonly next: string };

/**
 * Follows the pages to the last one. Where they break off, it goes on from the newest record, as long as that shows a
 * later one: the rest is left to window scans. Rejects with OrderBroken when the feed does not keep the order that it
 * declares, and with PagesBroken when nothing of a feed in order could be read.
 */
export async function readLive(pull: Pull): Promise<LiveRead> {
  const { feed, due, log } = pull;
  const read: LiveRead = {
    ordered: due.orderBroken === null,
    isBehind: false,
    lastShown: undefined,
    newestShown: undefined,
    sourceMs: undefined,
    clockDifference: undefined,
    pages: 0,
    isCutOff: false,
    endedEmpty: false,
    namesNext: false,
    endedFull: false,
    lastPage: 0,
    stoppedBy: undefined,
  };
  const start = await startOfLiveRead(pull);
  const { isFirstPass, isResumed, isWithoutGap } = start;
  let { from } = start;
  let firstPass: LiveRead | undefined;
  let broken: PagesBroken | undefined;
  for (;;) {
    let error: PagesBroken | undefined;
    try {
      await followFrom(pull, from, { read, isWithoutGap, isFirstPass: isFirstPass && from === start.from });
    } catch (thrown) {
      if (!(thrown instanceof PagesBroken)) throw thrown;
      error = thrown;
    }
    firstPass ??= { ...read };
    if (error === undefined && !read.endedFull) break;
    // More may follow: it is asked for from the newest record on, where that shows a later one.
    const further = read.ordered ? boundsFrom(read.lastShown) : await boundsFromNewest(pull);
    const before = 'next' in from ? undefined : from.after;
    const goesOn = further.after !== undefined && (before === undefined || further.after > before);
    if (error !== undefined) {
      // Nothing else moves the watermark of a feed in order.
      if (read.ordered && !goesOn) throw error;
      log.warn({ err: error, ...feed }, 'the pages of the feed cannot be followed');
      broken ??= error;
    }
    if (!goesOn) {
      if (error !== undefined || !read.namesNext)
        await readRestInWindows(pull, further, { read, isCut: error === undefined });
      break;
    }
    from = further;
  }
  // A read that went on at a page has not looked at the pages before it since the notifications came. The scan does not
  // reach all that may have changed there: a stamp in the future may even have stayed the same.
  read.isBehind = isResumed || read.isCutOff || (read.ordered && !isWithoutGap);
  if (isFirstPass && !read.isCutOff) await endFirstPass(pull, { ...(firstPass ?? read), isResumed, broken });
  return read;
}

/** Ends the first pass over the feed without a filter: it is the only one where its answer was one whole page. */
async function endFirstPass(
  pull: Pull,
  pass: LiveRead & { readonly isResumed: boolean; readonly broken: PagesBroken | undefined },
): Promise<void> {
  const { feed, clock } = pull;
  const { ordered, isResumed, pages, endedEmpty } = pass;
  const isOnePage = pages === 1 && !isResumed && !ordered;
  const cut =
    pass.endedFull && isOnePage ? await lookBehindPage(pull.reader, pass.lastPage, pull.reader.pageSize()) : undefined;
  const why = pass.broken?.publicMessage ?? cut?.why;
  // "200, no rows" may come from a feed that is away: such an end counts when the next pull finds it once more.
  const isEnd = isResumed || !endedEmpty;
  await pull.transaction(async (tx) => {
    const now = timestampNow(clock);
    if (why !== undefined && !ordered) await breakUnfilteredPass(tx, feed, { why, now });
    else if (isEnd) await finishUnfilteredPass(tx, feed, { isSnapshot: ordered || (isOnePage && !cut?.isMore), now });
  });
}

/**
 * Reads in windows what the pages did not show before they broke off, or were cut off without a next page (`isCut`):
 * windows need no pages. This proves nothing, as the range is open. But where the newest stamp fills the only page that can be read, nothing else shows that there are newer
 * records, and the window scan ends at the newest one that is known. Where none is known, as all pages that can be read
 * are empty, nothing else shows that there are records at all.
 */
async function readRestInWindows(
  pull: Pull,
  { after: from }: Bounds,
  { read, isCut }: { read: LiveRead; isCut: boolean },
): Promise<void> {
  const { feed, due, latenessMs, clock, transaction } = pull;
  const latest = timestampFromMs(latestCredibleMs({ nowMs: clock.nowMs(), latenessMs }));
  const to = laterOf(latest, read.lastShown);
  // While the watermark is behind what is known, the window scan of the closed range finds more.
  const isScanBehind = !isCut && from !== undefined && (due.watermark === null || from >= due.watermark);
  if (isScanBehind || to === undefined || read.ordered || to >= scannableBefore) return;
  if (from === undefined) {
    const now = timestampNow(clock);
    const isSearched = due.scanned !== null && due.scanned <= now;
    if (isSearched && due.scanned > timestampFromMs(clock.nowMs() - searchEveryMs)) return;
    await transaction((tx) => markScanned(tx, feed, now));
  }
  try {
    for await (const { records, includes, observed } of scanFeed(pull, { from, to })) {
      const watchSuspects = (modified: Timestamp) => modified > latest;
      const { stamps } = await pull.store({
        records: records.map(({ record }) => record),
        includes,
        observed,
        watchSuspects,
      });
      noteShown(read, stamps, latest);
    }
  } catch (error) {
    if (!(error instanceof ScanStopped)) throw error;
    // With a record that is known, the window scan of the closed range comes next, and says what stands still.
    if (from === undefined && read.newestShown === undefined) read.stoppedBy = error.publicMessage;
  }
}

/** While the order of commits is proved, and the read leaves no gap, the watermark advances with each page. */
async function followFrom(
  pull: Pull,
  from: From,
  { read, isWithoutGap, isFirstPass }: Pick<LiveStart, 'isWithoutGap' | 'isFirstPass'> & { read: LiveRead },
): Promise<void> {
  const { feed, due, reader, store, latenessMs, clock } = pull;
  const latestCredible = () => timestampFromMs(latestCredibleMs({ nowMs: clock.nowMs(), latenessMs }));
  const options = { feed: feed.feed, emptyPages: pull.emptyPages, clock, hasFailedBefore: due.failures > 1 };
  const endMs = clock.nowMs() + longestMs;
  let isProved = due.orderProved !== null;
  // A read that goes on from the last record may show those just before it again.
  let before: Timestamp | undefined;
  for await (const page of readForward(reader, from, options)) {
    const isFirst = read.pages === 0;
    if (isFirst && page.commitOrdered && read.ordered && !isProved && !('next' in from))
      isProved = await isOrderProved(pull, from, page);
    read.ordered &&= page.commitOrdered && isProved;
    const { stamps } = await store({
      ...page,
      // No window scan reaches a stamp in the future until its time has come: older versions there are recorded here.
      watchSuspects: (modified) => read.ordered || (modified > latestCredible() && modified < scannableBefore),
      completeTo: (shown) => {
        if (!read.ordered) return undefined;
        refuseDisorder(page, shown, before);
        return isWithoutGap ? shown.at(-1) : undefined;
      },
      afterRecords: async (tx, { changedWithoutTime: found }) => {
        // Otherwise a read that is interrupted would begin again at the beginning, however often.
        if (isFirst && read.ordered && isWithoutGap && due.commitOrdered === false) await saveFollowed(tx, feed);
        if (isFirstPass && !read.ordered && page.records.length > 0)
          await saveUnfilteredPage(tx, feed, { next: page.next, found });
      },
    });
    noteShown(read, stamps, latestCredible());
    before = read.lastShown;
    read.pages += 1;
    read.namesNext ||= page.next !== undefined;
    read.lastPage = page.records.length;
    read.endedEmpty = page.records.length === 0;
    read.endedFull = page.next === undefined && reader.cap.mayBeCut(page.records.length, reader.pageSize());
    read.sourceMs = page.sourceMs;
    read.clockDifference = page.clockDifference;
    read.isCutOff = !read.ordered && page.next !== undefined && clock.nowMs() > endMs;
    if (read.isCutOff) return;
  }
}

/** Throws OrderBroken when the feed's declaration is refuted. */
async function isOrderProved({ reader, feed, transaction, clock }: Pull, from: Bounds, page: PulledPage) {
  const verdict = await proveOrder(reader, { from, page, feed: feed.feed });
  if (verdict === undefined) return false;
  if (!verdict.isProved) throw new OrderBroken(verdict.why);
  await transaction((tx) => saveOrderProved(tx, feed, timestampNow(clock)));
  return true;
}

/** Once the watermark stands at a page's last record, an earlier one is never read: the order is watched. */
function refuseDisorder(page: PulledPage, shown: readonly Timestamp[], before: Timestamp | undefined): void {
  const why =
    disorderIn(
      shown.map((modified) => ({ modified })),
      before,
    ) ?? placeIn(page.next, shown.length);
  if (why !== undefined) throw new OrderBroken(why);
}

function noteShown(read: LiveRead, stamps: readonly Timestamp[], latest: Timestamp): void {
  read.lastShown = stamps.at(-1) ?? read.lastShown;
  read.newestShown = stamps
    .filter((stamp) => stamp <= latest && stamp !== withoutTime)
    .reduce<Timestamp | undefined>((a, b) => laterOf(a, b), read.newestShown);
}

/** Where a live read begins, and what it can prove. */
interface LiveStart {
  readonly from: From;
  /** It belongs to the first pass over the feed without a filter, which finds records that have no time. */
  readonly isFirstPass: boolean;
  /** It goes on at a page, where the read before it was interrupted. */
  readonly isResumed: boolean;
  /** Nothing unread lies before it: if the feed is in order, the watermark advances with its pages. */
  readonly isWithoutGap: boolean;
}

/**
 * Chooses where the live read begins:
 *
 * | by the last pull the feed is | its first pass        | the live read begins                                      | without a gap |
 * |------------------------------|-----------------------|-----------------------------------------------------------|---------------|
 * | in order, or none was made   | was not interrupted   | at the watermark; without one, at the beginning           | yes           |
 * | not in order, or none was    | was interrupted       | at the page that comes next                               | no            |
 * | not in order                 | begins                | at the beginning                                          | yes           |
 * | not in order                 | has ended             | at the newest record: window scans prove what lies before | no            |
 *
 * The record at the watermark, and the newest one, are read again, so it does not matter whether the bound is inclusive.
 * Pages that were read before a feed declared its order may have skipped records: they prove nothing, and a read from the
 * beginning needs none of them.
 */
async function startOfLiveRead(pull: Pull): Promise<LiveStart> {
  const { watermark, commitOrdered, unfiltered, unfilteredPass, unfilteredNext } = pull.due;
  const isPassOpen = unfiltered === null && unfilteredPass === 0;
  if (commitOrdered !== true && isPassOpen && unfilteredNext !== null)
    return { from: { next: unfilteredNext }, isFirstPass: true, isResumed: true, isWithoutGap: false };
  if (commitOrdered !== false) {
    const from = boundsFrom(watermark ?? undefined);
    return { from, isFirstPass: isPassOpen && from.after === undefined, isResumed: false, isWithoutGap: true };
  }
  if (isPassOpen) return { from: {}, isFirstPass: true, isResumed: false, isWithoutGap: true };
  const from = await boundsFromNewest(pull);
  // Where no record is known, it is the beginning.
  return { from, isFirstPass: false, isResumed: false, isWithoutGap: from.after === undefined };
}

function boundsFrom(stamp: Timestamp | undefined): Bounds {
  return stamp === undefined ? {} : { after: addMicros(stamp, -1) };
}

/** From the newest record in the mirror, or from the watermark where that is later. */
async function boundsFromNewest({ feed, due, database, latenessMs, clock }: Pull): Promise<Bounds> {
  const latest = timestampFromMs(latestCredibleMs({ nowMs: clock.nowMs(), latenessMs }));
  const newest = laterOf(due.watermark ?? undefined, (await readNewestStamp(database, feed, latest)) ?? undefined);
  const granularity = due.profile?.granularityMicros ?? defaultGranularityMicros;
  return newest === undefined ? {} : { after: addMicros(newest, -granularity) };
}
