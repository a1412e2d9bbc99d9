/**
 * Places: where the settings of a connector say that a value is, in a row of a table, a line of a file or an object of an
 * answer. What a place is (a column, a path) the connector decides.
 */
import { z } from 'zod';
import { parseAsWritten } from '#platform/exact-json.ts';
import { DataError } from './errors.ts';
import { composed } from './human-text.ts';
import type { RecordFault } from './records.ts';

export const place = z.string().min(1).max(1_000);

/** Compiles a place into a function that returns the value there. */
export type ValueAt<Row> = (place: string) => (row: Row) => unknown;

/** Yes or no, or which values mean yes. */
export const flagPlace = z.union([place, z.strictObject({ at: place, is: z.array(z.string()).min(1) })]);

/** The places in a flag's setting. */
export function placesOfFlag(given: z.output<typeof flagPlace> | undefined): string[] {
  if (given === undefined) return [];
  return [typeof given === 'string' ? given : given.at];
}

/** A single value as text; nothing becomes the empty text. Throws DataError for a list or an object. */
export function singleText(value: unknown, what: string): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  throw new DataError(`${what} is not a single value`);
}

const yes: ReadonlySet<string> = new Set(['true', 't', 'yes', 'y', '1', 'x']);
const no: ReadonlySet<string> = new Set(['false', 'f', 'no', 'n', '0', '']);

/** Returns a function that reads the flag; it throws DataError for a value that the settings do not explain. */
export function compileFlag<Row>(
  given: z.output<typeof flagPlace>,
  valueAt: ValueAt<Row>,
  { what, meaning }: { what: string; meaning: string },
): (row: Row) => boolean {
  const at = valueAt(typeof given === 'string' ? given : given.at);
  const chosen = typeof given === 'string' ? undefined : new Set(given.is.map(composed));
  return (row) => {
    const text = singleText(at(row), what).trim();
    if (chosen) return chosen.has(composed(text));
    const lower = text.toLowerCase();
    // A value that the settings do not explain must not make a blocked supplier usable, or an order of a draft.
    if (!yes.has(lower) && !no.has(lower))
      throw new DataError(`${what} has a value that is neither yes nor no: say in \`is\` which values mean ${meaning}`);
    return yes.has(lower);
  };
}

/**
 * Reads JSON; each number becomes the text that stands there, without an exponent: 12.50 stays so. Returns undefined
 * for another text, and for one with more levels or values than are read.
 */
export function parseWithDigits(text: string): unknown {
  try {
    return parseAsWritten(text);
  } catch {
    return undefined;
  }
}

/** A list, or the JSON text of one; nothing is an empty list. Throws DataError with `otherwise` for anything else. */
export function entriesOf(value: unknown, otherwise: string): readonly unknown[] {
  if (value === undefined || value === null || value === '') return [];
  const list = typeof value === 'string' ? parseWithDigits(value) : value;
  if (!Array.isArray(list)) throw new DataError(otherwise);
  return list;
}

/**
 * Makes a record of the entry whose number is at `keyAt`, or the fault that a person sees. `make` throws DataError for
 * what is wrong.
 */
export function recordOrFault<Row, Made>(
  row: Row,
  { where, keyAt, what }: { where: string; keyAt: (row: Row) => unknown; what: string },
  make: (key: string) => Made,
): { record: Made } | { fault: RecordFault } {
  let key = '';
  try {
    key = singleText(keyAt(row), what).trim();
    if (key === '') throw new DataError('it has no number');
    return { record: make(key) };
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    return { fault: { where, key: key === '' ? undefined : key, why: error.message } };
  }
}
