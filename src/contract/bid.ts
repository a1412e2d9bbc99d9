/** A value of the bid sheet as feeds show it. Source: API document, "SupplierLotBid" and "LotAward". */
import { z } from 'zod';

export const bidSheetValue = z.looseObject({
  column_name: z.string(),
  value: z.string(),
  currency: z.string().optional(),
});

export type BidSheetValue = z.infer<typeof bidSheetValue>;
