/**
 * Numbers for ERPs, exact: text in, text out, never a JavaScript number. What an ERP cannot keep is refused, or rounded
 * where the connector says so; nothing is lost in silence.
 */
import { Decimal, formatDecimal } from '#contract/decimal.ts';
import { DataError } from './errors.ts';

export { Decimal, formatDecimal, parseDecimal } from '#contract/decimal.ts';

const form = /^-?\d+(?:\.\d+)?$/;
/** Longer ones are no amounts of anything; `Decimal` ends somewhat later. */
const digitsMax = 100;

/** Throws DataError that says what is no number; `what` names it: `lot "A": unit_price`. */
export function readDecimal(text: string, what: string): Decimal {
  if (!form.test(text)) throw new DataError(`${what} is ${quoted(text)}, which is no decimal number`);
  if (text.length > digitsMax)
    throw new DataError(`${what} has ${text.length} digits, which is more than ${digitsMax}`);
  return new Decimal(text);
}

/** The number, without trailing zeros. Throws DataError when it has more decimals than the ERP keeps. */
export function atMostDecimals(text: string, places: number, what: string): string {
  const value = readDecimal(text, what);
  if (value.decimalPlaces() > places)
    throw new DataError(
      `${what} is ${text}, and the ERP keeps ${places === 1 ? '1 decimal' : `${places} decimals`} there: it would lose something`,
    );
  return value.toFixed();
}

/** Rounded to so many decimals, halves away from zero: for what the ERP itself would round, as a converted amount. */
export function roundTo(text: string, places: number, what: string): string {
  return formatDecimal(readDecimal(text, what), places);
}

/**
 * A number for `json` of a request: JSON with each of its digits, where the ERP takes no text. Throws DataError for what
 * is no number.
 */
export function jsonNumber(text: string, what: string): unknown {
  return rawJson.rawJSON(readDecimal(text, what).toFixed());
}

/** ECMAScript's; TypeScript's own types do not have it yet. */
const rawJson = JSON as unknown as { rawJSON(text: string): unknown };

/**
 * Splits a total by shares into parts of whole units (`places` 2: of hundredths) that sum exactly to it, by the largest
 * remainder; of equal remainders the first gets it. Shares count against their sum: `0.6` alone gets everything. Throws
 * DataError for a total that has more decimals, and for shares of which none is more than 0.
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
      `the shares ${shares.join(', ')} cannot be split by: none may be below 0, and one must be more`,
    );
  const parts = weights.map((weight) => (size * weight) / sum);
  const left = size - parts.reduce((all, part) => all + part, 0n);
  const remainders = weights.map((weight, index) => ({ index, remainder: (size * weight) % sum }));
  remainders.sort((a, b) => Number(b.remainder > a.remainder) - Number(b.remainder < a.remainder) || a.index - b.index);
  for (const { index } of remainders.slice(0, Number(left))) parts[index] = (parts[index] ?? 0n) + 1n;
  return parts.map((part) => textOf(units < 0n ? -part : part, places));
}

/** `12.5` with two places: 1250. It has no more decimals than that. */
function unitsOf(text: string, places: number): bigint {
  const [whole = '', fraction = ''] = text.split('.');
  return BigInt(`${whole}${fraction.padEnd(places, '0')}`);
}

function textOf(units: bigint, places: number): string {
  const digits = String(units < 0n ? -units : units).padStart(places + 1, '0');
  const whole = digits.slice(0, digits.length - places);
  const fraction = digits.slice(digits.length - places).replace(/0+$/, '');
  return `${units < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** Where ISO 4217 (list of 2024) has other than two. */
const decimalsOf: ReadonlyMap<string, number> = new Map([
  ...['BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG', 'RWF', 'UGX', 'UYI', 'VND', 'VUV'].map(withNone),
  ...['XAF', 'XOF', 'XPF'].map(withNone),
  ...['BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND'].map((code): [string, number] => [code, 3]),
  ...['CLF', 'UYW'].map((code): [string, number] => [code, 4]),
]);

function withNone(code: string): [string, number] {
  return [code, 0];
}

/** How many decimals amounts of a currency have: ISO 4217's minor unit. 2 for a code that is not known. */
export function currencyDecimals(currency: string): number {
  return decimalsOf.get(currency) ?? 2;
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
