/**
 * Shows new records of a feed soon: from the newest one on, page after page. This proves nothing, unless one page shows
 * all that lies after the watermark; `advance-watermark.ts` finds what it misses.
 */
import { withoutTime } from '#bridge/mirror/read-version.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { openUntimedRead } from './backfill/backfill-store.ts';
import { OrderBroken, proveOrder } from './commit-order.ts';
import { learnProfile } from './feed/checkpoint-store.ts';
import type { PulledPage } from './feed/feed-reader.ts';
import { readKnownIds, readNewestStamp } from './feed/held-records.ts';
import type { Bounds } from './feed/time-range.ts';
import { followPages, PagesBroken } from './follow-pages.ts';
import { followingOf, type Pull } from './pull.ts';
import { latestCredible } from './range/closed-bound.ts';
import { defaultGranularityMicros, ReadingStopped } from './range/range-types.ts';
import { readFeedRange } from './range/read-feed-range.ts';

/** It ends after this, also where the source grows faster than it is read: the windows must have their turn. */
const longestMs = 120_000;
/** With more records after the watermark than this part of a page, news are read from the newest one on. */
const fewOnPage = 0.8;

export interface News {
  /** The feed declares the order of its commits, and keeps it: it is to be followed, and nothing was stored. */
  readonly isOrdered: boolean;
  /** One page has shown all that lies after the watermark. */
  readonly isComplete: boolean;
  /** It has ended before the last page, as it took too long. */
  readonly isCutOff: boolean;
  /** A time that the source's clock had passed, by the first page. */
  readonly sourceMs: number | undefined;
}

/** What following the pages has come to. */
interface Followed {
  readonly first: PulledPage | undefined;
  readonly last: PulledPage | undefined;
  readonly pages: number;
  readonly isOrdered: boolean;
  readonly broken: PagesBroken | undefined;
}

/**
 * Rejects as the reader does; with OrderBroken when the order that the feed declares is refuted; with PagesBroken or
 * ReadingStopped when nothing of a feed could be read although its pages name more.
 */
export async function readNews(pull: Pull): Promise<News> {
  const { feed, clock, log } = pull;
  const { from, known } = await startOf(pull);
  let followed = await followAndStore(pull, from);
  const first = followed;
  for (let at = from; isInterrupted(pull, followed); ) {
    if (followed.broken !== undefined)
      log.warn(
        { err: followed.broken, ...feed },
        'the pages of the feed break off: it is read on from the newest record',
      );
    const further = await boundsFromNewest(pull);
    if (further.after === undefined || (at.after !== undefined && further.after <= at.after)) {
      await readRest(pull, further, followed.broken);
      break;
    }
    at = further;
    followed = await followAndStore(pull, at);
  }
  const isWhole = !first.isOrdered && !isInterrupted(pull, first) && first.last?.next === undefined;
  const isComplete = isWhole && first.pages === 1 && first.last !== undefined && first.last.records.length > 0;
  // A feed without a record that has a time is read from its beginning by each pull.
  if (isWhole && from.after === undefined && pull.changed() > 0)
    await pull.transaction((tx) =>
      openUntimedRead(tx, feed, { passes: isComplete ? 'all' : 1, now: timestampNow(clock) }),
    );
  return {
    isOrdered: first.isOrdered,
    isComplete: isComplete && showsAll(first.last, known),
    isCutOff: !followed.isOrdered && followed.broken === undefined && followed.last?.next !== undefined,
    sourceMs: first.first?.sourceMs,
  };
}

/** More may follow, although no page was named that could be read. */
function isInterrupted({ reader }: Pull, { broken, last, pages, isOrdered }: Followed): boolean {
  if (broken !== undefined) return true;
  // A source that has named a next page before has none after the last one.
  if (isOrdered || pages !== 1 || last?.next !== undefined) return false;
  return reader.cap.mayBeCut(last?.records.length ?? 0, reader.pageSize());
}

/** Whether a page shows the records that are known to lie after the watermark; undefined: it does not begin there. */
function showsAll(page: PulledPage | undefined, known: ReadonlySet<string> | undefined): boolean {
  return known?.isSubsetOf(new Set(page?.records.map(({ id }) => String(id)))) ?? false;
}

/**
 * At first from the beginning; then from the watermark, where one page may show all that lies after it, with the records
 * that are known to; else from the newest record.
 */
