/**
 * The quirks by which the service misbehaves on request: their names, what they do, and what an obvious client loses by
 * each. The list of the command line and the table of docs/misbehave.md are made of this table. Source: what feeds of
 * other vendors were seen to do.
 */
import type { FeedQuirks, WebhookQuirks } from './feed-quirks.ts';

export const quirkGroups = [
  'paging',
  'order',
  'stamps',
  'bounds',
  'clocks',
  'lateness',
  'faults',
  'changes',
  'redirects',
  'webhooks',
] as const;
export type QuirkGroup = (typeof quirkGroups)[number];

/** The groups that stop when the service is calmed; what the others do is how the source is made. */
export const calmedGroups: readonly QuirkGroup[] = ['lateness', 'faults', 'webhooks'];

/** The number that may follow the name: `late-commits=20`. */
interface QuirkParameter {
  readonly what: string;
  readonly fallback: number;
  readonly least: number;
  readonly most: number;
}

export interface Quirk {
  readonly name: string;
  readonly group: QuirkGroup;
  readonly does: string;
  /** What a client loses, or does wrong, that follows `next` and asks from its newest `modified` on. */
  readonly loses: string;
  readonly parameter?: QuirkParameter;
  readonly feed?: (value: number) => Partial<FeedQuirks>;
  readonly webhooks?: (value: number) => Partial<WebhookQuirks>;
}

const share = (what: string, fallback: number): QuirkParameter => ({ what, fallback, least: 0, most: 1 });
const seconds = (what: string, fallback: number, most = 86_400): QuirkParameter => ({ what, fallback, least: 0, most });
const count = (what: string, fallback: number): QuirkParameter => ({ what, fallback, least: 1, most: 10_000 });
const jump: QuirkParameter = { what: 'seconds ahead', fallback: 120, least: -86_400, most: 86_400 };
const since = seconds('seconds after the start', 60);
const ofAnswers = share('share of answers', 0.1);

const paging: readonly Quirk[] = [
  {
    name: 'page-numbers',
    group: 'paging',
    does: 'Pages have numbers: `next` asks for `page_number`.',
    loses: 'A record that changes moves to the end. All that follow move up, and one of them is on no page.',
    feed: () => ({ paging: 'page-number' }),
  },
  {
    name: 'offsets',
    group: 'paging',
    does: 'Pages are counted in rows: `next` asks for `offset`.',
    loses: 'The same as with page numbers: rows that move up are skipped.',
    feed: () => ({ paging: 'offset' }),
  },
  {
    name: 'cursors-gone',
    group: 'paging',
    does: 'A cursor expires with 410 after a few pages.',
    loses: 'A first reading begins again and again, and never gets beyond its first pages.',
    parameter: count('pages', 2),
    feed: (pages) => ({ cursorPages: pages, cursorRefusal: 410 }),
  },
  {
    name: 'cursors-refused',
    group: 'paging',
    does: 'A cursor expires with 400 after a few pages.',
    loses: 'The client takes the request to be wrong for good, and stops.',
    parameter: count('pages', 2),
    feed: (pages) => ({ cursorPages: pages, cursorRefusal: 400 }),
  },
  {
    name: 'shrinking-pages',
    group: 'paging',
    does: 'Pages hold half as many records each time that so many answers were given, down to 2.',
    loses: 'A page with fewer records than asked for is taken to be the last. With page numbers, records are skipped.',
    parameter: count('answers', 20),
    feed: (answers) => ({ shrinksEvery: answers }),
  },
  {
    name: 'hidden-rows',
    group: 'paging',
    does: 'Rows that the key may not see are removed after paging: pages hold few records or none, and have a `next`.',
    loses: 'An empty page is taken to be the end; all records after it are missing.',
    parameter: count('hidden rows before each record', 25),
    feed: (run) => ({ hiddenRun: run }),
  },
  {
    name: 'page-size-ignored',
    group: 'paging',
    does: '`page_size` is ignored: each page holds this many records.',
    loses: 'A client that compares with the size it asked for stops too early or never.',
    parameter: count('records', 20),
    feed: (size) => ({ pageFixed: size }),
  },
  {
    name: 'page-size-capped',
    group: 'paging',
    does: 'A page holds no more than this, whatever is asked for.',
    loses: 'A page with fewer records than asked for is taken to be the last.',
    parameter: count('records', 20),
    feed: (size) => ({ pageMax: size }),
  },
  {
    name: 'next-missing',
    group: 'paging',
    does: 'Some full pages have no `next` although more records follow.',
    loses: 'All that follows such a page, when the newest `modified` has passed it.',
    parameter: share('share of pages', 0.3),
    feed: (part) => ({ nextMissing: part }),
  },
  {
    name: 'next-loops',
    group: 'paging',
    does: '`next` leads back to the first page.',
    loses: 'The client reads the same page for ever.',
    feed: () => ({ nextLoops: true }),
  },
  {
    name: 'next-other-host',
    group: 'paging',
    does: '`next` names another host.',
    loses: 'The API key is sent to that host, or nothing after the first page is read.',
    feed: () => ({ foreignNext: true }),
  },
];

