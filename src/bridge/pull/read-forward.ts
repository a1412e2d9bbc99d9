/** Following the pages of a feed: its `next`, to the last page, and never round in a circle. */
import { setImmediate } from 'node:timers/promises';
import type { FeedName } from '#contract/feed.ts';
import { AppError } from '#platform/errors.ts';
import { type Version, versionsOf } from '../mirror/read-version.ts';
import type { FeedReader, PulledPage } from './feed/feed-reader.ts';
import type { Bounds } from './windows/window-scan.ts';

/** Pages in a row that show nothing, or what the page before showed. */
const idlePagesMax = 20;
const asksForEmpty = 3;
/** Takes about a millisecond. */
const recordsPerSlice = 100;

/** `next` leads back to a page that was read, or shows nothing new for too long. */
export class PaginationLoop extends AppError {
  constructor(feed: string) {
    super('unavailable', `A page of the feed ${feed} leads nowhere: its "next" gives no further records.`, {
      recovery: { do: 'halt' },
    });
    this.name = 'PaginationLoop';
  }
}

export interface ForwardPage extends PulledPage {
  /** The records as the mirror takes them, where that has been worked out already. */
  readonly versions?: readonly Version[] | undefined;
  /** Begins to read the page that follows, while this one is stored. */
  readonly readAhead: () => void;
}

/**
 * Gives page after page; what was given before is not asked for again. Throws PaginationLoop rather than going round in a
 * circle. Whoever leaves it waits for a request that is under way.
 */
export async function* readForward(
  reader: FeedReader,
  from: Bounds | { next: string },
  feed: FeedName,
): AsyncGenerator<ForwardPage> {
  const links = new Set('next' in from ? [from.next] : []);
  let shown = '';
  let idle = 0;
  let coming: Promise<ReadPageOf> | undefined;
  try {
    for (let at = from; ; ) {
      const page = await (coming ?? readWhole(reader, at));
      coming = undefined;
      const { next } = page;
      const readAhead = () => {
        if (next === undefined || links.has(next)) return;
        coming ??= readWithVersions(reader, { next }, feed);
        // What goes wrong is told when it is this page's turn.
        coming.catch(() => undefined);
      };
      yield { ...page, readAhead };
      if (next === undefined) return;
      const print = page.records.map(({ id, modified }) => `${String(id)} ${String(modified)}`).join();
      idle = page.records.length === 0 || print === shown ? idle + 1 : 0;
      shown = print;
      if (links.has(next) || idle > idlePagesMax) throw new PaginationLoop(feed);
      links.add(next);
      at = { next };
    }
  } finally {
    await coming?.catch(() => undefined);
  }
}

type ReadPageOf = Omit<ForwardPage, 'readAhead'>;

/** "200, no rows" proves nothing: where more was announced, it is asked for again. */
async function readWhole(reader: FeedReader, at: Bounds | { next: string }): Promise<ReadPageOf> {
  const triesMax = 'next' in at ? asksForEmpty : 1;
  let page = await reader.read(at);
  for (let tries = 1; tries < triesMax && isEnd(page); tries += 1) page = await reader.read(at);
  return page;
}

function isEnd({ records, next }: ReadPageOf): boolean {
  return records.length === 0 && next === undefined;
}

async function readWithVersions(reader: FeedReader, at: { next: string }, feed: FeedName): Promise<ReadPageOf> {
  const page = await readWhole(reader, at);
  return { ...page, versions: await versionsIfReadable(page.records, feed) };
}

/**
 * Undefined where one cannot be read: that is told when the page is stored. A slice at a time: what the database answers
 * of the page before is gone on with in between.
 */
async function versionsIfReadable(records: PulledPage['records'], feed: FeedName): Promise<Version[] | undefined> {
  const versions: Version[] = [];
  try {
    for (let at = 0; at < records.length; at += recordsPerSlice) {
      if (at > 0) await setImmediate();
      versions.push(...versionsOf(records.slice(at, at + recordsPerSlice), feed));
    }
    return versions;
  } catch {
    return undefined;
  }
}
