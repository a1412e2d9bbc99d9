/** Values as Tryton's JSON has them, and as they are compared here: ids, and texts for decimals and dates. */
import { DataError, z } from 'sourcing-bridge/connector';

/** A value of a field as it is compared: null is an empty one. */
export type Value = string | number | boolean | null;

export const id = z.int().nonnegative();
export const ids = z.array(id);
/** SQLite gives 0 and 1. */
export const flag = z.union([z.boolean(), z.number()]).transform(Boolean);
export const text = z
  .string()
  .nullable()
  .transform((given) => given ?? '');

/** When a record was last changed. */
export const stamp = z.union([z.string(), z.number()]).nullable();

/** As `purchase.purchase,12`. */
export function referenceTo(model: string, one: number): string {
  return `${model},${one}`;
}

/** Undefined where the reference is of another model, or none. */
export function idIn(reference: string | undefined, model: string): number | undefined {
  const [name, number] = (reference ?? '').split(',');
  return name === model && /^\d+$/u.test(number ?? '') ? Number(number) : undefined;
}

/** A record of a model, as it was read. */
export type Read = readonly [model: string, row: { readonly id: number; readonly _timestamp: z.output<typeof stamp> }];

/** For the context of a change: Tryton refuses it when somebody has changed one of these since they were read. */
export function ifUnchanged(read: readonly Read[]): { readonly _timestamp: Readonly<Record<string, string>> } {
  const stamps = read.flatMap(([model, { id: one, _timestamp }]) =>
    _timestamp === null ? [] : [[referenceTo(model, one), String(_timestamp)]],
  );
  return { _timestamp: Object.fromEntries(stamps) };
}

const decimalPattern = /^([+-]?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/u;

export const decimal = z
  .object({ __class__: z.literal('Decimal'), decimal: z.string().regex(decimalPattern) })
  .transform(({ decimal }) => plainDecimal(decimal));

export const date = z
  .object({ __class__: z.literal('date'), year: z.int(), month: z.int(), day: z.int() })
  .transform(({ year, month, day }) => `${padded(year, 4)}-${padded(month, 2)}-${padded(day, 2)}`);

export function decimalOf(value: string): unknown {
  return { __class__: 'Decimal', decimal: value };
}

/** Of `2030-12-31`. */
export function dateOf(value: string): unknown {
  const [year, month, day] = value.split('-').map(Number);
  return { __class__: 'date', year, month, day };
}

export function momentOf(ms: number): unknown {
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

/** Whether it is a day as `2030-12-31`. One that the calendar does not have breaks the whole request in Tryton. */
export function isDate(value: string): boolean {
  const day = /^\d{4}-\d{2}-\d{2}$/u.test(value) ? Date.parse(`${value}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(day) && new Date(day).toISOString().startsWith(value) && !value.startsWith('0000');
}

function padded(value: number, length: number): string {
  return String(value).padStart(length, '0');
}

/** Without needless zeros: `1.8750` is `1.875`. Python writes very small ones as `0E-4` or `1E-7`. Throws DataError. */
export function plainDecimal(value: string): string {
  const { negative, digits, scale } = partsOf(value);
  const padded = digits.padStart(scale + 1, '0');
  const whole = padded.slice(0, padded.length - scale).replace(/^0+(?=\d)/u, '');
  const fraction = scale === 0 ? '' : padded.slice(padded.length - scale).replace(/0+$/u, '');
  const plain = fraction === '' ? whole : `${whole}.${fraction}`;
  return negative && plain !== '0' ? `-${plain}` : plain;
}

function partsOf(value: string): { negative: boolean; digits: string; scale: number } {
  const parts = decimalPattern.exec(value);
  if (!parts) throw new DataError(`"${value}" is not a decimal number as 12.5.`);
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = parts;
  const scale = fraction.length - Number(exponent);
  const digits = `${whole}${fraction}`;
  return scale < 0
    ? { negative: sign === '-', digits: digits + '0'.repeat(-scale), scale: 0 }
    : { negative: sign === '-', digits, scale };
}

/** How many decimals it needs. */
export function decimalsOf(value: string): number {
  return plainDecimal(value).split('.')[1]?.length ?? 0;
}

/** Rounded half away from zero to so many decimals. */
export function roundedHalfUp(value: string, decimals: number): string {
  const { negative, digits, scale } = partsOf(plainDecimal(value));
  if (scale <= decimals) return plainDecimal(value);
  const unit = 10n ** BigInt(scale - decimals);
  const rounded = (BigInt(digits) + unit / 2n) / unit;
  return plainDecimal(`${negative ? '-' : ''}${rounded}e-${decimals}`);
}

/** As a number that stands for exactly this decimal; undefined where there is none: beyond 15 digits. */
export function floatOf(value: string): number | undefined {
  const number = Number(value);
  return Number.isFinite(number) && plainDecimal(String(number)) === plainDecimal(value) ? number : undefined;
}

/** As Tryton takes it in a field of one line: it refuses line breaks and tabs there. */
export function oneLine(value: string): string {
  return value.replaceAll(/[\t\n\v\f\r]+/gu, ' ').trim();
}

/** Names of fields, as text with blanks between; those of `children` nest: `lines.product`. */
export function fieldNames(own: string, children: Readonly<Record<string, string>> = {}): string[] {
  const nested = Object.entries(children).flatMap(([child, names]) =>
    names.split(' ').map((name) => `${child}.${name}`),
  );
  return [...own.split(' '), ...nested];
}
