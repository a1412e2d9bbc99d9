/** Reads a page of a feed. */
import { type FeedName, feedOrderHeader, feedPage } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { parseInput } from '#platform/input.ts';
import { nextQueryOf } from './next-page.ts';
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

/**
 * Creates the function that reads feeds. It throws AppError as `Send` does, and `invalid` for a page of another form.
 */
export function createReadFeed({ send, clock }: { send: Send; clock: Clock }): ReadFeed {
  return async (feed, at, signal) => {
    const path = `/api/feeds/${feed}?${'next' in at ? at.next : queryOfWindow(at)}`;
    const sentMs = clock.nowMs();
    const answer = await send({ method: 'GET', path }, signal);
    return pageOf(feed, answer, { sentMs, answeredMs: clock.nowMs() });
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
