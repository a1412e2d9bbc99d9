/**
 * Reading back: what the ERP holds of a document that was delivered, field by field, beside what the connector would
 * have written for it. The bridge compares the two texts of each field and nothing else, so both have the same exact
 * form: a decimal without zeros that do not count, a time in UTC, a day as 2030-12-31.
 *
 * Example: a buyer has raised a price in the ERP, and taken a line out of the order.
 *   expected { title: 'Bolts', lines: [{ item: 'M8', price: '1.5' }, { item: 'M10', price: '2' }] }
 *   held     { title: 'Bolts', lines: [{ item: 'M8', price: '1.70' }] }
 *   fields   title: Bolts = Bolts; lines[M8].item: M8 = M8; lines[M8].price: 1.5, the ERP holds 1.7;
 *            lines[M10].item: M10, the ERP holds nothing; lines[M10].price: 2, the ERP holds nothing
 */
import { z } from 'zod';
import { Decimal } from '#contract/decimal.ts';
import type { DocumentKind, DocumentOf } from './documents.ts';
import { composed } from './human-text.ts';

/** A document that the ERP has taken. */
export interface TakenDocument<Kind extends DocumentKind = DocumentKind> {
  readonly document: DocumentOf<Kind>;
  /** The ERP's reference of the object; undefined where only the document's key is known. */
  readonly reference: string | undefined;
}

/** One value that the connector writes. */
export interface ReadField {
  /** A person finds it in the ERP by this name: `lines[M8].price`. No two fields of an object share one. */
  readonly name: string;
  /** What the connector writes for this document with its settings; undefined where it writes nothing there. */
  readonly expected: string | undefined;
  /** What the ERP holds now; undefined where it holds nothing. */
  readonly held: string | undefined;
}

/** What the ERP holds of one delivered document. */
export type ReadBack = { readonly key: string } & (
  | {
      readonly status: 'held';
      readonly reference: string;
      /** Each value that was compared; those that are equal may be left out, and are counted in `equalValues` then. */
      readonly fields: readonly ReadField[];
      /** How many values are equal and not among the fields. Default: 0. */
      readonly equalValues?: number;
      /** What the connector writes and cannot compare, in a person's words: `the bytes of the file`. */
      readonly notCompared?: readonly string[];
      /** Who changed the object last, and when (UTC), where the ERP says so. */
      readonly changed?: { readonly by?: string | undefined; readonly at?: string | undefined };
    }
  /** The ERP has no such object. */
  | { readonly status: 'missing' }
  /** The object is there, and is cancelled. */
  | { readonly status: 'cancelled'; readonly reference: string }
  /** It could not be found out, for this reason. */
  | { readonly status: 'unclear'; readonly reason: string }
);

/** Members of documents that are decimals. */
export const documentDecimals: readonly string[] = [
  'total_cost',
  'cost',
  'historic_cost',
  'savings',
  'share',
  'quantity',
  'unit_price',
  'volume',
  'exchange_rate',
  'awarded_cost',
];
/** The members by which entries of lists are known: lots, columns of the bid sheet, contacts, suppliers, tags. */
export const documentNames: readonly string[] = ['lot', 'column', 'code', 'email', 'id', 'name'];

/** The longest list of fields, and the longest texts, that are taken of an object. */
export const readBackLimits = { fields: 50_000, text: 1_000_000, name: 2_000 } as const;

const textForm = z.string().max(readBackLimits.text);
const referenceForm = z.string().min(1).max(2_000);
const fieldForm = z.object({
  name: z.string().min(1).max(readBackLimits.name),
  expected: textForm.optional(),
  held: textForm.optional(),
});

const heldForm = z.object({
  key: z.string(),
  status: z.literal('held'),
  reference: referenceForm,
  equalValues: z.int().nonnegative().optional(),
  notCompared: z.array(z.string().min(1).max(2_000)).max(100).optional(),
  changed: z.object({ by: textForm.optional(), at: textForm.optional() }).optional(),
});
const otherForms = [
  z.object({ key: z.string(), status: z.literal('missing') }),
  z.object({ key: z.string(), status: z.literal('cancelled'), reference: referenceForm }),
  z.object({ key: z.string(), status: z.literal('unclear'), reason: textForm }),
] as const;

/** What the bridge accepts as an answer; a connector may be plain JavaScript. */
export const readBackForm = z.discriminatedUnion('status', [
  heldForm.extend({ fields: z.array(fieldForm).max(readBackLimits.fields) }),
  ...otherForms,
]);
/** The same for an answer whose fields were checked with `isReadField`. */
export const readBackFormWithoutFields = z.discriminatedUnion('status', [heldForm, ...otherForms]);

/** Whether the value is of the form of a field: the same as the schema says, in a fraction of its time. */
export function isReadField(value: unknown): value is ReadField {
  if (typeof value !== 'object' || value === null) return false;
  const { name, expected, held } = value as Partial<Record<keyof ReadField, unknown>>;
  return (
    typeof name === 'string' &&
    name.length > 0 &&
    name.length <= readBackLimits.name &&
    isText(expected) &&
    isText(held)
  );
}

