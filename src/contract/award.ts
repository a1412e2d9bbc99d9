/** The awards feed's record. Source: API document, "LotAward". */
import { z } from 'zod';
import { bidSheetValue } from './bid.ts';
import { decimalText, timestamp, uuid } from './scalars.ts';

export const awardEntry = z.looseObject({
  supplier: uuid,
  /** Decimal fraction: "0.6" is 60 % of the lot. */
  share_awarded: decimalText,
  /** For the share, in the event's primary currency. */
  cost: decimalText,
  savings: decimalText.optional(),
  historic_cost: decimalText.optional(),
  bid_sheet_values: z.array(bidSheetValue),
});

export const lotAward = z.looseObject({
  id: uuid,
  sourcing_event: uuid,
  sourcing_request: uuid.optional(),
  lot_name: z.string(),
  scenario_name: z.string().optional(),
  /** Empty: nobody won this lot, or its award was taken back. */
  awards: z.array(awardEntry),
  modified: timestamp,
});

export type LotAward = z.infer<typeof lotAward>;