const order: readonly Quirk[] = [
  {
    name: 'order-descending',
    group: 'order',
    does: 'The newest records come first.',
    loses: 'When a reading is interrupted, the newest `modified` has been seen and the rest is never asked for.',
    feed: () => ({ order: 'descending' }),
  },
  {
    name: 'order-random',
    group: 'order',
    does: 'Records come in one random order.',
    loses: 'The last `modified` of a page is not its newest. A checkpoint made of it goes back, or skips records.',
    feed: () => ({ order: 'random' }),
  },
  {
    name: 'order-random-by-page',
    group: 'order',
    does: 'Each page is taken from another random order.',
    loses: 'Pages overlap and leave out records, at each reading others.',
    feed: () => ({ order: 'random-by-page' }),
  },
  {
    name: 'unstable-ties',
    group: 'order',
    does: 'Records of the same `modified` come in another order in each answer.',
    loses: 'Where more records have one stamp than a page holds, some are on no page.',
    feed: () => ({ unstableTies: true }),
  },
  {
    name: 'declares-order',
    group: 'order',
    does: 'Answers declare `Feed-Order: commit`, whatever the other quirks do to the order.',
    loses: 'A client that trusts the declaration goes on from the newest stamp, and misses what comes behind it.',
    feed: () => ({ declaresOrder: true }),
  },
];

const stamps: readonly Quirk[] = [
  {
    name: 'stamps-milliseconds',
    group: 'stamps',
    does: '`modified` has milliseconds.',
    loses: 'With exclusive bounds: records of the same millisecond that were committed after the reading.',
    feed: () => ({ stamps: 'millis' }),
  },
  {
    name: 'stamps-seconds',
    group: 'stamps',
    does: '`modified` is cut off to whole seconds.',
    loses: 'With exclusive bounds: records of the same second that were committed after the reading.',
    feed: () => ({ stamps: 'seconds' }),
  },
  {
    name: 'stamps-rounded',
    group: 'stamps',
    does: '`modified` is rounded to whole seconds, and so up to half a second ahead.',
    loses: 'The same; and a record seen has a stamp that later records do not reach.',
    feed: () => ({ stamps: 'rounded' }),
  },
  {
    name: 'no-modified',
    group: 'stamps',
    does: 'Some records that were there at the start have no `modified` until they change; only a reading without bounds shows them.',
    loses: 'These records, when the first reading has bounds; or the client fails at the missing member.',
    parameter: share('share of those records', 0.3),
    feed: (part) => ({ undated: part }),
  },
  {
    name: 'future-dated',
    group: 'stamps',
    does: 'Some versions are stamped about two days ahead.',
    loses: 'The newest `modified` lies in the future: everything until then is skipped.',
    parameter: share('share of versions', 0.1),
    feed: (part) => ({ futureDated: part }),
  },
  {
    name: 'future-corrected',
    group: 'stamps',
    does: 'As `future-dated`, and the next change of such a record gives it the stamp of that time, which is earlier.',
    loses: 'The same; and the change is taken for an older version than the one held.',
    parameter: share('share of versions', 0.1),
    feed: (part) => ({ futureDated: part, goesBack: true }),
  },
  {
    name: 'equal-stamps',
    group: 'stamps',
    does: 'All that changes within so many seconds gets one stamp, that of their beginning, as a bulk import does.',
    loses:
      'What gets a stamp that the client has passed; and where a page ends between equal stamps, the rest of them.',
    parameter: seconds('seconds', 5, 3_600),
    feed: (length) => ({ equalStampsMs: length * 1_000 }),
  },
  {
    name: 'stamp-stays',
    group: 'stamps',
    does: 'A change soon after another keeps the stamp of the record; only the content differs.',
    loses: 'The change: its stamp has been read.',
    parameter: seconds('seconds', 10, 3_600),
    feed: (length) => ({ stampStaysMs: length * 1_000 }),
  },
];

