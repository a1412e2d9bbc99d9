/**
 * Requisition records by settings: the settings say where the parts of a requisition are, as supplier-places.ts does for
 * suppliers. Its items are a list, or JSON text; the places of an item are in an entry of it.
 *
 * Example, for the columns of a view:
 *
 *     reference_id: number
 *     name: title
 *     open: { at: status, is: [released] }
 *     needed_by: wanted                                # a day, or a time with its zone
 *     tags: { Plant: plant }
 *     items: { at: items, line: pos, name: text, quantity: qty, unit: uom }
 */
import { z } from 'zod';
import { parseTimestamp } from '#contract/timestamp.ts';
import { DataError } from './errors.ts';
import { shortened } from './human-text.ts';
import { readDecimal } from './numbers.ts';
import {
  compileFlag,
  entriesOf,
  flagPlace,
  place,
  placesOfFlag,
  recordOrFault,
  singleText,
  type ValueAt,
} from './places.ts';
import { type RecordFault, type RequisitionRecord, recordSchemas } from './records.ts';

export const requisitionPlaces = z.strictObject({
  reference_id: place.describe("Where the ERP's number of the requisition is"),
  name: place.optional().describe('Where its title is; default: its number'),
  description: place.optional(),
  requested_by: place.optional().describe('Where the name of the buyer is who raised it'),
  needed_by: place.optional().describe('Where its day is, or a time with its zone'),
  category: place.optional(),
  tags: z
    .record(z.string().min(1).max(255), place)
    .default({})
    .describe('The name of each tag, and where its value is'),
  open: flagPlace
    .optional()
    .describe('Where it says whether it is still to be sourced: yes or no, or one of the values in `is`; default: yes'),
  items: z
    .strictObject({
      at: place.describe('Where the list of items is, also as JSON text'),
      line: place.default('line').describe("In an item: the ERP's number of the line, which it never reuses"),
      name: place.default('name'),
      description: place.default('description'),
      quantity: place.default('quantity'),
      unit: place.default('unit'),
      target_price: place.default('target_price'),
      currency: place.default('currency'),
      needed_by: place.default('needed_by'),
    })
    .describe('Where the items are, and in an item its parts; default of each part: its own name'),
  files: place
    .optional()
    .describe('Where the files are: a list of {file_name, content_type, content, url}, also as JSON text'),
});

export type RequisitionPlaces = z.output<typeof requisitionPlaces>;

/** All places of a requisition that the settings name, without those in its items. */
export function namedRequisitionPlaces(places: RequisitionPlaces): string[] {
  const { reference_id, name, description, requested_by, needed_by, category, tags, open, items, files } = places;
  const single = [name, description, requested_by, needed_by, category, files].filter((each) => each !== undefined);
  return [reference_id, ...single, ...Object.values(tags), ...placesOfFlag(open), items.at];
}

export type ReadRequisition<Row> = (row: Row, where: string) => { record: RequisitionRecord } | { fault: RecordFault };

/**
 * Returns a function that makes a record of a row; `where` names the row for a person. `valueAt` compiles a place in a
 * row, `valueInItem` one in an item.
 */
export function compileRequisitionPlaces<Row>(
  places: RequisitionPlaces,
  valueAt: ValueAt<Row>,
  valueInItem: ValueAt<unknown> = memberAt,
): ReadRequisition<Row> {
  const keyAt = valueAt(places.reference_id);
  const textAt = compileTexts(valueAt);
  const head = {
    name: textAt('name', places.name),
    description: textAt('description', places.description),
    requested_by: textAt('requested_by', places.requested_by),
    needed_by: textAt('needed_by', places.needed_by),
    category: textAt('category', places.category),
  };
  const tags = Object.entries(places.tags).map(([name, at]) => [name, textAt(`the tag ${name}`, at)] as const);
  const openOf = compileOpen(places, valueAt);
  const itemsAt = valueAt(places.items.at);
  const itemOf = compileItem(places, valueInItem);
  const filesAt = places.files === undefined ? () => [] : valueAt(places.files);
  return (row, where) =>
    recordOrFault(row, { where, keyAt, what: 'reference_id' }, (reference_id) => {
      const files = entriesOf(filesAt(row), 'files are not a list of objects with file_name, and content or url');
      const read = recordSchemas.requisition.safeParse({
        reference_id,
        ...present(head, row),
        name: shortened(head.name(row) ?? reference_id, 120),
        tags: tags.flatMap(([name, at]) => {
          const value = at(row);
          return value === undefined ? [] : [{ name, value }];
        }),
        items: entriesOf(itemsAt(row), 'items are not a list').map((item, index) => itemOf(item, index)),
        ...(files.length === 0 ? {} : { files: files.map(withoutNulls) }),
        open: openOf(row),
      });
      if (read.success) return read.data;
      const [issue] = read.error.issues;
      throw new DataError(`${issue?.path.join('.') || 'the requisition'}: ${issue?.message ?? 'is not valid'}`);
    });
}

