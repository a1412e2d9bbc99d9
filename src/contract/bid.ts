/** The record of the latest bids feed. Source: API document, "SupplierLotBid". */
import { z } from 'zod';
import { decimalText, timestamp, uuid } from './scalars.ts';

/** A value of the bid sheet as feeds show it. `currency` is there when the value was entered in a currency. */
export const bidSheetValue = z
  .looseObject({
    column_name: z.string(),
    value: z.string(),
    currency: z.string().optional(),
  })
  .meta({ id: 'BidSheetValue' });

export type BidSheetValue = z.infer<typeof bidSheetValue>;

export const supplierLotBid = z
  .looseObject({
    id: uuid,
    sourcing_event: uuid,
    sourcing_request: uuid.optional(),
    supplier: uuid,
    lot_name: z.string(),
    bids: z
      .array(z.looseObject({ value: decimalText, volume: decimalText.optional() }))
      .describe(
        "RFQ and English auction: one, the primary cost in the event's primary currency. Dutch auction: the asks, each " +
          'with its volume. Empty, and no values beside it: the bid was withdrawn.',
      ),
    bid_sheet_values: z.array(bidSheetValue),
    modified: timestamp,
  })
  .meta({ id: 'SupplierLotBid' });