const boundsAndClocks: readonly Quirk[] = [
  {
    name: 'after-exclusive',
    group: 'bounds',
    does: '`modified_after` leaves out records of exactly that time.',
    loses: 'Records with the stamp of the newest one read.',
    feed: () => ({ inclusiveAfter: false }),
  },
  {
    name: 'before-exclusive',
    group: 'bounds',
    does: '`modified_before` leaves out records of exactly that time.',
    loses: 'Records on the boundary between two windows, when `modified_after` is exclusive, too.',
    feed: () => ({ inclusiveBefore: false }),
  },
  {
    name: 'bounds-seconds',
    group: 'bounds',
    does: 'Bounds are cut off to whole seconds.',
    loses: 'Records of the last second before `modified_before`; and the same records are read again and again.',
    feed: () => ({ boundsInSeconds: true }),
  },
  {
    name: 'date-ahead',
    group: 'clocks',
    does: 'The header `Date` is ahead of the clock that stamps.',
    loses: 'A client that takes `Date` as its next `modified_after` skips what is committed in between.',
    parameter: seconds('seconds', 60),
    feed: (by) => ({ dateSkewMs: by * 1_000 }),
  },
  {
    name: 'date-behind',
    group: 'clocks',
    does: 'The header `Date` is behind the clock that stamps.',
    loses: 'Nothing, but a client that reads only up to `Date` is late by as much.',
    parameter: seconds('seconds', 120),
    feed: (by) => ({ dateSkewMs: -by * 1_000 }),
  },
  {
    name: 'clock-ahead',
    group: 'clocks',
    does: '`Date` and stamps are both ahead.',
    loses: 'A client that compares stamps with its own clock takes new records to be in the future.',
    parameter: seconds('seconds', 120),
    feed: (by) => ({ skewMs: by * 1_000 }),
  },
  {
    name: 'clock-behind',
    group: 'clocks',
    does: '`Date` and stamps are both behind.',
    loses: 'A client that asks from its own clock on misses as many seconds.',
    parameter: seconds('seconds', 120),
    feed: (by) => ({ skewMs: -by * 1_000 }),
  },
  {
    name: 'no-date',
    group: 'clocks',
    does: 'Answers have no `Date`.',
    loses: 'A client that relies on the header fails, or takes its own clock for it.',
    feed: () => ({ showsDate: false }),
  },
  {
    name: 'clock-jumps',
    group: 'clocks',
    does: 'A minute after the start the clock of stamps and `Date` jumps; a negative number: back.',
    loses: 'After a jump back: everything until the old time is reached again.',
    parameter: jump,
    feed: (by) => ({ jumpMs: by * 1_000 }),
  },
];

const latenessAndFaults: readonly Quirk[] = [
  {
    name: 'late-commits',
    group: 'lateness',
    does: 'Some versions are committed, and so shown, later than their stamp says.',
    loses: 'Every version that appears behind the newest `modified` that was read.',
    parameter: seconds('seconds at most', 20, 3_600),
    feed: (most) => ({ lateMs: most * 1_000 }),
  },
  {
    name: 'replica-lag',
    group: 'lateness',
    does: 'Each answer comes from a replica that lags more or less behind.',
    loses:
      'A client that goes on from the time of its request, not from what it has seen, passes what the replica lacks.',
    parameter: seconds('seconds at most', 5, 3_600),
    feed: (most) => ({ lagMs: most * 1_000 }),
  },
  {
    name: 'too-many',
    group: 'faults',
    does: 'Some requests are answered 429 with `Retry-After`.',
    loses:
      'The rest of the reading, when a refused page is taken for an empty one; or the quota, by trying again at once.',
    parameter: ofAnswers,
    feed: (part) => ({ tooMany: part, retryAfter: 1 }),
  },
  {
    name: 'too-many-silent',
    group: 'faults',
    does: 'Some requests are answered 429 without `Retry-After`.',
    loses: 'The same; a client that only waits when it is told how long never waits.',
    parameter: ofAnswers,
    feed: (part) => ({ tooMany: part, retryAfter: 0 }),
  },
  {
    name: 'server-errors',
    group: 'faults',
    does: 'Some requests are answered 500, 502 or 503.',
    loses: 'The rest of the reading, when the newest `modified` has been kept already.',
    parameter: ofAnswers,
    feed: (part) => ({ serverError: part }),
  },
  {
    name: 'cut',
    group: 'faults',
    does: 'Some connections break in the middle of the answer.',
    loses: 'The rest of the reading; a client without a time-out may wait for ever.',
    parameter: ofAnswers,
    feed: (part) => ({ cut: part }),
  },
  {
    name: 'truncated',
    group: 'faults',
    does: 'Some answers are 200 with JSON that ends too early.',
    loses: 'The page, when a parser takes what it can get.',
    parameter: ofAnswers,
    feed: (part) => ({ truncated: part }),
  },
  {
    name: 'error-body',
    group: 'faults',
    does: 'Some answers are 200 with an error as the body.',
    loses: 'The page, when a missing `data` is taken for an empty one.',
    parameter: ofAnswers,
    feed: (part) => ({ errorBody: part }),
  },
  {
    name: 'no-rows',
    group: 'faults',
    does: 'Some answers are 200 without rows and without `next`, although there are records.',
    loses: 'Everything that the empty answer should have shown, when the client moves on to the present time.',
    parameter: ofAnswers,
    feed: (part) => ({ nothing: part }),
  },
  {
    name: 'slow',
    group: 'faults',
    does: 'Some answers take up to 5 s.',
    loses: 'The page, when the time-out is shorter and its failure is not repeated.',
    parameter: ofAnswers,
    feed: (part) => ({ slow: part }),
  },
];

