/**
 * Reads the records that have no time: they match no filter by time, so the feed is read by its pages without one. Such a
 * pass may skip a record that moves between the pages. So there are passes of different page sizes, until one after the
 * first has found no such record that was not known before.
 */
import type { FeedReader, PulledPage } from '../feed/feed-reader.ts';
import { sizeOfPass } from '../feed/pass-size.ts';
import { followPages, PagesBroken } from '../follow-pages.ts';
import { proveLastPage } from '../range/prove-last-page.ts';

/** With more passes than this the records change faster than they can be read: full audits find what is left. */
const passesMax = 12;

export interface UntimedRead {
  /** Page after page, pass after pass. `found` is called with the records of each page that were not known before. */
  readonly pages: AsyncGenerator<PulledPage>;
  readonly found: (records: number) => void;
}

/** Rejects as the reader does, and with PagesBroken. */
export function readUntimed(
  reader: FeedReader,
  options: {
    /** The feed was read by its pages once before. */
    wasReadOnce: boolean;
    pace: () => Promise<void>;
  },
): UntimedRead {
  let found = 0;
  const ask: FeedReader['read'] = async (at) => {
    await options.pace();
    // A pass that ended for lack of quota would begin again, and spend the next quota on the same pages.
    return reader.read(at, { waitsForQuota: true });
  };
  async function* readPasses(): AsyncGenerator<PulledPage> {
    for (let pass = options.wasReadOnce ? 1 : 0; pass < passesMax; pass += 1) {
      found = 0;
      let pages = 0;
      let records = 0;
      const pageSize = sizeOfPass(reader.pageSize(), pass);
      for await (const page of followPages(ask, { pageSize })) {
        yield page;
        pages += 1;
        records += page.records.length;
      }
      if (pages === 1 && records > 0) {
        // The page may have been too large, and was asked for with fewer records.
        await requireWhole(records, Math.min(pageSize, reader.pageSize()));
        return;
      }
      if (pass > 0 && found === 0) return;
    }
  }
  /** Throws PagesBroken unless a page of so many records, which names no next one, is known to show the whole feed. */
  async function requireWhole(records: number, requested: number): Promise<void> {
    if (!reader.cap.mayBeCut(records, requested)) return;
    const proof = await proveLastPage((pageSize) => ask({ pageSize }), records, requested);
    if (proof !== 'last')
      throw new PagesBroken(
        `a page of ${records} records names no next page, ` +
          (proof === undefined ? 'and whether more follow cannot be known.' : 'although more follow.'),
      );
    reader.cap.noteWhole(records);
  }
  return {
    pages: readPasses(),
    found: (records) => {
      found += records;
    },
  };
}
