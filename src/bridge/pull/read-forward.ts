/** Follows the pages of a feed by `next` to the last one, and reads the next page while the caller stores this one. */
import { setImmediate } from 'node:timers/promises';
import type { FeedName } from '#contract/feed.ts';
import { AppError } from '#platform/errors.ts';
import { type Version, versionsOf } from '../mirror/read-version.ts';
import type { FeedReader, PulledPage } from './feed/feed-reader.ts';
import type { Bounds } from './feed/time-range.ts';

/** So many pages may follow each other that show no record, or the same records as the page before. */
const idlePagesMax = 20;
/** An empty last page is asked for this often in all. */
const attemptsForEmptyEnd = 3;
/** Preparing so many records takes about a millisecond. */
const recordsPerSlice = 100;

/** `next` returns to a page that was read already, or too many pages in a row show nothing new. */
export class PaginationLoop extends AppError {
  constructor(feed: string) {
    super('unavailable', `The pages of the feed ${feed} loop: "next" returns nothing new.`, {
      recovery: { do: 'halt' },
    });
    this.name = 'PaginationLoop';
  }
}

export interface ForwardPage extends PulledPage {
  /** The records as the mirror stores them; undefined where they were not prepared, or cannot be read. */
  readonly versions?: readonly Version[] | undefined;
  /** Begins to read the next page, while this one is stored. */
  readonly readAhead: () => void;
}

/**
 * Yields page after page; no page is asked for twice. Throws PaginationLoop when the pages loop. A caller that leaves
 * the loop early waits for the request that is under way.
 */
export async function* readForward(
  reader: FeedReader,
  from: Bounds | { next: string },
  feed: FeedName,
): AsyncGenerator<ForwardPage> {
  const links = new Set('next' in from ? [from.next] : []);
  let recordsBefore = '';
  let idlePages = 0;
  let ahead: Promise<PreparedPage> | undefined;
  try {
    for (let at = from; ; ) {
      const page = await (ahead ?? readConfirmed(reader, at));
      ahead = undefined;
      const { next } = page;
      const readAhead = () => {
        if (next === undefined || links.has(next)) return;
        ahead ??= readPrepared(reader, { next }, feed);
        // An error is thrown when the page is awaited, not before.
        ahead.catch(() => undefined);
      };
      yield { ...page, readAhead };
      if (next === undefined) return;
      const records = page.records.map(({ id, modified }) => `${String(id)} ${String(modified)}`).join();
      idlePages = page.records.length === 0 || records === recordsBefore ? idlePages + 1 : 0;
      recordsBefore = records;
      if (links.has(next) || idlePages > idlePagesMax) throw new PaginationLoop(feed);
      links.add(next);
      at = { next };
    }
  } finally {
    await ahead?.catch(() => undefined);
  }
}

type PreparedPage = Omit<ForwardPage, 'readAhead'>;

/** "200, no rows" proves nothing: where an earlier page announced more records, an empty end is asked for again. */
async function readConfirmed(reader: FeedReader, at: Bounds | { next: string }): Promise<PreparedPage> {
  const attemptsMax = 'next' in at ? attemptsForEmptyEnd : 1;
  let page = await reader.read(at);
  for (let attempt = 1; attempt < attemptsMax && isEmptyEnd(page); attempt += 1) page = await reader.read(at);
  return page;
}

function isEmptyEnd({ records, next }: PreparedPage): boolean {
  return records.length === 0 && next === undefined;
}

async function readPrepared(reader: FeedReader, at: { next: string }, feed: FeedName): Promise<PreparedPage> {
  const page = await readConfirmed(reader, at);
  return { ...page, versions: await versionsIfReadable(page.records, feed) };
}

/**
 * Returns undefined where a record cannot be read: storing the page reports it. The work is done in slices, so that the
 * database's answers for the page before are handled in between.
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
