/**
 * How a feed and its webhooks misbehave, as values. `plainFeed` misbehaves in nothing: each quirk changes some of its
 * members. The table of quirks (`quirk-table.ts`) has the names and what each does to a client.
 */

export interface FeedQuirks {
  paging: 'cursor' | 'page-number' | 'offset';
  /** A page holds no more records than this, whatever is requested. */
  pageMax: number;
  /** A page holds as many records as this, whatever is requested; null: as many as requested. */
  pageFixed: number | null;
  /** Pages hold half as many records each time that so many answers were given; null: they do not shrink. */
  shrinksEvery: number | null;
  /** So many rows before each record are hidden after paging, a millisecond from each other. */
  hiddenRun: number;
  /** A chain of pages is refused after so many pages; null: cursors last. */
  cursorPages: number | null;
  cursorRefusal: 400 | 410;
  /** The share of pages that lack `next` although more records follow. */
  nextMissing: number;
  /** `next` leads back to the first page. */
  nextLoops: boolean;
  /** `next` names another host. */
  foreignNext: boolean;
  /** `random`: one random order for all answers. `random-by-page`: another one for each answer. */
  order: 'ascending' | 'descending' | 'random' | 'random-by-page';
  /** Records of equal stamps come in another order in each answer. */
  unstableTies: boolean;
  /** Answers have the header `Feed-Order: commit`, whether that is true or not. */
  declaresOrder: boolean;
  stamps: 'micros' | 'millis' | 'seconds' | 'rounded';
  /** The share of records from before the start that have no `modified` until they change. */
  undated: number;
  /** The share of versions whose stamp lies in the future, and about how far. */
  futureDated: number;
  futureMs: number;
  /** A record with a stamp in the future gets an earlier stamp with its next change. */
  goesBack: boolean;
  /** All versions of so many milliseconds have one stamp, that of the beginning. */
  equalStampsMs: number;
  /** A change keeps the record's stamp if that is no older than this. */
  stampStaysMs: number;
  inclusiveAfter: boolean;
  inclusiveBefore: boolean;
  boundsInSeconds: boolean;
  /** How far the clock of stamps and `Date` is ahead. */
  skewMs: number;
  /** How far `Date` is ahead of that clock. */
  dateSkewMs: number;
  showsDate: boolean;
  /** How far that clock jumps ahead, `changesAfterMs` after the start. */
  jumpMs: number;
  /** How much later than its stamp a version is committed, at most. */
  lateMs: number;
  /** How far replicas lag, at most. */
  lagMs: number;
  /** Chances per request: 429, and how many of those have a `Retry-After`. */
  tooMany: number;
  retryAfter: number;
  serverError: number;
  truncated: number;
  errorBody: number;
  cut: number;
  /** The answer is 200 with no rows. */
  nothing: number;
  slow: number;
  /** The longest delay of a slow answer. */
  slowMs: number;
  /** When the changes of the source happen that the members below choose, counted from the start. */
  changesAfterMs: number;
  /** What versions look like that are committed after that. */
  newFields: boolean;
  newValues: boolean;
  lostFields: boolean;
  /** Pages hold no more than this after that. */
  pageMaxLater: number | null;
  pagingLater: 'page-number' | null;
  /** The path without a final slash is answered 301 to the path with one. */
  slashRedirect: boolean;
  upperCaseIds: boolean;
}

export const plainFeed: Readonly<FeedQuirks> = {
  paging: 'cursor',
  pageMax: Number.POSITIVE_INFINITY,
  pageFixed: null,
  shrinksEvery: null,
  hiddenRun: 0,
  cursorPages: null,
  cursorRefusal: 410,
  nextMissing: 0,
  nextLoops: false,
  foreignNext: false,
  order: 'ascending',
  unstableTies: false,
  declaresOrder: false,
  stamps: 'micros',
  undated: 0,
  futureDated: 0,
  futureMs: 48 * 3_600_000,
  goesBack: false,
  equalStampsMs: 0,
  stampStaysMs: 0,
  inclusiveAfter: true,
  inclusiveBefore: true,
  boundsInSeconds: false,
  skewMs: 0,
  dateSkewMs: 0,
  showsDate: true,
  jumpMs: 0,
  lateMs: 0,
  lagMs: 0,
  tooMany: 0,
  retryAfter: 1,
  serverError: 0,
  truncated: 0,
  errorBody: 0,
  cut: 0,
  nothing: 0,
  slow: 0,
  slowMs: 5_000,
  changesAfterMs: 60_000,
  newFields: false,
  newValues: false,
  lostFields: false,
  pageMaxLater: null,
  pagingLater: null,
  slashRedirect: false,
  upperCaseIds: false,
};

/** Shares of the notifications, and the longest delay. */
export interface WebhookQuirks {
  lost: number;
  twice: number;
  lateMs: number;
  /** The share that is sent only after the one that follows it. */
  reordered: number;
  /** How many are followed by one whose signature does not fit. */
  forged: number;
}

export const plainWebhooks: Readonly<WebhookQuirks> = { lost: 0, twice: 0, lateMs: 0, reordered: 0, forged: 0 };
