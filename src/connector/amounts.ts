/** What a lot of an award is ordered by. */
import type { AwardLine } from './documents.ts';
import { DataError } from './errors.ts';
import { readDecimal } from './numbers.ts';

/** Decimal numbers without an exponent; the price is that of one unit, in the document's currency. */
export interface LotAmount {
  readonly quantity: string;
  readonly unitPrice: string;
}

/** More decimals than any ERP keeps of a price. */
const priceDecimalsMax = 12;

/**
 * The quantity and the unit price of an award's line: exactly its cost where the line does not name both. Without both,
 * the lot is one piece at the cost of the supplier's share. In a Dutch auction, whose suppliers accept a price of the lot
 * and name none of a piece, the price is the cost divided by the quantity. Throws DataError where only the unit price is
 * there, and where the division has no exact result.
 */
export function awardAmount({
  quantity,
  unit_price,
  cost,
}: Pick<AwardLine, 'quantity' | 'unit_price' | 'cost'>): LotAmount {
  if (quantity === undefined) {
    if (unit_price === undefined) return { quantity: '1', unitPrice: cost };
    throw new DataError(
      'it has a unit price and no quantity: name both columns in the flow (quantity_column, unit_price_column), or neither of them',
    );
  }
  if (unit_price !== undefined) return { quantity, unitPrice: unit_price };
  const total = readDecimal(cost, 'the cost');
  const pieces = readDecimal(quantity, 'the quantity');
  const price = pieces.isZero() ? undefined : total.dividedBy(pieces);
  // A division without an end fills all digits of the result.
  if (price !== undefined && price.decimalPlaces() <= priceDecimalsMax && price.times(pieces).equals(total))
    return { quantity, unitPrice: price.toFixed() };
  throw new DataError(
    `it has the quantity ${quantity} and no unit price, as lots of a Dutch auction do, and its cost ${cost} cannot be divided by it exactly: order it by hand, or send such events through a flow without quantity_column and unit_price_column, which orders each lot as one piece at its cost`,
  );
}
