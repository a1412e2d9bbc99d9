/**
 * Feeds: names, queries and the envelope. Source: API document, "Feeds"; bounds and page sizes from the decisions.
 * A service whose feeds show records in the order of their commits, and whose `next` is a cursor over that order, says
 * so in the header `Feed-Order: commit`; a reader may then follow `next` and needs no second look (see the bridge's
 * `pull/`).
 */
import { z } from 'zod';
import { lotAward } from './award.ts';
import { supplierLotBid } from './bid.ts';
import { rfiQuestion, supplierQuestionResponse } from './rfi.ts';
import { text, timestampInQuery, uuid } from './scalars.ts';
import { eventStatuses, includedColumn, includedSourcingEvent, sourcingEventRecord } from './sourcing-event.ts';
import { includedSupplier } from './supplier.ts';
import type { Written } from './written.ts';

export const feedNames = ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'] as const;
export type FeedName = (typeof feedNames)[number];

export const feedOrderHeader = 'feed-order';
export const pageSizeDefault = 100;
export const pageSizeMax = 1_000;

const page = {
  modified_after: timestampInQuery
    .optional()
    .describe('Only records changed at this time or later. A date without a time means 00:00 UTC.'),
  modified_before: timestampInQuery.optional().describe('Only records changed at this time or earlier.'),
  page_size: z
    .string()
    .regex(/^\d{1,4}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(1).max(pageSizeMax))
    .optional()
    .meta({ description: 'How many records a page holds at most.', default: pageSizeDefault }),
  cursor: text(500, 1).optional().describe('Where an earlier page of this feed ended, as its `next` says it.'),
};

/** Comma-separated ids. */
const uuidList = z
  .string()
  .transform((list) => list.split(',').map((one) => one.trim()))
  .pipe(z.array(uuid).min(1).max(100));

/** What a feed can show beside its records, under `includes`. */
export const feedIncludes = {
  'sourcing-events': [],
  'latest-bids': ['sourcing_events', 'suppliers', 'columns'],
  awards: ['sourcing_events', 'suppliers', 'columns'],
  'rfi-responses': ['sourcing_events', 'suppliers', 'questions'],
} as const satisfies Record<FeedName, readonly string[]>;

export type IncludeName = (typeof feedIncludes)[FeedName][number];

/** `include=a&include=b`: one is text, several are a list; a single wrong one is named without a position. */
const includes = <Name extends string>(names: readonly [Name, ...Name[]]) =>
  z
    .union([
      z.string().refine((one) => z.enum(names).safeParse(one).success, `must be one of ${names.join(', ')}`),
      z.array(z.string()),
    ])
    .transform((given) => [given].flat())
    .pipe(z.array(z.enum(names)).max(100))
    .optional()
    .describe('What to show under `includes`, of the records on this page. May be repeated.');

/** What the name in a tag filter begins with: the tags are the record's own, or those of its event. */
export const tagFilterPrefixes = {
  'sourcing-events': 'tags.',
  'latest-bids': 'sourcing_event.tags.',
  awards: 'sourcing_event.tags.',
  'rfi-responses': 'sourcing_event.tags.',
} as const satisfies Record<FeedName, string>;

export interface TagFilter {
  name: string;
  value: string;
}

const tagFiltersMax = 100;
const tagFilterValue = text(255);

/**
 * `filter[tags.Region]=EMEA` has the tag's name in the parameter's: OpenAPI shows all of them as one parameter `filter`
 * of style `deepObject`, which is what this schema takes. The same tag given twice demands both values, as an event may
 * carry one tag several times.
 */
const tagFilters = (prefix: string) =>
  z
    .record(
      z.string().regex(new RegExp(`^${prefix.replaceAll('.', '\\.')}[\\s\\S]`)),
      z.union([tagFilterValue, z.array(tagFilterValue)]),
    )
    .transform((filters, context): TagFilter[] => {
      const list = Object.entries(filters).flatMap(([key, values]) =>
        [values].flat().map((value) => ({ name: key.slice(prefix.length), value })),
      );
      if (list.length > tagFiltersMax)
        context.addIssue({ code: 'custom', message: `must have at most ${tagFiltersMax} tags` });
      return list;
    })
    .optional()
    .describe(
      `\`filter[${prefix}<TagName>]=<value>\`: only what carries this tag with this value, and so each that is given.`,
    );

