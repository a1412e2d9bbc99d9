/**
 * Asks for the pages of one feed, as far as a service takes such requests: with the related objects, unless it refuses to
 * be asked for them, and in pages so small that an answer can be held.
 */

import { includedKinds } from '#bridge/mirror/store-resources.ts';
import { waitForRateLimit } from '#bridge/quota/wait-for-rate-limit.ts';
import type { FeedPage, SourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { feedIncludes } from '#contract/feed.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Bounds } from '../windows/window-scan.ts';

export interface PulledPage extends FeedPage {
  /** When it was asked for. */
  readonly observed: Timestamp;
}

export interface FeedReader {
  /**
   * A window, or the next page of an earlier answer. Throws AppError as the client does, and PagesTooLarge; `isPatient`
   * waits for the source's quota instead.
   */
  read(at: (Bounds & { pageSize?: number }) | { next: string }, options?: { isPatient: boolean }): Promise<PulledPage>;
  /** The most records that are asked for at once; it may shrink. */
  pageSize(): number;
}

/** The page that follows is too large to be held, and the pages before it were cut too long: walk anew. */
export class PagesTooLarge extends AppError {
  constructor(feed: FeedName) {
    super('too-large', `A page of the feed ${feed} is larger than an answer may be; smaller pages are asked for.`, {
      recovery: { do: 'retry' },
    });
    this.name = 'PagesTooLarge';
  }
}

/** What of a page's related objects is kept. */
export function includesOf(feed: FeedName): string[] {
  return feedIncludes[feed].filter((name) => includedKinds[name] !== undefined);
}

/** `includes` are asked for with each window; `onRefused` is called when the service refuses to be asked for them. */
export function createFeedReader(options: {
  client: Pick<SourceClient, 'readFeed'>;
  feed: FeedName;
  pageSize: number;
  includes: readonly string[];
  onRefused: () => Promise<void>;
  clock: Clock;
  /** Called around each request, to keep a lease meanwhile. */
  during: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
}): FeedReader {
  const { client, feed, clock } = options;
  let pageSize = options.pageSize;
  let includes = options.includes;

  type Ask = (at: Parameters<SourceClient['readFeed']>[1]) => Promise<PulledPage>;
  const askWith =
    (isPatient: boolean): Ask =>
    (at) =>
      options.during((signal) => {
        const once = async () => {
          const observed = timestampFromMs(clock.nowMs());
          return { ...(await client.readFeed(feed, at, signal)), observed };
        };
        return isPatient ? waitForRateLimit(once, clock, signal) : once();
      });

  async function readWindow(
    ask: Ask,
    { after, before, pageSize: asked }: Bounds & { pageSize?: number },
  ): Promise<PulledPage> {
    const windowOf = (include: readonly string[]) => ({
      ...(after === undefined ? {} : { modifiedAfter: after }),
      ...(before === undefined ? {} : { modifiedBefore: before }),
      ...(include.length > 0 ? { include } : {}),
      pageSize: Math.min(asked ?? pageSize, pageSize),
    });
    const askForAll = async (): Promise<PulledPage | AppError> => {
      try {
        return await ask(windowOf(includes));
      } catch (error) {
        if (includes.length === 0 || !(error instanceof AppError) || error.code !== 'invalid') throw error;
        return error;
      }
    };
    const full = await askForAll();
    if (!(full instanceof AppError)) return full;
    // It may be anything else that it does not like: then this one is refused, too, and says so.
    const bare = await ask(windowOf([]));
    // Or it did so for a moment only; what is given up is not asked for again.
    const again = await askForAll();
    if (!(again instanceof AppError)) return again;
    includes = [];
    // An answer that cannot be read is no refusal: the next pull asks for them.
    if (again.issues.length === 0) await options.onRefused();
    return bare;
  }

  return {
    pageSize: () => pageSize,
    async read(at, { isPatient } = { isPatient: false }) {
      const ask = askWith(isPatient);
      for (;;) {
        try {
          return await ('next' in at ? ask({ next: at.next }) : readWindow(ask, at));
        } catch (error) {
          if (!(error instanceof AppError) || error.code !== 'too-large' || error instanceof PagesTooLarge) throw error;
          if (pageSize === 1)
            throw new AppError('unavailable', `A single record of the feed ${feed} is larger than an answer may be.`, {
              cause: error,
              recovery: { do: 'halt' },
            });
          pageSize = Math.ceil(pageSize / 4);
          // The place of a page may depend on the length of those before it.
          if ('next' in at) throw new PagesTooLarge(feed);
        }
      }
    },
  };
}