function isText(value: unknown): boolean {
  return value === undefined || (typeof value === 'string' && value.length <= readBackLimits.text);
}

/** How the values of an object are named and written. */
export interface FieldForms {
  /** Members that are decimals, such as `price`: `1.50` and `1.5` are the same. */
  readonly decimals?: readonly string[];
  /**
   * Members by which an entry of a list is known, such as `item`: the first that the entry has names it. Entries
   * without one are numbered from 1.
   */
  readonly names?: readonly string[];
}

/**
 * The fields of an object: each value of `expected` beside the one that `held` has in its place, and each entry of a
 * list that only `held` has. A member that `expected` leaves out (undefined) is not written, and not compared; null is
 * written as nothing.
 */
export function fieldsOf(expected: unknown, held: unknown, forms: FieldForms = {}): ReadField[] {
  const fields: ReadField[] = [];
  compare(expected, held, '', '');
  return fields;

  function compare(wanted: unknown, seen: unknown, path: string, member: string): void {
    if (Array.isArray(wanted)) compareLists(wanted, Array.isArray(seen) ? seen : [], path, member);
    else if (isObject(wanted)) {
      for (const [name, value] of Object.entries(wanted))
        if (value !== undefined)
          compare(value, isObject(seen) ? seen[name] : undefined, path === '' ? name : `${path}.${name}`, name);
    } else fields.push({ name: path, expected: textOf(wanted, member, forms), held: textOf(seen, member, forms) });
  }

  function compareLists(wanted: readonly unknown[], seen: readonly unknown[], path: string, member: string): void {
    const left = new Map(named(seen, forms).map((entry) => [composed(entry[0]), entry]));
    for (const [name, entry] of named(wanted, forms)) {
      const same = composed(name);
      compare(entry, left.get(same)?.[1], `${path}[${name}]`, member);
      left.delete(same);
    }
    for (const [name, entry] of left.values()) addOnlyHeld(entry, `${path}[${name}]`, member);
  }

  /** An entry that a person has added: all of it differs. */
  function addOnlyHeld(entry: unknown, path: string, member: string): void {
    if (Array.isArray(entry))
      for (const [name, inner] of named(entry, forms)) addOnlyHeld(inner, `${path}[${name}]`, member);
    else if (isObject(entry))
      for (const [name, value] of Object.entries(entry)) addOnlyHeld(value, `${path}.${name}`, name);
    else {
      const text = textOf(entry, member, forms);
      if (text !== undefined) fields.push({ name: path, expected: undefined, held: text });
    }
  }
}

/** The number without zeros that do not count, all its digits kept; a text that is no number stays as it is. */
export function canonicalDecimal(text: string): string {
  // Most are written so, and their `Decimal` would be made for nothing.
  if (canonicalForm.test(text) && text !== '-0') return text;
  const trimmed = text.trim();
  if (!/^[+-]?\d+(?:\.\d*)?$/.test(trimmed) || trimmed.length > digitsMax) return text;
  const number = new Decimal(trimmed);
  return number.isZero() ? '0' : number.toFixed();
}

const canonicalForm = /^-?(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/;

/** No real amount is longer; the limit of `Decimal` is somewhat higher. */
const digitsMax = 100;

/** The entries with the name of each, which no other entry has: a second one of the same name is numbered. */
function named(entries: readonly unknown[], { names = [] }: FieldForms): [string, unknown][] {
  const used = new Set<string>();
  return entries.map((entry, index) => {
    const member = isObject(entry) ? names.find((name) => typeof entry[name] === 'string') : undefined;
    const name = member === undefined ? String(index + 1) : String((entry as Record<string, unknown>)[member]);
    let unique = name;
    for (let n = 2; used.has(composed(unique)); n += 1) unique = `${name}#${n}`;
    used.add(composed(unique));
    return [unique, entry];
  });
}

/** Nothing, an empty text and null are the same: most ERPs do not tell them apart. */
function textOf(value: unknown, member: string, { decimals = [] }: FieldForms): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  const text = typeof value === 'object' ? JSON.stringify(value) : `${value as string | number | boolean}`;
  return decimals.includes(member) ? canonicalDecimal(text) : text;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether the ERP holds another value than the connector writes. */
export function isDifferent({ expected, held }: ReadField): boolean {
  return expected === undefined || held === undefined ? expected !== held : composed(expected) !== composed(held);
}

/** Whether a field of an object that the ERP holds differs from what the connector writes. */
export function hasDifference(answer: ReadBack): answer is ReadBack & { readonly status: 'held' } {
  return answer.status === 'held' && answer.fields.some(isDifferent);
}

/** How many values were compared. */
export function comparedValuesOf({ fields, equalValues = 0 }: ReadBack & { readonly status: 'held' }): number {
  return fields.length + equalValues;
}
