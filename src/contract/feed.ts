/**
 * The feeds: one table of what both programs must know of each, and made of it the queries, the pages and the names.
 * Source: API document, "Feeds"; bounds and page sizes from the decisions.
 *
 * A service whose feeds show records in the order of their commits, and whose `next` is a cursor over that order, says
 * so in the header `Feed-Order: commit`. A reader of such a feed may follow `next` and need not scan it again (see the
 * bridge's `pull/`).
 */
import { z } from 'zod';
import { lotAward } from './award.ts';
import { supplierLotBid } from './bid.ts';
import { rfiQuestion, supplierQuestionResponse } from './rfi.ts';
import { type PageSizes, pageSizeWithin, text, timestampInQuery, uuid } from './scalars.ts';
import {
  type EventStatus,
  eventStatuses,
  includedColumn,
  includedSourcingEvent,
  sourcingEventEssentials,
  sourcingEventRecord,
} from './sourcing-event.ts';
import { includedSupplier } from './supplier.ts';
import type { Written } from './written.ts';

/** What a feed can show beside its records, under `includes`: the schema of each object. */
export const includedObjects = {
  sourcing_events: includedSourcingEvent,
  suppliers: includedSupplier,
  columns: includedColumn,
  questions: rfiQuestion,
} as const satisfies Record<string, z.ZodObject>;

export type IncludeName = keyof typeof includedObjects;

interface FeedFacts {
  /** A record as the service makes it, with every member of the document. */
  readonly record: z.ZodObject;
  /** As much of a record as a reader needs. */
  readonly essentials: z.ZodObject;
  /** The member that holds the id of the record's event; `id` where the records are the events themselves. */
  readonly event: 'id' | 'sourcing_event';
  /** The member that holds the id of the record's only supplier; null where a record has none, or several. */
  readonly supplier: 'supplier' | null;
  /** The member that lists the ids of files; null where records name no files. */
  readonly files: 'document_file_uuids' | null;
  /** What announces the feed to webhooks. */
  readonly trigger: string;
  /** What another service of this kind calls the trigger; null where no other name is known. */
  readonly triggerElsewhere: string | null;
  /** Statuses of an event in which the feed does not show the event's records. */
  readonly hiddenWhile: readonly EventStatus[];
  /** The parameters of this feed, beside those that all feeds have. */
  readonly parameters: z.ZodRawShape;
  /** Whose tags the tag filters compare. */
  readonly tagsOf: 'record' | 'event';
  readonly includes: readonly IncludeName[];
}

const uuidList = z
  .string()
  .transform((list) => list.split(',').map((id) => id.trim()))
  .pipe(z.array(uuid).min(1).max(100));

const parametersOfEvent = {
  sourcing_event: uuid.optional().describe('Only records of this event.'),
  sourcing_request: uuid.optional().describe('Only records that serve this sourcing request.'),
};

/**
 * What both programs know of each feed. What only one of them knows stands in a table of its own: `feedDocuments` of
 * the bridge says which documents a feed's records make; `announce` and `feedUpdates` of the service say how and when
 * records are made.
 */
