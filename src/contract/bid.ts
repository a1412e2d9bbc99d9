/** The latest bids feed's record. Source: API document, "SupplierLotBid". */
import { z } from 'zod';
import { timestamp, uuid } from './scalars.ts';

export const bidSheetValue = z.looseObject({
  column_name: z.string(),
  value: z.string(),
  currency: z.string().optional(),
});

export type BidSheetValue = z.infer<typeof bidSheetValue>;

export const supplierLotBid = z.looseObject({
  id: uuid,
  sourcing_event: uuid,
  sourcing_request: uuid.optional(),
  supplier: uuid,
  lot_name: z.string(),
  bids: z.array(z.looseObject({ value: z.string(), volume: z.string().optional() })),
  bid_sheet_values: z.array(bidSheetValue),
  modified: timestamp,
});
