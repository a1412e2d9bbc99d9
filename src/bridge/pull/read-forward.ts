/** Follows the pages of a feed by `next` to the last one, and reads the next page while the caller stores this one. */
import type { FeedName } from '#contract/feed.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { FeedReader, PulledPage, ReadPosition } from './feed/feed-reader.ts';
import type { EmptyPages } from './windows/scan-types.ts';

/** So many pages may follow each other that show the same records as the page before. */
const repeatedPagesMax = 20;
/** An empty last page is asked for this often in all. */
const attemptsForEmptyEnd = 3;

/**
 * The pages cannot be followed further: `next` returns to a page that was read, shows only empty pages, or is refused.
 * The pages before it stay valid. Windows need no `next`: they read the rest.
 */
export class PagesBroken extends AppError {
  constructor(feed: string, why: string, cause?: AppError) {
    super('unavailable', `The pages of the feed ${feed} cannot be followed: ${why}`, {
      recovery: { do: 'halt' },
      ...(cause === undefined ? {} : { cause, issues: cause.issues }),
    });
    this.name = 'PagesBroken';
  }
}

export interface ForwardOptions {
  readonly feed: FeedName;
  readonly emptyPages: EmptyPages;
  readonly clock: Clock;
  /** Passing errors have ended earlier attempts: where another one meets `next`, the pages count as broken. */
  readonly hasFailedBefore: boolean;
}

/**
 * Yields page after page; no page is asked for twice. Throws PagesBroken where the pages cannot be followed, and as the
 * reader does for the first page, for a spent quota, a refused API key or a page that is too large. A caller that leaves
 * the loop early waits for the request that is under way.
 */
export async function* readForward(
  reader: FeedReader,
  from: ReadPosition,
  options: ForwardOptions,
): AsyncGenerator<PulledPage> {
  const isEndless = createEndCheck(from, options);
  let ahead: Promise<PulledPage> | undefined;
  try {
    for (let at = from; ; ) {
      const page = await (ahead ?? readConfirmed(reader, at)).catch((error: unknown) => {
        throw 'next' in at ? whenFollowed(error, options) : error;
      });
      ahead = undefined;
      const { next } = page;
      const endless = isEndless(page);
      if (next !== undefined && endless === undefined) {
        ahead = readConfirmed(reader, { next });
        // An error is thrown when the page is awaited, not before.
        ahead.catch(() => undefined);
      }
      yield page;
      if (next === undefined) return;
      if (endless !== undefined) throw new PagesBroken(options.feed, endless);
      at = { next };
    }
  } finally {
    await ahead?.catch(() => undefined);
  }
}

/** An error that will come again for this page, as far as can be known, is one of the pages. */
function whenFollowed(error: unknown, { feed, hasFailedBefore }: ForwardOptions): unknown {
  if (!(error instanceof AppError)) return error;
  const { code, recovery } = error;
  if (code === 'too-many' || code === 'unauthorized' || code === 'forbidden' || code === 'too-large') return error;
  if (recovery.do !== 'halt' && !hasFailedBefore) return error;
  return new PagesBroken(feed, error.publicMessage, error);
}

/** Returns a function that is called with each page, and says why the page's `next` returns nothing new, if it does. */
function createEndCheck(from: ReadPosition, { emptyPages, clock }: ForwardOptions) {
  const links = new Set('next' in from ? [from.next] : []);
  let recordsBefore = '';
  let repeated = 0;
  let empty = 0;
  let emptySinceMs = clock.nowMs();
  return ({ records, next }: PulledPage): string | undefined => {
    if (next === undefined) return undefined;
    const shown = records.map(({ id, modified }) => `${String(id)} ${String(modified)}`).join();
    repeated = records.length > 0 && shown === recordsBefore ? repeated + 1 : 0;
    recordsBefore = shown;
    if (records.length > 0) {
      empty = 0;
      emptySinceMs = clock.nowMs();
    } else empty += 1;
    if (links.has(next) || repeated > repeatedPagesMax) return '"next" returns to what was shown already.';
    links.add(next);
    const isTooEmpty = empty >= emptyPages.count || clock.nowMs() - emptySinceMs > emptyPages.ms;
    return empty > 0 && isTooEmpty ? `${empty} pages in a row show no record and name a next page.` : undefined;
  };
}

/** "200, no rows" proves nothing: where an earlier page announced more records, an empty end is asked for again. */
async function readConfirmed(reader: FeedReader, at: ReadPosition): Promise<PulledPage> {
  const attemptsMax = 'next' in at ? attemptsForEmptyEnd : 1;
  let page = await reader.read(at);
  for (let attempt = 1; attempt < attemptsMax && isEmptyEnd(page); attempt += 1) page = await reader.read(at);
  return page;
}

function isEmptyEnd({ records, next }: PulledPage): boolean {
  return records.length === 0 && next === undefined;
}