export const feeds = {
  'sourcing-events': {
    record: sourcingEventRecord,
    essentials: sourcingEventEssentials,
    event: 'id',
    supplier: null,
    files: null,
    trigger: 'SOURCING_EVENTS_FEED_UPDATED',
    triggerElsewhere: null,
    hiddenWhile: [],
    parameters: {
      id: uuid.optional().describe('Only this event.'),
      sourcing_requests: uuidList.optional().describe('Only events that serve any of these sourcing requests.'),
      status: z.enum(eventStatuses).optional().describe('Only events of this status, as the feed shows it.'),
    },
    tagsOf: 'record',
    includes: [],
  },
  'latest-bids': {
    record: supplierLotBid,
    essentials: supplierLotBid,
    event: 'sourcing_event',
    supplier: 'supplier',
    files: null,
    trigger: 'LATEST_BIDS_FEED_UPDATED',
    triggerElsewhere: null,
    hiddenWhile: ['DRAFT', 'DELETED'],
    parameters: parametersOfEvent,
    tagsOf: 'event',
    includes: ['sourcing_events', 'suppliers', 'columns'],
  },
  awards: {
    record: lotAward,
    essentials: lotAward,
    event: 'sourcing_event',
    // A record is a lot's award; each entry of its `awards` names a supplier.
    supplier: null,
    files: null,
    trigger: 'AWARDS_FEED_UPDATED',
    triggerElsewhere: 'AWARD_FEED_UPDATED',
    hiddenWhile: ['DELETED'],
    parameters: parametersOfEvent,
    tagsOf: 'event',
    includes: ['sourcing_events', 'suppliers', 'columns'],
  },
  'rfi-responses': {
    record: supplierQuestionResponse,
    essentials: supplierQuestionResponse,
    event: 'sourcing_event',
    supplier: 'supplier',
    files: 'document_file_uuids',
    trigger: 'RFI_RESPONSES_FEED_UPDATED',
    triggerElsewhere: null,
    hiddenWhile: ['DRAFT', 'DELETED'],
    parameters: parametersOfEvent,
    tagsOf: 'event',
    includes: ['sourcing_events', 'suppliers', 'questions'],
  },
} as const satisfies Record<string, FeedFacts>;

export type FeedName = keyof typeof feeds;
export const feedNames: readonly [FeedName, ...FeedName[]] = Object.keys(feeds) as [FeedName, ...FeedName[]];

/** A feed whose records name files. */
export type FeedWithFiles = {
  [Feed in FeedName]: (typeof feeds)[Feed]['files'] extends null ? never : Feed;
}[FeedName];

/** What the service writes into a record; `modified` is added when the record is appended. */
export type FeedRecordContent<Feed extends FeedName> = Feed extends FeedName
  ? Omit<Written<(typeof feeds)[Feed]['record']>, 'modified'>
  : never;

/** The feeds that do not show the records of an event in this status. */
export function feedsHiddenWhile(status: EventStatus): FeedName[] {
  return feedNames.filter((feed) => factsOf(feed).hiddenWhile.includes(status));
}

/**
 * Whether a record that the feed does not show any more was deleted. In other feeds it may be hidden: its event is a
 * draft, and when it is published again the record comes back with its old time (API document, "Rules common to all
 * feeds" 6).
 */
export function missingMeansDeleted(feed: FeedName): boolean {
  return !factsOf(feed).hiddenWhile.includes('DRAFT');
}

/** The row of a feed, without the types of that feed alone. */
function factsOf(feed: FeedName): FeedFacts {
  return feeds[feed];
}

export const feedOrderHeader = 'feed-order';
export const pageSizeDefault = 100;
export const pageSizeMax = 1_000;

const parametersOfAll = {
  modified_after: timestampInQuery
    .optional()
    .describe('Only records changed at this time or later. A date without a time means 00:00 UTC.'),
  modified_before: timestampInQuery.optional().describe('Only records changed at this time or earlier.'),
  page_size: pageSizeOf({ min: 1, max: pageSizeMax }),
  is_test: z
    .enum(['true', 'false'])
    .transform((value) => value === 'true')
    .optional()
    .describe('`true`: only records of test events. `false`: only of other events. Without it: both.'),
  cursor: text(500, 1).optional().describe('Where an earlier page of this feed ended, as its `next` says it.'),
};

/**
 * `include=a&include=b`: a single name is text, several are a list. A single wrong name is reported without a place.
 */
const includesOf = (names: readonly [IncludeName, ...IncludeName[]]) =>
  z
    .union([
      z.string().refine((name) => z.enum(names).safeParse(name).success, `must be one of ${names.join(', ')}`),
      z.array(z.string()),
    ])
    .transform((given) => [given].flat())
    .pipe(z.array(z.enum(names)).max(100))
    .optional()
    .describe('What to show under `includes`, of the records on this page. May be repeated.');

export interface TagFilter {
  name: string;
  value: string;
}

