/**
 * The commands of buyers and suppliers under `/desk`: not in the public contract, but fixed (operator API, "/desk").
 */
import { z } from 'zod';
import { answer, supplierQuestionResponse } from './rfi.ts';
import { decimal, onceInList, share, text, timestamp, uuid, valuesByName } from './scalars.ts';
import { cell, columnsMax } from './sourcing-event.ts';
import { externalId } from './supplier.ts';

const lotName = text(255, 1);
const values = valuesByName(cell, columnsMax);

export const noBody = z.strictObject({});

/** A supplier's ask in a Dutch auction: a price per unit, and the number of units for which it is valid. */
export const offer = z.strictObject({ value: decimal, volume: decimal });
export type Offer = z.infer<typeof offer>;

export const submitBidRequest = z
  .strictObject({
    supplier: externalId,
    lots: z
      .array(
        z.strictObject({ lot: lotName, values: values.default({}), offers: z.array(offer).min(1).max(100).optional() }),
      )
      .min(1)
      .max(20_000),
    global: values.default({}).describe('For columns of scope EVENT. They also count in the other lots with a bid.'),
  })
  .meta({ id: 'SubmitBid' });

export type SubmitBid = z.infer<typeof submitBidRequest>;

/** `incomplete` names the lots whose bids are kept as drafts. */
export const submittedBid = z.looseObject({
  supplier: externalId,
  complete: z.int(),
  incomplete: z.array(z.looseObject({ lot: lotName, reason: z.string() })),
});

export const editedBids = z.looseObject({ supplier: externalId, edited: z.array(lotName) });

export const withdrawBidsRequest = z.strictObject({ supplier: externalId, lots: z.array(lotName).min(1).max(20_000) });

/** `unawarded`: the awards that scenarios gave to the withdrawn bids, and that are now gone. */
export const withdrawnBids = z.looseObject({
  supplier: externalId,
  withdrawn: z.array(lotName),
  unawarded: z.array(z.looseObject({ scenario: z.string(), lot: lotName })),
});

export const buyerValuesRequest = z.strictObject({
  lots: z
    .array(z.strictObject({ lot: lotName, values: values.default({}) }))
    .max(20_000)
    .default([]),
  global: values.default({}),
});

export type BuyerValues = z.infer<typeof buyerValuesRequest>;

/** How many lots were read, how many bids have another cost, and how many lacked only these values and now stand. */
export const buyerValues = z.looseObject({ lots: z.int(), recomputed: z.int(), completed: z.int() });

export const putScenarioRequest = z.strictObject({
  awards: z.array(z.strictObject({ lot: lotName, supplier: externalId, share_awarded: share })).max(100_000),
});

export const savedScenario = z.looseObject({ name: z.string(), ...putScenarioRequest.shape });

export const awardRequest = z.strictObject({ scenario: text(255, 1).nullable() });
export const chosenScenario = z.looseObject({ id: uuid, ...awardRequest.shape });

export const createRoundRequest = z
  .strictObject({ starts: timestamp.optional(), ends: timestamp })
  .refine(({ starts, ends }) => starts === undefined || starts < ends, {
    path: ['ends'],
    message: 'must be later than starts',
  });

export const extendRoundRequest = z.strictObject({ ends: timestamp });

/** Without a new end, a reopened round runs until it is closed. */
export const reopenRoundRequest = z.strictObject({ ends: timestamp.optional() });

export const invitationsRequest = z.strictObject({ suppliers: z.array(externalId).min(1).max(1_000) });

export const answersRequest = z
  .strictObject({
    supplier: externalId,
    answers: z
      .array(answer)
      .min(1)
      .max(5_000)
      .superRefine(onceInList('question_uuid', () => 'is answered twice in this submission')),
  })
  .meta({ id: 'SubmitAnswers' });

/** The responses as they are now, in the members of the feed's records. */
export const answersResult = z.looseObject({
  supplier: externalId,
  answers: z.array(supplierQuestionResponse.omit({ modified: true })),
});

/** The path of a response's attachment. */
export const answerFilePath = z.object({ supplier: externalId, question: uuid, file: uuid });
