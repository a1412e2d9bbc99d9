/**
 * Splits the quantity of a lot among the suppliers that won shares of it, so that the parts add up to what was awarded
 * of it. An ERP keeps few decimals of a quantity; three parts that are each rounded may be 99.99 of 100.
 *
 * Example, 100 in thirds, with two decimals:
 *
 *     0.333333   33.3333   33.33
 *     0.333333   33.3333   33.33
 *     0.333334   33.3334   33.34   the largest remainder
 *
 * Without `decimals` a part is the exact product. With them it is cut to so many decimals, or to those of the lot's own
 * quantity where it has more. What that leaves goes, one unit of the last decimal each, to the parts that lost most; of
 * equals to the supplier whose id comes first.
 */

import { DataError } from '#connector/errors.ts';
import { splitQuantity } from '#connector/numbers.ts';
import type { Decimal } from '#contract/decimal.ts';
import { one, sumOf } from './exact-decimal.ts';
import { rejected } from './made-document.ts';

interface Share<Entry> {
  readonly entry: Entry;
  readonly share: Decimal;
}

/** Shares with fewer decimals are meant as they stand: 0.33 three times leaves 0.01 to nobody. */
const roundedFrom = 4;

/** Returns the part of one entry. Throws `Unmade`, rejected, for a negative share or quantity too long to split. */
export function partOfQuantity<Entry>(
  lot: string,
  total: Decimal,
  shares: readonly Share<Entry>[],
  own: Entry,
  decimals: number | undefined,
): string {
  if (shares.some(({ share }) => share.lessThan(0)))
    throw rejected(`lot "${lot}": its quantity cannot be split: a share is negative`);
  if (decimals === undefined) return exactPart(total, shares, own);
  const places = Math.max(decimals, total.decimalPlaces());
  const parts = shares.map(({ share }) => share);
  const rest = restOf(parts);
  // More than the whole was awarded: the parts add up to that.
  const awarded = rest.isNegative() ? total.times(one.minus(rest)).toDecimalPlaces(places) : total;
  const split = [...parts, ...(rest.greaterThan(0) ? [rest] : [])].map((share) => share.toFixed());
  try {
    return splitQuantity(awarded.toFixed(), split, places)[shares.findIndex(({ entry }) => entry === own)] ?? '0';
  } catch (error) {
    if (error instanceof DataError) throw rejected(`lot "${lot}": its quantity cannot be split: ${error.message}`);
    throw error;
  }
}

function exactPart<Entry>(total: Decimal, shares: readonly Share<Entry>[], own: Entry): string {
  const share = shares.find(({ entry }) => entry === own)?.share;
  return share === undefined ? '0' : total.times(share).toFixed();
}

/** What is awarded to nobody; none where the shares miss the whole by no more than their own rounding. */
function restOf(shares: readonly Decimal[]): Decimal {
  const rest = one.minus(sumOf(shares));
  const written = Math.max(...shares.map((share) => share.decimalPlaces()));
  const rounding = one.dividedBy(10 ** Math.min(written, 15)).times(shares.length / 2);
  return written >= roundedFrom && rest.abs().lessThanOrEqualTo(rounding) ? one.minus(1) : rest;
}
