/**
 * Prices and quantities as SAP keeps them: a net price with as many decimals as SAP's currency has (three at most), per a
 * whole number of units. A price with more decimals becomes a price per 10, 100, 1,000 or 10,000 units, exactly:
 * 0.0125 EUR per piece is 1.25 EUR per 100 pieces. What cannot be kept exactly is refused, never rounded.
 */
import { currencyDecimals, DataError, readDecimal } from 'sourcing-bridge/connector';

export interface Price {
  /** NetPriceAmount, Edm.Decimal(12,3). */
  readonly amount: string;
  /** NetPriceQuantity, Edm.Decimal(5,0): the units that the amount is for. */
  readonly per: string;
}

const decimalsMax = 3;
/**
 * Where SAP's table of decimals (TCURX, note 137626) is not ISO's.
 */
const tcurx: ReadonlyMap<string, number> = new Map([
  ['HUF', 0],
  ['IDR', 0],
  ['COP', 0],
  ['TWD', 0],
]);
/** Of 12 digits 3 are decimals. */
const amountMax = 999_999_999;
const quantityMax = 9_999_999_999;
const priceUnits = [1, 10, 100, 1_000, 10_000];

/** Throws DataError, which names the value by `what`, for a price that SAP cannot keep exactly. */
export function netPrice(price: string, currency: string, what: string): Price {
  const value = readDecimal(price, what);
  const places = Math.min(decimalsMax, tcurx.get(currency) ?? currencyDecimals(currency));
  for (const per of priceUnits) {
    const amount = value.times(per);
    if (amount.decimalPlaces() > places) continue;
    if (amount.abs().greaterThan(amountMax))
      throw new DataError(
        `${what} is ${price} ${currency}: SAP keeps at most ${amountMax} there (NetPriceAmount), and this is ${amount.toFixed()} per ${per}`,
      );
    if (amount.isNegative()) throw new DataError(`${what} is ${price}: SAP takes no negative price (NetPriceAmount)`);
    return { amount: amount.toFixed(), per: String(per) };
  }
  throw new DataError(
    `${what} is ${price} ${currency}: SAP keeps ${places} decimals of a price per ${priceUnits.at(-1)} units (NetPriceAmount, NetPriceQuantity), so digits would be lost`,
  );
}

/** OrderQuantity, Edm.Decimal(13,3). Throws DataError for a quantity that SAP cannot keep exactly. */
export function orderQuantity(quantity: string, what: string): string {
  const value = readDecimal(quantity, what);
  if (value.decimalPlaces() > decimalsMax)
    throw new DataError(`${what} is ${quantity}: SAP keeps 3 decimals of a quantity (OrderQuantity)`);
  if (value.abs().greaterThan(quantityMax))
    throw new DataError(`${what} is ${quantity}: SAP keeps at most ${quantityMax} there (OrderQuantity)`);
  if (!value.greaterThan(0)) throw new DataError(`${what} is ${quantity}: SAP orders more than 0 (OrderQuantity)`);
  return value.toFixed();
}