const changes: readonly Quirk[] = [
  {
    name: 'new-fields',
    group: 'changes',
    does: 'From then on changed records have a member that was never there.',
    loses: 'A strict parser refuses the page, and reading stops.',
    parameter: since,
    feed: (after) => ({ changesAfterMs: after * 1_000, newFields: true }),
  },
  {
    name: 'new-values',
    group: 'changes',
    does: 'From then on `name`, `lot_name` and `value` of changed records are objects, not text.',
    loses: 'A strict parser refuses the page; a lax one writes `[object Object]` into the ERP.',
    parameter: since,
    feed: (after) => ({ changesAfterMs: after * 1_000, newValues: true }),
  },
  {
    name: 'lost-fields',
    group: 'changes',
    does: 'From then on changed records lack `name`, `lot_name` and `value`.',
    loses: 'Fields in the ERP are emptied without a word.',
    parameter: since,
    feed: (after) => ({ changesAfterMs: after * 1_000, lostFields: true }),
  },
  {
    name: 'page-size-drops',
    group: 'changes',
    does: 'From then on a page holds at most 5 records.',
    loses: 'A client that takes a short page for the last one stops at the first page.',
    parameter: since,
    feed: (after) => ({ changesAfterMs: after * 1_000, pageMaxLater: 5 }),
  },
  {
    name: 'paging-changes',
    group: 'changes',
    does: 'From then on pages have numbers, and a cursor is refused with 400.',
    loses: 'A kept cursor fails for ever; and then the same as with `page-numbers`.',
    parameter: since,
    feed: (after) => ({ changesAfterMs: after * 1_000, pagingLater: 'page-number' }),
  },
  {
    name: 'slash-redirect',
    group: 'redirects',
    does: 'A path without a final slash is answered 301 to the path with one.',
    loses: 'Everything, when redirects are not followed, or are followed without the API key.',
    feed: () => ({ slashRedirect: true }),
  },
];

const ofNotifications = share('share of notifications', 0.3);

const webhooks: readonly Quirk[] = [
  {
    name: 'webhooks-lost',
    group: 'webhooks',
    does: 'Some notifications are never sent, and count as delivered.',
    loses: 'The change, until the next notification of the same feed; without a schedule perhaps for ever.',
    parameter: ofNotifications,
    webhooks: (part) => ({ lost: part }),
  },
  {
    name: 'webhooks-twice',
    group: 'webhooks',
    does: 'Some notifications are sent twice.',
    loses: 'Nothing, but work is done twice where a notification is an order.',
    parameter: ofNotifications,
    webhooks: (part) => ({ twice: part }),
  },
  {
    name: 'webhooks-late',
    group: 'webhooks',
    does: 'Notifications arrive later, at random.',
    loses: 'Nothing, but a receiver that refuses old time stamps refuses them.',
    parameter: seconds('seconds at most', 10, 3_600),
    webhooks: (most) => ({ lateMs: most * 1_000 }),
  },
  {
    name: 'webhooks-reordered',
    group: 'webhooks',
    does: 'Some notifications are sent only after the one that follows, or after 10 s.',
    loses: 'A client that keeps the `feed_modified` of the last notification goes back with it.',
    parameter: ofNotifications,
    webhooks: (part) => ({ reordered: part }),
  },
  {
    name: 'webhooks-forged',
    group: 'webhooks',
    does: 'Some notifications are followed by a changed copy whose signature does not fit.',
    loses: 'Whoever does not verify the signature does what a stranger says.',
    parameter: ofNotifications,
    webhooks: (part) => ({ forged: part }),
  },
];

export const quirkTable: readonly Quirk[] = [
  ...paging,
  ...order,
  ...stamps,
  ...boundsAndClocks,
  ...latenessAndFaults,
  ...changes,
  ...webhooks,
];
