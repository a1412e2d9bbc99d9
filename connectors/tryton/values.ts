/**
 * Tryton's JSON values: zod schemas that read them, and functions that build them. The connector itself keeps ids as
 * numbers, and decimals and dates as text, so that it can compare them.
 */
import { DataError, Decimal, z } from 'sourcing-bridge/connector';

/** The value of a field, in the form in which it is compared; null: the field is empty. */
export type FieldValue = string | number | boolean | null;

export const id = z.int().nonnegative();
export const ids = z.array(id);
/** A boolean; Tryton on SQLite returns 0 or 1. */
export const flag = z.union([z.boolean(), z.number()]).transform(Boolean);
export const text = z
  .string()
  .nullable()
  .transform((value) => value ?? '');

/** The time of a record's last change, as Tryton sends it. */
export const timestamp = z.union([z.string(), z.number()]).nullable();

/** Tryton's reference to a record, such as `purchase.purchase,12`. */
export function referenceTo(model: string, recordId: number): string {
  return `${model},${recordId}`;
}

/** The id in a reference; undefined if there is no reference, or if it belongs to another model. */
export function idIn(reference: string | undefined, model: string): number | undefined {
  const [name, number] = (reference ?? '').split(',');
  return name === model && /^\d+$/u.test(number ?? '') ? Number(number) : undefined;
}

/** A record that was read from Tryton: its model, its id and the time of its last change. */
export type ReadRecord = readonly [
  model: string,
  row: { readonly id: number; readonly _timestamp: z.output<typeof timestamp> },
];

/** The context for a change: Tryton refuses the change if one of these records was changed after it was read. */
export function ifUnchanged(records: readonly ReadRecord[]): { readonly _timestamp: Readonly<Record<string, string>> } {
  const timestamps = records.flatMap(([model, { id: recordId, _timestamp }]) =>
    _timestamp === null ? [] : [[referenceTo(model, recordId), String(_timestamp)]],
  );
  return { _timestamp: Object.fromEntries(timestamps) };
}

const decimalPattern = /^[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?$/u;

export const decimal = z
  .object({ __class__: z.literal('Decimal'), decimal: z.string().regex(decimalPattern) })
  .transform(({ decimal }) => plainDecimal(decimal));

export const date = z
  .object({ __class__: z.literal('date'), year: z.int(), month: z.int(), day: z.int() })
  .transform(({ year, month, day }) => `${padded(year, 4)}-${padded(month, 2)}-${padded(day, 2)}`);

/** Text in UTC: 2030-12-31T23:59:59.000000Z. */
export const datetime = z
  .object({
    __class__: z.literal('datetime'),
    year: z.int(),
    month: z.int(),
    day: z.int(),
    hour: z.int(),
    minute: z.int(),
    second: z.int(),
    microsecond: z.int(),
  })
  .transform(({ year, month, day, hour, minute, second, microsecond }) => {
    const time = [hour, minute, second].map((part) => padded(part, 2)).join(':');
    return `${padded(year, 4)}-${padded(month, 2)}-${padded(day, 2)}T${time}.${padded(microsecond, 6)}Z`;
  });

export function decimalOf(value: string): unknown {
  return { __class__: 'Decimal', decimal: value };
}

/** Tryton's JSON for a date such as `2030-12-31`. */
export function dateOf(value: string): unknown {
  const [year, month, day] = value.split('-').map(Number);
  return { __class__: 'date', year, month, day };
}

export function datetimeOf(ms: number): unknown {
  const at = new Date(ms);
  return {
    __class__: 'datetime',
    year: at.getUTCFullYear(),
    month: at.getUTCMonth() + 1,
    day: at.getUTCDate(),
    hour: at.getUTCHours(),
    minute: at.getUTCMinutes(),
    second: at.getUTCSeconds(),
    microsecond: 0,
  };
}

export function bytesOf(bytes: Uint8Array): unknown {
  return { __class__: 'bytes', base64: Buffer.from(bytes).toString('base64') };
}

/**
 * Whether the text is a day of the calendar, written like `2030-12-31`. Any other date makes Tryton fail the whole
 * request.
 */
export function isDate(value: string): boolean {
  const day = /^\d{4}-\d{2}-\d{2}$/u.test(value) ? Date.parse(`${value}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(day) && new Date(day).toISOString().startsWith(value) && !value.startsWith('0000');
}

function padded(value: number, length: number): string {
  return String(value).padStart(length, '0');
}

/**
 * The decimal without superfluous zeros: `1.8750` becomes `1.875`. Also reads the exponents that Python writes for very
 * small numbers (`0E-4`, `1E-7`). Throws DataError if the text is not a decimal number.
 */
export function plainDecimal(value: string): string {
  if (!decimalPattern.test(value)) throw new DataError(`"${value}" is not a decimal number such as 12.5.`);
  return new Decimal(value).toFixed();
}

/** The floating-point number that is exactly this decimal; undefined if there is none (more than 15 digits). */
export function floatOf(value: string): number | undefined {
  const number = Number(value);
  return Number.isFinite(number) && plainDecimal(String(number)) === plainDecimal(value) ? number : undefined;
}

/** The text with blanks for line breaks and tabs, which Tryton refuses in a one-line field. */
export function oneLine(value: string): string {
  return value.replaceAll(/[\t\n\v\f\r]+/gu, ' ').trim();
}

/** Splits blank-separated field names; those of `children` get the child's name as prefix, such as `lines.product`. */
export function fieldNames(own: string, children: Readonly<Record<string, string>> = {}): string[] {
  const nested = Object.entries(children).flatMap(([child, names]) =>
    names.split(' ').map((name) => `${child}.${name}`),
  );
  return [...own.split(' '), ...nested];
}