/** Whether a row is open, as its record says. Throws DataError for a value that the settings do not explain. */
export function compileOpen<Row>(
  { open }: Pick<RequisitionPlaces, 'open'>,
  valueAt: ValueAt<Row>,
): (row: Row) => boolean {
  return open === undefined ? () => true : compileFlag(open, valueAt, { what: 'open', meaning: 'open' });
}

/** As `compileOpen`, for lists of what is open: an entry whose flag cannot be read has not disappeared. */
export function compileMayBeOpen<Row>(...given: Parameters<typeof compileOpen<Row>>): (row: Row) => boolean {
  const isOpen = compileOpen<Row>(...given);
  return (row) => {
    try {
      return isOpen(row);
    } catch (error) {
      if (error instanceof DataError) return true;
      throw error;
    }
  };
}

function compileItem<Row>(places: RequisitionPlaces, valueAt: ValueAt<Row>): (item: Row, index: number) => object {
  const { at: _, ...parts } = places.items;
  const textAt = compileTexts(valueAt);
  const compiled = Object.fromEntries(Object.entries(parts).map(([part, at]) => [part, textAt(part, at)]));
  return (item, index) => {
    try {
      return present(compiled, item);
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      throw new DataError(`item ${index + 1}: ${error.message}`, { cause: error });
    }
  };
}

/** What the service takes of a text; longer ones are cut off, as the ERP has the whole. */
const lengthMax: Readonly<Record<string, number>> = {
  description: 1_000,
  requested_by: 255,
  category: 255,
  name: 255,
  unit: 50,
};

const decimals: ReadonlySet<string> = new Set(['quantity', 'target_price']);

/** Compiles texts: trimmed, undefined where there is none, times in UTC. */
function compileTexts<Row>(valueAt: ValueAt<Row>) {
  return (what: string, at: string | undefined): ((row: Row) => string | undefined) => {
    if (at === undefined) return () => undefined;
    const value = valueAt(at);
    return (row) => {
      const text = singleText(value(row), what).trim();
      if (text === '') return undefined;
      if (what === 'needed_by') return timeOf(text);
      if (decimals.has(what)) return readDecimal(text, what).toFixed();
      const line = what === 'name' ? text.replaceAll(/\s+/g, ' ') : text;
      return shortened(line, lengthMax[what] ?? Number.POSITIVE_INFINITY);
    };
  };
}

/**
 * A time with an offset, in UTC; `2030-12-31 08:00:00+01` is PostgreSQL's form. A day is 00:00 UTC in every zone: the event
 * shows the day of that time.
 */
function timeOf(text: string): string {
  const time = parseTimestamp(text.replace(/^(\S{10}) (?=\d)/, '$1T'));
  if (time === undefined)
    throw new DataError(
      `needed_by is ${JSON.stringify(text.slice(0, 60))}: it must be a day like 2030-12-31, or a time with its zone like 2030-12-31T08:00:00Z`,
    );
  return time;
}

function present<Row>(readers: Readonly<Record<string, (row: Row) => string | undefined>>, row: Row) {
  const values = Object.entries(readers).map(([name, read]) => [name, read(row)] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Unknown values are left out of a record, never null. */
function withoutNulls(file: unknown): unknown {
  if (typeof file !== 'object' || file === null) return file;
  return Object.fromEntries(Object.entries(file).filter(([, value]) => value !== null));
}

function memberAt(name: string): (item: unknown) => unknown {
  return (item) =>
    typeof item === 'object' && item !== null && Object.hasOwn(item, name)
      ? (item as Readonly<Record<string, unknown>>)[name]
      : undefined;
}
