/**
 * JSON with its numbers as they were written. The contract writes money as text; another service may not, and a number
 * that a double cannot hold would come out changed.
 */
import { Decimal } from 'decimal.js';

/**
 * A number outside of a text that a double may not hold: 16 digits or more, or an exponent. Also finds a few texts that
 * look like it, which costs time and changes nothing.
 */
const doubtful = /(?:^|[:,[\s])-?\d(?:[\d.]{15,}|[\d.]*[eE])/;
/** Beyond what `Decimal` can hold: it would say that such a number is zero, or infinite, as the double does. */
const hugeExponent = /[eE][+-]?\d{7}/;

/**
 * `JSON.parse`, but a number that would lose digits comes as the text that stood there. Throws as `JSON.parse` does
 * with a reviver: RangeError, too, for what is nested thousands of levels deep.
 */
export function parseExactJson(text: string): unknown {
  return doubtful.test(text)
    ? JSON.parse(text, keepExact as (key: string, value: unknown) => unknown)
    : JSON.parse(text);
}

/** Node gives a reviver the text of what it read; its type does not say so yet. */
function keepExact(_key: string, value: unknown, { source }: { source?: string }): unknown {
  if (typeof value !== 'number' || source === undefined) return value;
  return !hugeExponent.test(source) && new Decimal(source).equals(value) ? value : source;
}
