/** The types of mapped fields: which texts each type accepts, and the one form in which it returns them. */
import { dayIn } from '#connector/dates.ts';
import { parseTimestamp } from '#contract/timestamp.ts';
import { exactDecimal } from './exact-decimal.ts';

export const fieldTypes = ['text', 'decimal', 'integer', 'date', 'time', 'boolean'] as const;
export type FieldType = (typeof fieldTypes)[number];

interface Form {
  /** Returns the value in its one form; undefined when the text is not of this type. `zone` is that of the flow's days. */
  read(text: string, zone?: string): string | undefined;
  /** What the text must be; follows "must be" in messages. */
  readonly expected: string;
}

/** Numbers have a decimal point and no thousands separators: a comma could be either, and the bridge never guesses. */
export const fieldForms: Readonly<Record<FieldType, Form>> = {
  text: { read: (text) => text, expected: 'text' },
  decimal: {
    read: (text) => exactDecimal(text.trim(), 'the number')?.toFixed(),
    expected: 'a number with a decimal point and without separators, as 1234.50',
  },
  integer: {
    read: (text) => {
      const number = exactDecimal(text.trim(), 'the number');
      return number?.isInteger() === true ? number.toFixed() : undefined;
    },
    expected: 'a whole number, as 1234',
  },
  date: { read: dayOf, expected: 'an ISO 8601 date, as 2030-12-31' },
  time: { read: (text) => parseTimestamp(text.trim()), expected: 'an ISO 8601 time, as 2030-12-31T23:59:59Z' },
  boolean: { read: (text) => booleans.get(text.trim().toLowerCase()), expected: 'true or false, or yes or no' },
};

const booleans = new Map([
  ['true', 'true'],
  ['yes', 'true'],
  ['false', 'false'],
  ['no', 'false'],
]);

/** The day as it is written, or, of a time, the day in the zone. */
function dayOf(text: string, zone?: string): string | undefined {
  const written = text.trim();
  const time = parseTimestamp(written);
  if (time === undefined) return undefined;
  return zone === undefined || written.length === 'YYYY-MM-DD'.length ? written.slice(0, 10) : dayIn(time, zone);
}
