/**
 * Which fields the records of a feed have, and in which forms their values come. Learned from the records themselves;
 * then a field that was never seen, or a value of a new form, is noticed. Example, learned from `{cost: "12.50"}`:
 *
 * | record                          | noticed                                               |
 * |---------------------------------|-------------------------------------------------------|
 * | `{cost: "13.00"}`               | nothing                                               |
 * | `{cost: "13,00"}`               | `cost` is text; it was always a decimal               |
 * | `{cost: "1", cost_centre: "7"}` | the field `cost_centre`; it is known from now on      |
 *
 * Pure, and bounded: a source may send any number of names.
 */
import { type RecordSchema, recordSchema } from '#bridge/documents/record-schema.ts';
import { type FeedName, feeds } from '#contract/feed.ts';

/** What a value looks like. A field that has held free text is never of a new form as long as it holds text. */
const forms = ['null', 'true or false', 'number', 'empty text', 'UUID', 'time', 'decimal', 'text', 'list', 'object'];
const bitOf = Object.fromEntries(forms.map((form, index) => [form, 1 << index])) as Readonly<Record<string, number>>;
const textBit = bitOf['text'] ?? 0;

const fieldsMax = 500;
const depthMax = 8;
const nameLengthMax = 100;
const itemsExamined = 50;

interface Field {
  /** The forms that were seen; 0: none yet. */
  mask: number;
  members?: Map<string, Field>;
  /** What the items of a list have. */
  items?: Field;
}

/** A field as it is kept in SQL. Members are pairs: a source may use any name, also `__proto__`. */
interface KeptField {
  readonly mask: number;
  readonly members?: readonly (readonly [string, KeptField])[];
  readonly items?: KeptField;
}

export interface FieldChange {
  readonly kind: 'field' | 'form';
  /** The path of the field: `awards[].cost`. */
  readonly subject: string;
  readonly detail: string;
}

export interface LearnedFields {
  /** Learns what the record has, and returns what was not known before. */
  examine(record: Readonly<Record<string, unknown>>): FieldChange[];
  /** As text for SQL. */
  keep(): string;
}

/** `kept` is what `keep` has returned before; undefined for a feed of which only the documentation is known. */
export function createLearnedFields(feed: FeedName, kept: string | undefined): LearnedFields {
  const root = kept === undefined ? documentedFields(feed) : fieldOf(JSON.parse(kept) as KeptField);
  let count = countOf(root);

  function examine(field: Field, value: unknown, path: string, depth: number, found: FieldChange[]): void {
    const bit = formBit(value, field.mask);
    if ((field.mask & bit) === 0) {
      if (field.mask !== 0 && bit !== bitOf['null'])
        found.push({ kind: 'form', subject: path, detail: `is ${wordsOf(bit)}; it was ${wordsOf(field.mask)} before` });
      field.mask |= bit;
    }
    if (typeof value !== 'object' || value === null || depth >= depthMax) return;
    if (Array.isArray(value)) {
      field.items ??= { mask: 0 };
      const length = Math.min(value.length, itemsExamined);
      for (let at = 0; at < length; at += 1) examine(field.items, value[at], `${path}[]`, depth + 1, found);
      return;
    }
    field.members ??= new Map();
    for (const name in value) {
      let member = field.members.get(name);
      const place = path === '' ? name : `${path}.${name}`;
      if (member === undefined) {
        if (count >= fieldsMax || name.length > nameLengthMax) continue;
        member = { mask: 0 };
        field.members.set(name, member);
        count += 1;
        found.push({ kind: 'field', subject: place, detail: 'was never seen before' });
      }
      examine(member, (value as Record<string, unknown>)[name], place, depth + 1, found);
    }
  }

  return {
    examine: (record) => {
      const found: FieldChange[] = [];
      examine(root, record, '', 0, found);
      return found;
    },
    keep: () => JSON.stringify(keptOf(root)),
  };
}

const uuidForm = /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/;
const timeForm = /^\d{4}-\d\d-\d\d(T|$)/;
const decimalForm = /^-?\d+(\.\d+)?$/;

/** The bit of the value's form. Of a field that has held free text, any text has the form of text. */
function formBit(value: unknown, known: number): number {
  if (typeof value === 'string') return (known & textBit) !== 0 ? textBit : textForm(value);
  if (value === null) return bitOf['null'] ?? 0;
  if (typeof value === 'number') return bitOf['number'] ?? 0;
  if (typeof value === 'boolean') return bitOf['true or false'] ?? 0;
  return (Array.isArray(value) ? bitOf['list'] : bitOf['object']) ?? 0;
}

function textForm(text: string): number {
  if (text === '') return bitOf['empty text'] ?? 0;
  if (text.length === 36 && uuidForm.test(text)) return bitOf['UUID'] ?? 0;
  if (decimalForm.test(text)) return bitOf['decimal'] ?? 0;
  return timeForm.test(text) ? (bitOf['time'] ?? 0) : textBit;
}

function wordsOf(mask: number): string {
  return forms.filter((_, index) => (mask & (1 << index)) !== 0).join(' or ');
}

function keptOf({ mask, members, items }: Field): KeptField {
  return {
    mask,
    ...(members === undefined ? {} : { members: [...members].map(([name, field]) => [name, keptOf(field)] as const) }),
    ...(items === undefined ? {} : { items: keptOf(items) }),
  };
}

function fieldOf({ mask, members, items }: KeptField): Field {
  return {
    mask,
    ...(members === undefined ? {} : { members: new Map(members.map(([name, kept]) => [name, fieldOf(kept)])) }),
    ...(items === undefined ? {} : { items: fieldOf(items) }),
  };
}

function countOf({ members, items }: Field): number {
  const inMembers = [...(members?.values() ?? [])].reduce((sum, field) => sum + 1 + countOf(field), 0);
  return inMembers + (items === undefined ? 0 : countOf(items));
}

const schemas = new Map<FeedName, RecordSchema>();

/** The fields that the contract documents: they are known, although none of their values was seen yet. */
function documentedFields(feed: FeedName): Field {
  const schema = schemas.get(feed) ?? recordSchema(feeds[feed].record);
  schemas.set(feed, schema);
  return fieldOfSchema(schema);
}

function fieldOfSchema({ properties, items }: RecordSchema): Field {
  return {
    mask: 0,
    ...(properties === undefined
      ? {}
      : { members: new Map(Object.entries(properties).map(([name, inner]) => [name, fieldOfSchema(inner)])) }),
    ...(items === undefined ? {} : { items: fieldOfSchema(items) }),
  };
}
