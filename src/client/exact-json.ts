/**
 * Parses JSON without changing its numbers. The contract writes money as text, but another service may write numbers,
 * and a number that a double cannot represent would lose digits.
 */
import { Decimal } from 'decimal.js';

/**
 * Matches a number that a double may not represent: one with 16 digits or more, or with an exponent. It also matches a
 * few strings that look like such a number; that costs time and changes nothing.
 */
const inexactNumber = /[:,[]\s*-?\d(?:[\d.]{15,}|[\d.]*[eE])/;
/** The answer is nothing but a number. */
const loneNumber = /^\s*-?\d/;
/** An exponent that `Decimal` cannot represent: it would read the number as zero or infinite, as a double does. */
const hugeExponent = /[eE][+-]?\d{7}/;

/**
 * As `JSON.parse`, but a number that would lose digits is returned as its text. Throws as `JSON.parse` with a reviver
 * does: also RangeError, for a value that is nested thousands of levels deep.
 */
export function parseExactJson(text: string): unknown {
  return inexactNumber.test(text) || loneNumber.test(text)
    ? JSON.parse(text, keepExact as (key: string, value: unknown) => unknown)
    : JSON.parse(text);
}

/** Node passes the source text of a value to the reviver; the type does not have this argument yet. */
function keepExact(_key: string, value: unknown, { source }: { source?: string }): unknown {
  if (typeof value !== 'number' || source === undefined) return value;
  return !hugeExponent.test(source) && new Decimal(source).equals(value) ? value : source;
}
