/** Decimals that keep every digit: the contract's round to 34, and what a source sends is not ours to round. */
import { Decimal } from '#contract/decimal.ts';
import { rejected } from './made-document.ts';

const Exact = Decimal.clone({ precision: 1e9, maxE: 9e15, minE: -9e15 });

/** More is no amount or quantity of this world, and a product of longer ones would take minutes. */
const digitsMax = 1_000;

const form = /^-?\d+(\.\d+)?$/;

/** Reads `12` or `-0.50`; undefined for anything else. Throws `Unmade` for more than 1,000 digits; `what` names it. */
export function exactDecimal(text: string, what: string): Decimal | undefined {
  if (!form.test(text)) return undefined;
  if (text.length > digitsMax) throw rejected(`${what} has more than ${digitsMax} digits`);
  return new Exact(text);
}

export function sumOf(amounts: Iterable<Decimal>): Decimal {
  let sum = new Exact(0);
  for (const amount of amounts) sum = sum.plus(amount);
  return sum;
}
