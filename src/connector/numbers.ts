/**
 * Exact numbers for ERPs: text in, text out, never a JavaScript number. Digits that an ERP cannot keep are refused, or
 * rounded where the connector asks for that; none is lost silently.
 */
import { Decimal, formatDecimal } from '#contract/decimal.ts';
import { DataError } from './errors.ts';

export { Decimal, formatDecimal, parseDecimal } from '#contract/decimal.ts';

const form = /^-?\d+(?:\.\d+)?$/;
/** No real amount is longer. The limit of `Decimal` is somewhat higher. */
const digitsMax = 100;

/**
 * Throws DataError for a text that is not a decimal number; `what` names the value in its message: `lot "A":
 * unit_price`.
 */
export function readDecimal(text: string, what: string): Decimal {
  if (!form.test(text)) throw new DataError(`${what} is ${quoted(text)}, which is not a decimal number`);
  if (text.length > digitsMax)
    throw new DataError(`${what} has ${text.length} digits, which is more than ${digitsMax}`);
  return new Decimal(text);
}

/** The number without trailing zeros. Throws DataError when it has more than `places` decimals, which the ERP keeps. */
export function atMostDecimals(text: string, places: number, what: string): string {
  const value = readDecimal(text, what);
  if (value.decimalPlaces() > places)
    throw new DataError(
      `${what} is ${text}, and the ERP keeps ${places === 1 ? '1 decimal' : `${places} decimals`} there: digits would be lost`,
    );
  return value.toFixed();
}

/**
 * The number rounded to `places` decimals, halves away from zero: for values that the ERP itself would round, such as a
 * converted amount.
 */
export function roundTo(text: string, places: number, what: string): string {
  return formatDecimal(readDecimal(text, what), places);
}

/**
 * A number for `json` of a request, for an ERP that takes no text there: the JSON has each of its digits. Throws
 * DataError for a text that is not a number.
 */
export function jsonNumber(text: string, what: string): unknown {
  return rawJson.rawJSON(readDecimal(text, what).toFixed());
}

/** `JSON.rawJSON` of ECMAScript, which TypeScript's types do not have yet. */
const rawJson = JSON as unknown as { rawJSON(text: string): unknown };

/**
 * Splits a total by shares into parts that sum exactly to it, by the largest-remainder method; of equal remainders the
 * first one wins. Each part is a whole number of units (`places` 2: of hundredths). Shares are relative to their sum:
 * `0.6` alone gets everything. Throws DataError for a total with more than `places` decimals, for a share below 0, and
 * when no share is above 0.
 */
export function splitQuantity(total: string, shares: readonly string[], places = 0): string[] {
  const units = unitsOf(atMostDecimals(total, places, 'the total'), places);
  const size = units < 0n ? -units : units;
  const values = shares.map((share, index) => readDecimal(share, `share ${index + 1}`));
  const scale = Math.max(0, ...values.map((value) => value.decimalPlaces()));
  const weights = values.map((value) => unitsOf(value.toFixed(), scale));
  const sum = weights.reduce((all, weight) => all + weight, 0n);
  if (sum <= 0n || weights.some((weight) => weight < 0n))
    throw new DataError(
      `the shares ${shares.join(', ')} cannot be used to split: none may be below 0, and at least one must be above 0`,
    );
  const parts = weights.map((weight) => (size * weight) / sum);
  const left = size - parts.reduce((all, part) => all + part, 0n);
  const remainders = weights.map((weight, index) => ({ index, remainder: (size * weight) % sum }));
  remainders.sort((a, b) => Number(b.remainder > a.remainder) - Number(b.remainder < a.remainder) || a.index - b.index);
  for (const { index } of remainders.slice(0, Number(left))) parts[index] = (parts[index] ?? 0n) + 1n;
  return parts.map((part) => textOf(units < 0n ? -part : part, places));
}

/** `12.5` with two places is 1250. The text must have no more than `places` decimals. */
function unitsOf(text: string, places: number): bigint {
  const [whole = '', fraction = ''] = text.split('.');
  return BigInt(`${whole}${fraction.padEnd(places, '0')}`);
}

function textOf(units: bigint, places: number): string {
  const digits = String(units < 0n ? -units : units).padStart(places + 1, '0');
  const whole = digits.slice(0, digits.length - places);
  const fraction = digits.slice(digits.length - places).replace(/(?<!0)0+$/, '');
  return `${units < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The currencies that do not have two decimals; source: ISO 4217, list of 2024. */
const decimalsOf: ReadonlyMap<string, number> = new Map([
  ...['BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG', 'RWF', 'UGX', 'UYI', 'VND', 'VUV'].map(withNone),
  ...['XAF', 'XOF', 'XPF'].map(withNone),
  ...['BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND'].map((code): [string, number] => [code, 3]),
  ...['CLF', 'UYW'].map((code): [string, number] => [code, 4]),
]);

function withNone(code: string): [string, number] {
  return [code, 0];
}

/** How many decimals amounts of a currency have: the minor unit of ISO 4217. 2 for an unknown code. */
export function currencyDecimals(currency: string): number {
  return decimalsOf.get(currency) ?? 2;
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
