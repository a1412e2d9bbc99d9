/**
 * Decimals that keep every digit. Those of the contract round to 34 digits, and the bridge must not round a source's
 * data.
 */
import { Decimal } from '#contract/decimal.ts';
import { rejected } from './made-document.ts';

const Exact = Decimal.clone({ precision: 1e9, maxE: 9e15, minE: -9e15 });

/** No real amount or quantity has more digits, and a product of longer numbers would take minutes. */
const digitsMax = 1_000;

const form = /^-?\d+(\.\d+)?$/;

/**
 * Reads a number such as `12` or `-0.50`; undefined for anything else. Throws `Unmade`, rejected, for more than 1,000
 * digits; `what` opens the message.
 */
export function exactDecimal(text: string, what: string): Decimal | undefined {
  if (!form.test(text)) return undefined;
  if (text.length > digitsMax) throw rejected(`${what} has more than ${digitsMax} digits`);
  return new Exact(text);
}

export const one: Decimal = new Exact(1);

/** Returns the exact sum. */
export function sumOf(amounts: Iterable<Decimal>): Decimal {
  let sum = new Exact(0);
  for (const amount of amounts) sum = sum.plus(amount);
  return sum;
}
