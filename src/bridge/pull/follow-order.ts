/**
 * Reads a feed that declares the order of commits, once that is proved (`commit-order.ts`): from the watermark on, page
 * after page. A page proves that everything up to its last record was shown, so the watermark advances with each.
 */
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { disorderIn, OrderBroken, placeIn } from './commit-order.ts';
import type { PulledPage } from './feed/feed-reader.ts';
import { followPages, PagesBroken } from './follow-pages.ts';
import { followingOf, type Pull } from './pull.ts';

/**
 * Follows the pages to the last one. Returns false where the feed does not declare its order any more. Where the pages
 * break off, it goes on from the last record, as long as that shows a later one. Throws OrderBroken when the feed does not
 * keep its order, or when its pages cannot be followed at all. Rejects as the reader does.
 */
export async function followOrder(pull: Pull): Promise<boolean> {
  let reached = pull.due.watermark ?? undefined;
  for (;;) {
    const before = reached;
    let shown: Timestamp | undefined;
    try {
      // The record at the watermark is read again, so it does not matter whether the bound is inclusive; and perhaps the
      // one just before it.
      const from = before === undefined ? {} : { after: addMicros(before, -1) };
      for await (const page of followPages(pull.reader.read, from, followingOf(pull))) {
        if (!page.commitOrdered) return false;
        shown = await storeInOrder(pull, page, shown);
        reached = shown ?? reached;
      }
      return true;
    } catch (error) {
      if (!(error instanceof PagesBroken)) throw error;
      if (reached === before) throw new OrderBroken(error.publicMessage);
      pull.log.warn(
        { err: error, ...pull.feed },
        'the pages of the feed break off: it is read on from the last record',
      );
    }
  }
}

/**
 * Stores the page, which follows a record of `before`, and returns the stamp that was shown last. Once the watermark stands at a page's last
 * record, an earlier one is never read: so the order is watched.
 */
async function storeInOrder(
  { store }: Pull,
  page: PulledPage,
  before: Timestamp | undefined,
): Promise<Timestamp | undefined> {
  const { stamps } = await store({
    ...page,
    completeTo: (shown) => {
      const disorder = disorderIn(shown, before) ?? placeIn(page.next, shown.length);
      if (disorder !== undefined) throw new OrderBroken(disorder);
      return shown.at(-1);
    },
  });
  return stamps.at(-1) ?? before;
}
