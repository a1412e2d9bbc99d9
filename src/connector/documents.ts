/**
 * Documents: what a connector is asked to make true in its ERP, in words that no ERP owns. A document stands for the
 * whole state of its key; one without lines means: nothing is wanted here any more. Amounts are exact decimals as text.
 */
import { z } from 'zod';

const decimal = z.string();

export const awardLine = z.strictObject({
  /** Lot name; unique within the event. */
  lot: z.string(),
  scenario: z.string().optional(),
  /** "0.6" is 60 % of the lot. */
  share: decimal,
  /** The share of the lot's quantity; only where the flow says which column holds it. */
  quantity: decimal.optional(),
  /** Only where the flow says which column holds it. */
  unit_price: decimal.optional(),
  /** For the share, in the document's currency. */
  cost: decimal,
  historic_cost: decimal.optional(),
  savings: decimal.optional(),
  /** The whole row of the bid sheet, in the order of its columns. */
  values: z.array(z.strictObject({ column: z.string(), value: z.string(), currency: z.string().optional() })),
});

export const awardDocument = z.strictObject({
  kind: z.literal('award'),
  /** `<event id>/<supplier id>`. */
  key: z.string(),
  event: z.strictObject({
    id: z.string(),
    name: z.string(),
    reference_id: z.string().optional(),
    is_test: z.boolean(),
    tags: z.array(z.strictObject({ name: z.string(), value: z.string() })),
  }),
  supplier: z.strictObject({ id: z.string(), external_id: z.string().optional(), name: z.string() }),
  /** ISO 4217: the event's primary currency. */
  currency: z.string(),
  total_cost: decimal,
  lines: z.array(awardLine),
});

export type AwardLine = z.infer<typeof awardLine>;
export type AwardDocument = z.infer<typeof awardDocument>;

export const documentKinds = ['award'] as const;
export type DocumentKind = (typeof documentKinds)[number];
export type Document = AwardDocument;
