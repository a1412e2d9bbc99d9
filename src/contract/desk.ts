/** The commands of buyers and suppliers under `/desk`: outside the public contract, but fixed. */
import { z } from 'zod';
import { share, text, valuesByName } from './scalars.ts';
import { cell } from './sourcing-event.ts';
import { externalId } from './supplier.ts';

const lotName = text(255, 1);
const values = valuesByName(cell);

export const noBody = z.strictObject({});

export const submitBidRequest = z.strictObject({
  supplier: externalId,
  lots: z
    .array(z.strictObject({ lot: lotName, values: values.default({}) }))
    .max(20_000)
    .default([]),
  global: values.default({}),
});

export type SubmitBid = z.infer<typeof submitBidRequest>;

export const putScenarioRequest = z.strictObject({
  awards: z.array(z.strictObject({ lot: lotName, supplier: externalId, share_awarded: share })).max(100_000),
});

export const awardRequest = z.strictObject({ scenario: text(255, 1).nullable() });
