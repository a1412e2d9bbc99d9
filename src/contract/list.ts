/** The envelopes of the manage endpoints and of every other list. Source: API document, "Response envelopes". */
import { z } from 'zod';
import { type PageSizes, pageSizeWithin, wholeNumberInQuery } from './scalars.ts';

export const listPageSizeDefault = 20;
export const listPageSizeMax = 1_000;

/** `page_size` of a list. */
export function listPageSize(sizes: PageSizes) {
  return pageSizeWithin(sizes).default(listPageSizeDefault).describe('How many items a page holds at most.');
}

/** The query parameters of every list. */
export const listQuery = {
  page_number: wholeNumberInQuery.pipe(z.int().min(1)).default(1).describe('Which page, from 1.'),
  page_size: listPageSize({ min: 1, max: listPageSizeMax }),
};

export const listEnvelope = z.looseObject({
  result: z.array(z.looseObject({})),
  count: z.int().describe('All items that match, on every page.'),
  page_size: z.int(),
  page_number: z.int(),
  num_pages: z.int(),
  next: z.string().nullable().describe('The next page, absolute; null when nothing follows.'),
  previous: z.string().nullable(),
});

/** The answer that is a list of `item`. */
export function listOf<Item extends z.ZodType>(item: Item) {
  return listEnvelope.extend({ result: z.array(item) });
}

/** The members of a manage answer besides its result and its paging. */
const manageMembers = {
  used_endpoints: z.array(z.string()).describe('The path templates that the answer was read from.'),
  gsn: z
    .int()
    .describe("The organisation's change sequence number: it never decreases, and what it counts is in the answer."),
  includes: z.looseObject({}),
  extras: z.looseObject({}),
};

export function manageItem<Item extends z.ZodType>(item: Item) {
  return z.looseObject({ result: item, ...manageMembers });
}

export function manageList<Item extends z.ZodType>(item: Item) {
  return listOf(item).extend(manageMembers);
}
