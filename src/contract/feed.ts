/**
 * Feeds: names, queries and the envelope. Source: API document, "Feeds"; bounds and page sizes from the decisions.
 * A service whose feeds show records in the order of their commits, and whose `next` is a cursor over that order, says
 * so in the header `Feed-Order: commit`; a reader may then follow `next` and needs no second look (see the bridge's
 * `pull/`).
 */
import { z } from 'zod';
import { text, timestamp, uuid } from './scalars.ts';
import { eventStatuses } from './sourcing-event.ts';

export const feedNames = ['sourcing-events', 'latest-bids', 'awards'] as const;
export type FeedName = (typeof feedNames)[number];

export const feedOrderHeader = 'feed-order';
export const pageSizeDefault = 100;
export const pageSizeMax = 1_000;

/** A `+` that was not percent-encoded arrives as a space: `…T00:00:00 02:00` can only have meant an offset. */
const timestampInQuery = z
  .string()
  .transform((text) => text.replace(/ (?=\d{2}:?\d{2}$)/, '+'))
  .pipe(timestamp);

const page = {
  /** Both bounds are inclusive. */
  modified_after: timestampInQuery.optional(),
  modified_before: timestampInQuery.optional(),
  page_size: z
    .string()
    .regex(/^\d{1,4}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(1).max(pageSizeMax))
    .optional(),
  cursor: text(500, 1).optional(),
};

/** The query of each feed. */
export const feedQueries = {
  'sourcing-events': z.strictObject({ ...page, id: uuid.optional(), status: z.enum(eventStatuses).optional() }),
  'latest-bids': z.strictObject({ ...page, sourcing_event: uuid.optional() }),
  awards: z.strictObject({ ...page, sourcing_event: uuid.optional() }),
} as const satisfies Record<FeedName, z.ZodType>;

export const feedPage = z.looseObject({
  data: z.array(z.looseObject({})),
  next: z.string().nullish(),
  includes: z.looseObject({}).optional(),
});
