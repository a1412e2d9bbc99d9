/**
 * Exact decimal numbers for money and quantities: 34 significant digits, halves rounded away from zero, never a binary
 * float and never exponent notation. The cost formula refuses numbers beyond 10^100. So repeated multiplication in a
 * bid sheet cannot make a number that takes a gigabyte to write down, and sums of such numbers stay finite.
 */
import { Decimal as DecimalJs } from 'decimal.js';

export type Decimal = DecimalJs;

/** Makes decimals from trusted text or whole numbers. Text from outside goes through `parseDecimal`. */
export const Decimal = DecimalJs.clone({
  precision: 34,
  rounding: DecimalJs.ROUND_HALF_UP, // In decimal.js this means: halves away from zero, also below zero.
  toExpNeg: -9e15,
  toExpPos: 9e15,
  maxE: 200,
  minE: -100,
});

const decimalForm = /^-?(\d+)(?:\.(\d+))?$/;

/**
 * Reads `12`, `-0.50`: an optional minus, digits, an optional fraction. Returns undefined for any other text, also for
 * more than `digitsMax` digits (20, as the API's numbers have; leading and trailing zeros count).
 */
export function parseDecimal(text: string, options?: { digitsMax?: number }): Decimal | undefined {
  return isDecimal(text, options) ? new Decimal(text) : undefined;
}

/** Whether `parseDecimal` reads the text: a third of what making the number costs. */
export function isDecimal(text: string, { digitsMax = 20 }: { digitsMax?: number } = {}): boolean {
  // Two more for the minus and the point: a longer text is no number and need not be matched.
  if (text.length > digitsMax + 2 || !decimalForm.test(text)) return false;
  return text.length - (text.startsWith('-') ? 1 : 0) - (text.includes('.') ? 1 : 0) <= digitsMax;
}

/**
 * Writes a number as the API shows it: at most `decimals` decimals, halves away from zero, trailing zeros trimmed, `0`
 * for minus zero. Throws a RangeError for a number that is not finite; callers never have one.
 */
export function formatDecimal(value: Decimal, decimals = 10): string {
  if (!value.isFinite()) throw new RangeError(`${value.toString()} cannot be written as a decimal`);
  // Without a number of places, toFixed trims zeros and writes minus zero as 0.
  return value.toDecimalPlaces(decimals, DecimalJs.ROUND_HALF_UP).toFixed();
}

/** Whether a decimal text fits a column of this precision; trailing zeros do not count. False for other text. */
export function hasAtMostDecimals(text: string, precision: number): boolean {
  const match = decimalForm.exec(text);
  if (!match) return false;
  const fraction = match[2] ?? '';
  let decimals = fraction.length;
  while (fraction[decimals - 1] === '0') decimals -= 1;
  return decimals <= precision;
}
