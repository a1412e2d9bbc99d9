/**
 * Reads a page of a feed. A poll sends the same request again and again, so a small page of an open window (with
 * `modifiedAfter`, without `modifiedBefore`) is kept with its `ETag`, and the service sends it again only if it has
 * changed.
 */
import { type FeedName, feedOrderHeader, feedPage } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { parseExactJson } from '#platform/exact-json.ts';
import { parseInput } from '#platform/input.ts';
import { nextQueryOf } from './next-page.ts';
import type { TextAnswer } from './read-answer.ts';
import type { ReadAnswer, Send } from './send-call.ts';

export interface FeedPage {
  records: Record<string, unknown>[];
  /**
   * The objects that `include` asked for, under the contract's names: sourcing_events, suppliers, questions, columns.
   */
  includes: Record<string, readonly Record<string, unknown>[]>;
  /** The query of the next page; undefined on the last one. */
  next: string | undefined;
  /** True when the service declares that the feed shows records in the order of their commits. */
  commitOrdered: boolean;
  /** A lower bound of the source's clock when it made the page, in milliseconds; undefined without a `Date` header. */
  sourceMs: number | undefined;
}

/**
 * Either bound may be left out. Both are inclusive at a service that follows the decisions; another service may differ.
 */
export interface FeedWindow {
  modifiedAfter?: Timestamp | undefined;
  modifiedBefore?: Timestamp | undefined;
  /** Related objects that the page shows beside the records. */
  include?: readonly string[] | undefined;
  pageSize: number;
}

export type ReadFeed = (feed: FeedName, at: FeedWindow | { next: string }, signal?: AbortSignal) => Promise<FeedPage>;

/**
 * A page with fewer records than this was not cut off, whatever was asked for: no service that is known puts fewer than
 * ten records on a page. Of a longer one without `next` that is not certain.
 */
export const fullPageMin = 11;

/** The most characters of a kept page: the page of a usual poll holds only the record at the watermark. */
const keptTextMax = 64 * 1024;
const keptPagesMax = 64;
/** If a service does not change the `ETag` with its records, they are delayed by this at most, and none is lost. */
const keptMs = 10 * 60_000;

interface KeptPage extends TextAnswer {
  readonly etag: string;
  readonly readMs: number;
}

/**
 * Creates the function that reads feeds. It throws AppError as `Send` does, and `invalid` for a page of another form.
 */
export function createReadFeed({ send, clock }: { send: Send; clock: Clock }): ReadFeed {
  /** The kept pages by path, the least recently used first. */
  const kept = new Map<string, KeptPage>();

  function findKept(path: string): KeptPage | undefined {
    const page = kept.get(path);
    if (page === undefined) return undefined;
    kept.delete(path);
    // If the clock was set back, the page's age is negative: the page must not be kept for ever.
    if (Math.abs(clock.nowMs() - page.readMs) >= keptMs) return undefined;
    kept.set(path, page);
    return page;
  }

  function keep(path: string, answer: TextAnswer): void {
    kept.delete(path);
    const etag = answer.headers['etag'];
    if (etag === undefined || answer.text.length > keptTextMax) return;
    kept.set(path, { ...answer, etag, readMs: clock.nowMs() });
    const [oldest] = kept.keys();
    if (kept.size > keptPagesMax && oldest !== undefined) kept.delete(oldest);
  }

  return async (feed, at, signal) => {
    const path = `/api/feeds/${feed}?${'next' in at ? at.next : queryOfWindow(at)}`;
    // A closed window is read again to see whether its records have changed: it must really be read.
    const isPoll = !('next' in at) && at.modifiedAfter !== undefined && at.modifiedBefore === undefined;
    const known = isPoll ? findKept(path) : undefined;
    const sentMs = clock.nowMs();
    const answer = await send({ method: 'GET', path }, { signal, ifNoneMatch: known?.etag });
    const exchange = { sentMs, answeredMs: clock.nowMs() };
    if (known && answer.status === 304)
      return pageOf(
        feed,
        { ...known, headers: { ...known.headers, ...answer.headers }, body: parseExactJson(known.text) },
        exchange,
      );
    const page = pageOf(feed, answer, exchange);
    if (isPoll) keep(path, answer);
    return page;
  };
}

/** When a request was sent and answered, by our clock. */
interface Exchange {
  readonly sentMs: number;
  readonly answeredMs: number;
}

function pageOf(feed: FeedName, { headers, body }: ReadAnswer, exchange: Exchange): FeedPage {
  const page = parseInput(feedPage, body, `The answer of the ${feed} feed`);
  return {
    records: page.data,
    includes: includesOf(page.includes),
    next: nextQueryOf(page.next, headers),
    commitOrdered: headers[feedOrderHeader] === 'commit',
    sourceMs: sourceMsOf(headers['date'], exchange),
  };
}

function queryOfWindow(window: FeedWindow): string {
  const query = new URLSearchParams({ page_size: String(window.pageSize) });
  if (window.modifiedAfter !== undefined) query.set('modified_after', window.modifiedAfter);
  if (window.modifiedBefore !== undefined) query.set('modified_before', window.modifiedBefore);
  for (const name of window.include ?? []) query.append('include', name);
  return query.toString();
}

/** The members that are lists, with the objects in them. Other members are ignored. */
function includesOf(given: Record<string, unknown> = {}): Record<string, Record<string, unknown>[]> {
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, list]) => (Array.isArray(list) ? [[name, list.filter(isObject)]] : [])),
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `Date` has whole seconds, and may have been written at any time between the request and its answer. */
function sourceMsOf(date: string | undefined, { sentMs, answeredMs }: Exchange): number | undefined {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? undefined : ms - (answeredMs - sentMs) - 1_000;
}
