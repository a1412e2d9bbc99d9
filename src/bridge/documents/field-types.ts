/** The types of mapped fields: what each takes, and the one form in which it gives it. */
import { parseTimestamp } from '#contract/timestamp.ts';
import { exactDecimal } from './exact-decimal.ts';

export const fieldTypes = ['text', 'decimal', 'integer', 'date', 'time', 'boolean'] as const;
export type FieldType = (typeof fieldTypes)[number];

interface Form {
  /** Undefined when the text is none. */
  read(text: string): string | undefined;
  /** Follows "must be". */
  readonly expected: string;
}

/** Numbers have a point and no thousands separators: a comma may be either, and is never guessed. */
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
  date: { read: (text) => parseTimestamp(text.trim())?.slice(0, 10), expected: 'an ISO 8601 date, as 2030-12-31' },
  time: { read: (text) => parseTimestamp(text.trim()), expected: 'an ISO 8601 time, as 2030-12-31T23:59:59Z' },
  boolean: { read: (text) => booleans.get(text.trim().toLowerCase()), expected: 'true or false, or yes or no' },
};

const booleans = new Map([
  ['true', 'true'],
  ['yes', 'true'],
  ['false', 'false'],
  ['no', 'false'],
]);
