/** Odoo's JSON values: `false` for none, `[id, name]` for a relation, numbers for decimals. */
import { caseless, DataError, Decimal, readDecimal, z } from 'sourcing-bridge/connector';

export const id = z.int().positive();
export const ids = z.array(id);
/** A text; `false` is the empty one. */
export const text = z.union([z.string(), z.literal(false)]).transform((value) => (value === false ? '' : value));
export const number = z.union([z.number(), z.literal(false)]).transform((value) => (value === false ? 0 : value));
/** The id of a relation; undefined for none. */
export const relation = z
  .union([z.tuple([id, z.string()]), z.literal(false)])
  .transform((value) => (value === false ? undefined : { id: value[0], name: value[1] }));

/** The names of the fields to ask for; Odoo sends the id without being asked. */
export function fieldsOf(rows: z.ZodArray<z.ZodObject>): string[] {
  return Object.keys(rows.element.shape).filter((name) => name !== 'id');
}

/** `purchase.order,12` */
export function referenceTo(model: string, record: number): string {
  return `${model},${record}`;
}

/** The id in a reference to this model; undefined for another one, or for none. */
export function idIn(reference: string | undefined, model: string): number | undefined {
  const [name, record] = (reference ?? '').split(',');
  return name === model && /^\d+$/u.test(record ?? '') ? Number(record) : undefined;
}

/**
 * The decimal as Odoo is to get it. Odoo computes with binary floating-point numbers: a decimal that is not exactly the
 * same after that (more than 15 digits) is refused, because Odoo would change it silently. Below zero is refused, too:
 * Odoo would take it.
 */
export function exactNumber(value: string, what: string): string {
  const decimal = readDecimal(value, what);
  const plain = decimal.toFixed();
  if (decimal.isNegative() && !decimal.isZero())
    throw new DataError(`${what} is ${plain}: Odoo would take a negative one, and the bridge does not order it`);
  if (!readDecimal(plainOf(Number(plain)), what).equals(decimal))
    throw new DataError(`${what} is ${plain}: Odoo keeps about 15 digits of a number, and digits would be lost`);
  return plain;
}

/** The shortest decimal of a floating-point number, without an exponent. */
export function plainOf(value: number): string {
  return new Decimal(value).toFixed();
}

/** `2030-12-31`, also of a time. Throws DataError for anything else. */
export function odooDay(value: string, what: string): string {
  return odooTime(value, what, 'UTC').slice(0, 10);
}

/**
 * `2030-12-31` or `2030-12-31 10:00:00` as Odoo's datetime in UTC; a day is its noon in the zone, as in Odoo's forms.
 * Throws DataError for anything else.
 */
export function odooTime(value: string, what: string, zone: string): string {
  const [, day = '', time = '12:00:00'] =
    /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.\d+)?Z?)?$/u.exec(value) ?? [];
  const ms = Date.parse(`${day}T${time}Z`);
  if (Number.isNaN(ms) || !new Date(ms).toISOString().startsWith(day) || day.startsWith('0000'))
    throw new DataError(
      `${what} is "${value}" and not a day such as 2030-12-31, or a time such as 2030-12-31 10:00:00`,
    );
  if (value.length > 10) return `${day} ${time}`;
  // What clocks in the zone show at noon UTC is as far from noon as noon in the zone is, the other way.
  const shown = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' }).format(
    ms,
  );
  const noonMs = ms - (Date.parse(`${shown.replace(' ', 'T')}Z`) - ms);
  return new Date(noonMs).toISOString().slice(0, 19).replace('T', ' ');
}

/** Whatever its case is, and the form of its letters. */
export function isSameText(one: string, other: string): boolean {
  return caseless(one) === caseless(other);
}

/** The text with blanks for line breaks and tabs. */
export function oneLine(value: string): string {
  return value.replaceAll(/[\t\n\v\f\r]+/gu, ' ').trim();
}

/** A domain that holds where one of the conditions does; false for none of them. */
export function anyOf(conditions: readonly (readonly unknown[])[]): unknown[] {
  if (conditions.length === 0) return [['id', '=', 0]];
  return [...Array.from({ length: conditions.length - 1 }, () => '|'), ...conditions];
}
