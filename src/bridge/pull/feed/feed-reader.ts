/**
 * Requests the pages of one feed in a form that the service accepts: with the related objects, unless it refuses to be
 * asked for them, and in pages so small that an answer fits into memory.
 */

import { waitForRateLimit } from '#bridge/mirror/source/wait-for-rate-limit.ts';
import { includedKinds } from '#bridge/mirror/store-resources.ts';
import type { FeedPage, SourceClient } from '#client/source-client.ts';
import { type FeedName, feeds } from '#contract/feed.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createPageCap, type PageCap } from './page-cap.ts';
import type { SourceProfile } from './source-profile.ts';
import type { Bounds } from './time-range.ts';

export interface PulledPage extends FeedPage {
  /** When the page was requested, before the request was sent. */
  readonly observed: Timestamp;
  /** How long the source took to answer, without waits for the quota. */
  readonly tookMs: number;
}

/** Where to read: a window, or the next page of an earlier answer. */
export type ReadPosition = (Bounds & { readonly pageSize?: number }) | { readonly next: string };

interface ReadOptions {
  readonly waitsForQuota: boolean;
  readonly meanwhile?: (() => Promise<void>) | undefined;
}

export interface FeedReader {
  /**
   * Reads one page. Rejects with AppError as the client does, and with PagesTooLarge. With `waitsForQuota` it waits
   * until the source's quota is free again, of which it leaves a part to others, and calls `meanwhile` now and then;
   * otherwise it rejects with `too-many`.
   */
  readonly read: (at: ReadPosition, options?: ReadOptions) => Promise<PulledPage>;
  /**
   * How many records are requested at once, unless a caller wants another number; it shrinks when a page is too large, and
   * then no longer pages are requested.
   */
  pageSize(): number;
  /** How full a page can be, by all pages that were read. */
  readonly cap: PageCap;
}

/**
 * The next page is too large to be held, and the place of a page depends on the size of the pages before it: the caller
 * reads again from the beginning, with the smaller `pageSize()`.
 */
export class PagesTooLarge extends AppError {
  constructor(feed: FeedName) {
    super('too-large', `A page of the feed ${feed} is larger than an answer may be; smaller pages are requested.`, {
      recovery: { do: 'retry' },
    });
    this.name = 'PagesTooLarge';
  }
}

/** The names of a feed's related objects that the mirror keeps. */
export function keptIncludes(feed: FeedName): string[] {
  return feeds[feed].includes.filter((name) => includedKinds[name] !== null);
}

/** The related objects to request: none where the settings say so, and only those that the service is known to show. */
export function includesToRequest(
  feed: FeedName,
  { isWanted, profile }: { isWanted: boolean; profile: SourceProfile },
): string[] {
  return isWanted ? keptIncludes(feed).filter((name) => profile.includes?.includes(name) ?? true) : [];
}

/** `includes` are requested with each window; `onRefused` is called when the service refuses to be asked for them. */
export function createFeedReader(options: {
  client: Pick<SourceClient, 'readFeed'>;
  /** Asked by reads that wait for the quota: it leaves a part of the quota to the others. */
  background: Pick<SourceClient, 'readFeed'>;
  feed: FeedName;
  pageSize: number;
  includes: readonly string[];
  /** How full a page can be, by earlier reads. */
  pageCap: number | undefined;
  onRefused: () => Promise<void>;
  /** Called when a read that waits for the quota was refused with 429, before it waits for so long. */
  onThrottled?: (error: AppError, waitMs: number) => Promise<void>;
  clock: Clock;
  /** Wraps each request, so that the caller can hold its lease meanwhile. */
  during: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
}): FeedReader {
  const { feed, clock } = options;
  const cap = createPageCap(options.pageCap);
  let pageSize = options.pageSize;
  // A caller may ask for longer pages than the setting says, as long as none was too large.
  let mayBeLonger = true;
  let isLonger = false;
  let includes = options.includes;

  type Ask = (at: Parameters<SourceClient['readFeed']>[1]) => Promise<PulledPage>;
  const askWith =
    ({ waitsForQuota, meanwhile }: ReadOptions): Ask =>
    (at) =>
      options.during((signal) => {
        const client = waitsForQuota ? options.background : options.client;
        const askOnce = async () => {
          const sentMs = clock.nowMs();
          const page = await client.readFeed(feed, at, signal);
          return { ...page, observed: timestampFromMs(sentMs), tookMs: clock.nowMs() - sentMs };
        };
        return waitsForQuota
          ? waitForRateLimit(askOnce, { clock, signal, meanwhile, onThrottled: options.onThrottled })
          : askOnce();
      });

  async function readWindow(
    ask: Ask,
    { after, before, pageSize: wanted = pageSize }: Bounds & { readonly pageSize?: number },
  ): Promise<PulledPage> {
    isLonger = mayBeLonger && wanted > pageSize;
    const windowOf = (include: readonly string[]) => ({
      ...(after === undefined ? {} : { modifiedAfter: after }),
      ...(before === undefined ? {} : { modifiedBefore: before }),
      ...(include.length > 0 ? { include } : {}),
      pageSize: mayBeLonger ? wanted : Math.min(wanted, pageSize),
    });
    const askWithIncludes = async (): Promise<PulledPage | AppError> => {
      try {
        return await ask(windowOf(includes));
      } catch (error) {
        if (includes.length === 0 || !(error instanceof AppError) || error.code !== 'invalid') throw error;
        return error;
      }
    };
    const withIncludes = await askWithIncludes();
    if (!(withIncludes instanceof AppError)) return withIncludes;
    // The service may have refused something else. Then it refuses this request, too, and its error says what.
    const bare = await ask(windowOf([]));
    // The refusal may have been momentary. A second refusal counts: includes that are given up are not requested again.
    const again = await askWithIncludes();
    if (!(again instanceof AppError)) return again;
    includes = [];
    // An answer that could not be read is no refusal: the next pull requests the includes again.
    if (again.issues.length === 0) await options.onRefused();
    return bare;
  }

  return {
    pageSize: () => pageSize,
    cap,
    async read(at, how = { waitsForQuota: false }) {
      const ask = askWith(how);
      for (;;) {
        try {
          const page = await ('next' in at ? ask({ next: at.next }) : readWindow(ask, at));
          cap.note(page.records.length);
          return page;
        } catch (error) {
          if (!(error instanceof AppError) || error.code !== 'too-large' || error instanceof PagesTooLarge) throw error;
          mayBeLonger = false;
          if (isLonger && !('next' in at)) continue;
          if (isLonger)
            throw new AppError('unavailable', `A longer page of the feed ${feed} is larger than an answer may be.`, {
              cause: error,
              recovery: { do: 'halt' },
            });
          if (pageSize === 1)
            throw new AppError('unavailable', `A single record of the feed ${feed} is larger than an answer may be.`, {
              cause: error,
              recovery: { do: 'halt' },
            });
          pageSize = Math.ceil(pageSize / 4);
          // The place of this page may depend on the size of the pages before it.
          if ('next' in at) throw new PagesTooLarge(feed);
        }
      }
    },
  };
}
