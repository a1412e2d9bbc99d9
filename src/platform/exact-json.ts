/**
 * Parses JSON of foreign systems: within bounds, because a small text can make values that fill the memory, and without
 * changing its numbers. The contract writes money as text, but another service may write numbers, and a number that a
 * double cannot represent would lose digits.
 */
import { Decimal } from 'decimal.js';

export interface JsonBounds {
  readonly depthMax: number;
  readonly valuesMax: number;
}

/** More levels than any document of ours or of an ERP has, and about 60 MB as JavaScript values. */
const foreignBounds: JsonBounds = { depthMax: 100, valuesMax: 1_000_000 };

/** The text is JSON, or begins as JSON does, with more than is read. */
export class JsonBoundError extends Error {}

/**
 * Matches a number that a double may not represent: one with 16 digits or more, or with an exponent. It also matches a
 * few strings that look like such a number; that costs time and changes nothing.
 */
const inexactNumber = /[:,[]\s*-?\d(?:[\d.]{15,}|[\d.]*[eE])/;
/** The answer is nothing but a number. */
const loneNumber = /^\s*-?\d/;
/** An exponent that `Decimal` cannot represent: it would read the number as zero or infinite, as a double does. */
const hugeExponent = /[eE][+-]?\d{7}/;
/** A whole number that JavaScript would write with an exponent. It may be the key of an object. */
const longWholeNumber = /^-?\d{22}/;

/**
 * As `JSON.parse`, but a number that would lose digits is returned as its text. Throws SyntaxError for a text that is
 * no JSON, and JsonBoundError for one with more than 100 levels or 1,000,000 values.
 */
export function parseExactJson(text: string): unknown {
  checkJsonBounds(text, foreignBounds);
  return inexactNumber.test(text) || loneNumber.test(text) ? JSON.parse(text, reviver(keepExact)) : JSON.parse(text);
}

/** As `parseExactJson`, but each number is returned as its text: 12.50 stays so. 1E+2, as Java writes 100, is 100. */
export function parseAsWritten(text: string): unknown {
  checkJsonBounds(text, foreignBounds);
  return JSON.parse(text, reviver(keepDigits));
}

type ReadNumber = (value: number, source: string) => number | string;

/** Node passes the source text of a value to the reviver; the type does not have this argument yet. */
function reviver(readNumber: ReadNumber) {
  return (_key: string, value: unknown, ...[context]: readonly { source?: string }[]) =>
    typeof value === 'number' && context?.source !== undefined ? readNumber(value, context.source) : value;
}

function keepExact(value: number, source: string): number | string {
  if (hugeExponent.test(source) || longWholeNumber.test(source)) return source;
  return new Decimal(source).equals(value) ? value : source;
}

/** A longer one would make a text of many zeros. */
const shortExponent = /[eE][+-]?\d{1,2}$/;

function keepDigits(_value: number, source: string): string {
  return shortExponent.test(source) ? new Decimal(source).toFixed() : source;
}

/**
 * Throws JsonBoundError when the text has too many levels or values. Each value but the first follows an opening bracket
 * or a comma. A text that is no JSON may pass: `JSON.parse` refuses it.
 */
export function checkJsonBounds(text: string, { depthMax, valuesMax }: JsonBounds): void {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === ']' || character === '}') depth -= 1;
    else if (character === ',') values += 1;
    else if (character === '[' || character === '{') {
      depth += 1;
      values += 1;
    }
    if (depth > depthMax) throw new JsonBoundError(`is nested deeper than ${depthMax} levels (at character ${at})`);
    if (values > valuesMax) throw new JsonBoundError(`has more than ${valuesMax} values (at character ${at})`);
  }
}

/** The position of the quote that ends the string which begins at `start`, or the text's end. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}
