/** The envelopes of the manage endpoints and of every other list. Source: API document, "Response envelopes". */
import { z } from 'zod';

export const listPageSizeDefault = 20;
export const listPageSizeMax = 1_000;

const wholeNumber = z
  .string()
  .regex(/^\d{1,9}$/, 'must be a whole number')
  .transform(Number);

/** The query members that every list takes. */
export const listQuery = {
  page_number: wholeNumber.pipe(z.int().min(1)).default(1),
  page_size: wholeNumber.pipe(z.int().min(1).max(listPageSizeMax)).default(listPageSizeDefault),
};

export const listEnvelope = z.looseObject({
  result: z.array(z.looseObject({})),
  count: z.int(),
  page_size: z.int(),
  page_number: z.int(),
  num_pages: z.int(),
  next: z.string().nullable(),
  previous: z.string().nullable(),
});