/** What the name in a tag filter of this feed begins with. */
export function tagFilterPrefix(feed: FeedName): string {
  return { record: 'tags.', event: 'sourcing_event.tags.' }[feeds[feed].tagsOf];
}

const tagFiltersMax = 100;
const tagFilterValue = text(255);

/**
 * `filter[tags.Region]=EMEA` has the tag's name in the parameter's name. OpenAPI shows all such parameters as one
 * parameter `filter` of style `deepObject`, which is what this schema takes. The same tag given twice requires both
 * values, as an event may have several tags of one name.
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

/** Moves the tag filters of a query under `filter`. Any other `filter[…]` stays there, and is refused by its name. */
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

type ParametersOf<Feed extends FeedName> = (typeof feeds)[Feed]['parameters'];
type OwnParameter = { [Feed in FeedName]: keyof ParametersOf<Feed> }[FeedName];
type OwnParameterSchema<Name extends OwnParameter> = {
  [Feed in FeedName]: Name extends keyof ParametersOf<Feed> ? ParametersOf<Feed>[Name] : never;
}[FeedName];

/** What the records of a page can be asked for, beside tags: the parameters of all feeds, and those of any. */
export type FeedConditions = { [Name in keyof typeof parametersOfAll]: z.output<(typeof parametersOfAll)[Name]> } & {
  [Name in OwnParameter]?: z.output<OwnParameterSchema<Name>>;
};

/** A query of any feed, as its schema reads it. All conditions that are given must hold. */
export type FeedQuery = Partial<FeedConditions> & {
  include?: IncludeName[] | undefined;
  filter?: TagFilter[] | undefined;
};

function pageSizeOf(sizes: PageSizes) {
  return pageSizeWithin(sizes)
    .optional()
    .meta({ description: 'How many records a page holds at most.', default: pageSizeDefault });
}

function queryOf(feed: FeedName, sizes: PageSizes): z.ZodType<FeedQuery> {
  const prefix = tagFilterPrefix(feed);
  const { parameters, includes } = factsOf(feed);
  const [first, ...others] = includes;
  return z.preprocess(
    (query) => (typeof query === 'object' && query !== null ? takeTagFilters(query, prefix) : query),
    z.strictObject({
      ...parametersOfAll,
      page_size: pageSizeOf(sizes),
      ...parameters,
      ...(first === undefined ? {} : { include: includesOf([first, ...others]) }),
      filter: tagFilters(prefix),
    }),
  ) as z.ZodType<FeedQuery>;
}

/** The query of each feed, with pages of these sizes. */
export function feedQueriesWith(sizes: PageSizes) {
  return ofEachFeed((feed) => queryOf(feed, sizes));
}

/** The query of each feed. */
export const feedQueries = feedQueriesWith({ min: 1, max: pageSizeMax });

/** An object as it was parsed: a schema of objects would copy each record member by member. */
const anyRecord = z.custom<Record<string, unknown>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'must be an object',
);

/** A page of any feed as a client reads it. */
export const feedPage = z.looseObject({
  data: z.array(anyRecord),
  next: z.string().nullish(),
  includes: z.looseObject({}).optional(),
});

function pageOf(feed: FeedName) {
  const { record, includes } = factsOf(feed);
  const page = feedPage.extend({
    data: z.array(record),
    includes: z
      .looseObject(Object.fromEntries(includes.map((name) => [name, z.array(includedObjects[name]).optional()])))
      .optional()
      .describe('Only when `include` was given: a member for each name, empty when nothing on this page is related.'),
    next: z.string().nullable().describe('The next page, absolute; null when nothing follows.'),
  });
  return includes.length === 0 ? page.omit({ includes: true }) : page;
}

/** What each feed answers. */
export const feedPages = ofEachFeed(pageOf);

/** Makes one thing for each feed. */
export function ofEachFeed<Made>(make: (feed: FeedName) => Made): Readonly<Record<FeedName, Made>> {
  return Object.fromEntries(feedNames.map((feed) => [feed, make(feed)])) as Record<FeedName, Made>;
}