async function startOf(pull: Pull): Promise<{ from: Bounds; known: ReadonlySet<string> | undefined }> {
  const { feed, due, database, reader, granularityMicros = defaultGranularityMicros } = pull;
  const { watermark, scheduled, lastPull } = due;
  if (watermark === null && lastPull === null) return { from: {}, known: new Set() };
  const few = Math.floor(fewOnPage * reader.pageSize());
  if (scheduled && watermark !== null) {
    const known = await readKnownIds(database, feed, { after: watermark }, few + 1);
    if (known.size <= few) return { from: { after: addMicros(watermark, -granularityMicros) }, known };
  }
  const from = await boundsFromNewest(pull);
  return { from, known: from.after === undefined ? new Set() : undefined };
}

/** The newest record is read again, so it does not matter whether the bound is inclusive. */
async function boundsFromNewest(pull: Pull): Promise<Bounds> {
  const { granularityMicros = defaultGranularityMicros } = pull;
  const newest = await newestKnown(pull);
  return newest === undefined ? {} : { after: addMicros(newest, -granularityMicros) };
}

/** The newest stamp in the mirror that is credible, or the watermark where that is later. */
async function newestKnown({ feed, due, database, latenessMs, clock }: Pull): Promise<Timestamp | undefined> {
  const newest = await readNewestStamp(database, feed, latestCredible(clock.nowMs(), latenessMs));
  return laterOf(due.watermark ?? undefined, newest === null || newest === withoutTime ? undefined : newest);
}

/** Ends at once, with nothing stored, where the feed is to be followed in the order of its commits. */
async function followAndStore(pull: Pull, from: Bounds): Promise<Followed> {
  const { reader, store, clock } = pull;
  const endMs = clock.nowMs() + longestMs;
  let first: PulledPage | undefined;
  let last: PulledPage | undefined;
  let pages = 0;
  try {
    for await (const page of followPages(reader.read, from, followingOf(pull))) {
      if (pages === 0 && page.commitOrdered && (await isOrderKept(pull, from, page)))
        return { first: page, last: page, pages, isOrdered: true, broken: undefined };
      await store(page);
      first ??= page;
      last = page;
      pages += 1;
      if (clock.nowMs() > endMs) break;
    }
    return { first, last, pages, isOrdered: false, broken: undefined };
  } catch (error) {
    if (error instanceof PagesBroken) return { first, last, pages, isOrdered: false, broken: error };
    throw error;
  }
}

/** Throws OrderBroken when the feed's declaration is refuted. */
async function isOrderKept(pull: Pull, from: Bounds, page: PulledPage): Promise<boolean> {
  const { due, reader, feed, transaction, clock } = pull;
  if (due.profile.orderBroken !== undefined) return false;
  if (due.profile.orderProved !== undefined) return true;
  const verdict = await proveOrder(reader, { from, page, feed: feed.feed });
  if (verdict === undefined) return false;
  if (!verdict.isProved) throw new OrderBroken(verdict.why);
  await transaction((tx) => learnProfile(tx, feed, { orderProved: timestampNow(clock) }));
  return true;
}

/**
 * Reads in windows what the pages did not show before they broke off, or were cut off without a next page. This proves
 * nothing, as the range is open. But where the newest stamp fills the only page that can be read, nothing else shows that
 * there are newer records; and where no record is known, that there are any at all.
 */
async function readRest(pull: Pull, { after: from }: Bounds, broken: PagesBroken | undefined): Promise<void> {
  const { due, latenessMs, clock } = pull;
  // While the watermark is behind what is known, the windows of the closed range find more.
  if (broken !== undefined && from !== undefined && (due.watermark === null || from >= due.watermark)) return;
  const to = latestCredible(clock.nowMs(), latenessMs);
  if (from !== undefined && from >= to) return;
  // Where hidden rows fill the pages, only the shortest windows show a first record; nothing is proved by them.
  const deps = from === undefined ? { ...pull, granularityMicros: 1 } : pull;
  try {
    for await (const step of readFeedRange(deps, { from, to, isOpen: true }))
      await pull.store({ ...step, completeTo: () => undefined });
  } catch (error) {
    if (!(error instanceof ReadingStopped)) throw error;
    if (broken !== undefined && (await newestKnown(pull)) === undefined) throw error;
  }
}