/** Moves the tag filters of a query under `filter`; any other `filter[…]` stays, and is refused by its name. */
function takeTagFilters(query: object, prefix: string): object {
  const filters: [string, unknown][] = [];
  const rest: [string, unknown][] = [];
  for (const [key, value] of Object.entries(query)) {
    const name = /^filter\[([^]*)\]$/.exec(key)?.[1] ?? '';
    const tagLength = name.startsWith(prefix) ? name.length - prefix.length : 0;
    if (tagLength > 0 && tagLength <= 255) filters.push([name, value]);
    else rest.push([key, value]);
  }
  const taken = filters.length > 0 ? [['filter', Object.fromEntries(filters)] as const] : [];
  return Object.fromEntries([...taken, ...rest]);
}

function feedQuery<Shape extends z.ZodRawShape>(feed: FeedName, shape: Shape) {
  const prefix = tagFilterPrefixes[feed];
  return z.preprocess(
    (query) => (typeof query === 'object' && query !== null ? takeTagFilters(query, prefix) : query),
    z.strictObject({ ...page, ...shape, filter: tagFilters(prefix) }),
  );
}

const ofEvent = {
  sourcing_event: uuid.optional().describe('Only records of this event.'),
  sourcing_request: uuid.optional().describe('Only records that serve this sourcing request.'),
};

/** The query of each feed. All that is given must hold. */
export const feedQueries = {
  'sourcing-events': feedQuery('sourcing-events', {
    id: uuid.optional().describe('Only this event.'),
    sourcing_requests: uuidList.optional().describe('Only events that serve any of these sourcing requests.'),
    status: z.enum(eventStatuses).optional().describe('Only events of this status, as the feed shows it.'),
  }),
  'latest-bids': feedQuery('latest-bids', { ...ofEvent, include: includes(feedIncludes['latest-bids']) }),
  awards: feedQuery('awards', { ...ofEvent, include: includes(feedIncludes.awards) }),
  'rfi-responses': feedQuery('rfi-responses', { ...ofEvent, include: includes(feedIncludes['rfi-responses']) }),
} as const satisfies Record<FeedName, z.ZodType>;

/** The record of each feed. */
const feedRecords = {
  'sourcing-events': sourcingEventRecord,
  'latest-bids': supplierLotBid,
  awards: lotAward,
  'rfi-responses': supplierQuestionResponse,
} as const satisfies Record<FeedName, z.ZodObject>;

/** What a record says. `modified` is left out: the service adds it when the record is appended. */
export type FeedRecordContent<Feed extends FeedName> = Feed extends FeedName
  ? Omit<Written<(typeof feedRecords)[Feed]>, 'modified'>
  : never;

/** A page of any feed as a client reads it. */
export const feedPage = z.looseObject({
  data: z.array(z.looseObject({})),
  next: z.string().nullish(),
  includes: z.looseObject({}).optional(),
});

const ofPage = {
  sourcing_events: z.array(includedSourcingEvent).optional(),
  suppliers: z.array(includedSupplier).optional(),
};
const columns = z.array(includedColumn).optional();
const questions = z.array(rfiQuestion).optional();

function pageOf<Item extends z.ZodType, Includes extends z.ZodRawShape>(record: Item, includes: Includes) {
  return feedPage.extend({
    data: z.array(record),
    includes: z
      .looseObject(includes)
      .optional()
      .describe('Only when `include` was given: a member for each name, empty when nothing on this page is related.'),
    next: z.string().nullable().describe('The next page, absolute; null when nothing follows.'),
  });
}

/** What each feed answers. */
export const feedPages = {
  'sourcing-events': pageOf(sourcingEventRecord, {}).omit({ includes: true }),
  'latest-bids': pageOf(supplierLotBid, { ...ofPage, columns }),
  awards: pageOf(lotAward, { ...ofPage, columns }),
  'rfi-responses': pageOf(supplierQuestionResponse, { ...ofPage, questions }),
} as const satisfies Record<FeedName, z.ZodType>;
