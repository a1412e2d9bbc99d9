/**
 * The passes without a filter that follow the first one (`feed/unfiltered-store.ts`), some pages in each pull, so that
 * they do not hold up the live read of a long feed.
 */
import { timestampNow } from '#platform/clock.ts';
import type { FeedReader } from './feed/feed-reader.ts';
import { sizeOfPass } from './feed/pass-size.ts';
import {
  breakUnfilteredPass,
  finishUnfilteredPass,
  readUnfiltered,
  saveUnfilteredPage,
} from './feed/unfiltered-store.ts';
import type { Pull } from './pull.ts';
import { PagesBroken, readForward } from './read-forward.ts';
import { proveLastPage } from './windows/prove-last-page.ts';

const pagesOfOnePull = 20;

/**
 * Whether more records follow a full page that is the only one of a pass and names no next page; `why` says that it cannot
 * be known. Rejects as the reader does.
 */
export async function lookBehindPage(
  reader: FeedReader,
  size: number,
  requested: number,
): Promise<{ isMore: boolean; why?: string }> {
  const proof = await proveLastPage((pageSize) => reader.read({ pageSize }), size, requested);
  if (proof === 'last') reader.cap.noteWhole(size);
  const why = `a page of ${size} records names no next page, and whether more follow cannot be known.`;
  return proof === undefined ? { isMore: true, why } : { isMore: proof !== 'last' };
}

/** Reads on; returns when the next pages are due, undefined when none are. Rejects as the reader does. */
export async function continueUnfiltered(pull: Pull): Promise<number | undefined> {
  const { feed, due, reader, store, transaction, latenessMs, clock, log } = pull;
  if (due.unfiltered !== null) return undefined;
  const at = await readUnfiltered(pull.database, feed);
  if (at.finished !== null || at.pass === 0) return undefined;
  if (at.due !== null && at.due > timestampNow(clock)) return undefined;
  const pageSize = sizeOfPass(reader.pageSize(), at.pass);
  const from = at.next === null ? { pageSize } : { next: at.next };
  const options = { feed: feed.feed, emptyPages: pull.emptyPages, clock, hasFailedBefore: due.failures > 1 };
  let pages = 0;
  try {
    for await (const page of readForward(reader, from, options)) {
      pages += 1;
      const isOnePage = pages === 1 && at.next === null && page.next === undefined;
      const mayBeCut = isOnePage && reader.cap.mayBeCut(page.records.length, pageSize);
      const cut = mayBeCut ? await lookBehindPage(reader, page.records.length, pageSize) : undefined;
      if (cut?.why !== undefined) throw new PagesBroken(feed.feed, cut.why);
      await store({
        ...page,
        watchSuspects: false,
        afterRecords: async (tx, { changedWithoutTime: found }) => {
          if (page.next !== undefined) return saveUnfilteredPage(tx, feed, { next: page.next, found });
          await saveUnfilteredPage(tx, feed, { next: undefined, found });
          const isSnapshot = isOnePage && page.records.length > 0 && !cut?.isMore;
          await finishUnfilteredPass(tx, feed, { isSnapshot, now: timestampNow(clock) });
        },
      });
      if (pages >= pagesOfOnePull) break;
    }
  } catch (error) {
    if (!(error instanceof PagesBroken)) throw error;
    log.warn({ err: error, ...feed }, 'records without a time are read again later');
    await transaction((tx) => breakUnfilteredPass(tx, feed, { why: error.publicMessage, now: timestampNow(clock) }));
    return undefined;
  }
  const { finished } = await readUnfiltered(pull.database, feed);
  return finished === null ? clock.nowMs() + latenessMs / 2 : undefined;
}
