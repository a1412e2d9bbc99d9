/**
 * Supplier records by settings: the settings say where the parts of a supplier are in a row of a table, a line of a file
 * or an object of an answer. What a place is (a column, a path) the connector decides.
 *
 * Example, for the columns of a table:
 *
 *     external_id: vendor_no
 *     name: name
 *     archived: { at: status, is: [blocked, deleted] }
 *     contacts: contacts          # [{"name": "Ann", "email": "ann@acme.example"}]
 *     fields: { City: city }      # without it, every other column under its own name
 */
import { z } from 'zod';
import { DataError } from './errors.ts';
import type { RecordFault, SupplierRecord } from './records.ts';

const place = z.string().min(1).max(1_000);

export const supplierPlaces = z.strictObject({
  external_id: place.describe("Where the ERP's number of the supplier is"),
  name: place.describe('Where its name is'),
  archived: z
    .union([place, z.strictObject({ at: place, is: z.array(z.string()).min(1) })])
    .optional()
    .describe('Where it says whether the supplier is blocked: yes or no, or one of the values in `is`'),
  contacts: z
    .union([place, z.strictObject({ email: place, name: place.optional() })])
    .optional()
    .describe(
      'Where the contacts are: a list of {name, email}, also as JSON text; or one address and its name. Without a name, its address',
    ),
  fields: z
    .record(z.string().min(1).max(255), place)
    .optional()
    .describe('Further values: the name that each gets in the record, and where it is'),
});

export type SupplierPlaces = z.output<typeof supplierPlaces>;

/** All places that the settings name. */
export function namedPlaces({ external_id, name, archived, contacts, fields }: SupplierPlaces): string[] {
  return [
    external_id,
    name,
    ...(archived === undefined ? [] : [typeof archived === 'string' ? archived : archived.at]),
    ...(contacts === undefined
      ? []
      : typeof contacts === 'string'
        ? [contacts]
        : [contacts.email, ...(contacts.name === undefined ? [] : [contacts.name])]),
    ...Object.values(fields ?? {}),
  ];
}

export type ReadSupplier<Row> = (row: Row, where: string) => { record: SupplierRecord } | { fault: RecordFault };

/**
 * Returns a function that makes a record of a row; `where` names the row for a person. `valueAt` compiles a place;
 * `othersOf` returns the values that no place names, for settings without `fields`.
 */
export function compileSupplierPlaces<Row>(
  places: SupplierPlaces,
  valueAt: (place: string) => (row: Row) => unknown,
  othersOf: (row: Row) => Readonly<Record<string, unknown>>,
): ReadSupplier<Row> {
  const keyAt = valueAt(places.external_id);
  const nameAt = valueAt(places.name);
  const archivedOf = compileArchived(places.archived, valueAt);
  const contactsOf = compileContacts(places.contacts, valueAt);
  const fieldsAt = places.fields && Object.entries(places.fields).map(([name, at]) => [name, valueAt(at)] as const);
  return (row, where) => {
    let key: string | undefined;
    try {
      key = textOf(keyAt(row), 'external_id').trim();
      if (key === '') throw new DataError('it has no number');
      const name = textOf(nameAt(row), 'name').trim();
      if (name === '') throw new DataError('it has no name');
      const values = fieldsAt
        ? fieldsAt.map(([field, at]) => [field, textOf(at(row), field)] as const)
        : Object.entries(othersOf(row)).map(([field, value]) => [field, textOf(value, field)] as const);
      return {
        record: {
          external_id: key,
          name,
          archived: archivedOf(row),
          fields: Object.fromEntries(values.filter(([, value]) => value !== '')),
          contacts: contactsOf(row),
        },
      };
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      return { fault: { where, key: key === '' ? undefined : key, why: error.message } };
    }
  };
}

/** A single value as text; nothing becomes the empty text. Throws DataError for a list or an object. */
function textOf(value: unknown, what: string): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  throw new DataError(`${what} is not a single value`);
}

const yes: ReadonlySet<string> = new Set(['true', 't', 'yes', 'y', '1', 'x']);
const no: ReadonlySet<string> = new Set(['false', 'f', 'no', 'n', '0', '']);

function compileArchived<Row>(given: SupplierPlaces['archived'], valueAt: (place: string) => (row: Row) => unknown) {
  if (given === undefined) return () => false;
  const at = valueAt(typeof given === 'string' ? given : given.at);
  const blocked = typeof given === 'string' ? undefined : new Set(given.is);
  return (row: Row): boolean => {
    const text = textOf(at(row), 'archived').trim();
    if (blocked) return blocked.has(text);
    const lower = text.toLowerCase();
    // A value that nobody has explained must not make a blocked supplier usable.
    if (!yes.has(lower) && !no.has(lower))
      throw new DataError(`archived has a value that is neither yes nor no: say in \`is\` which values mean blocked`);
    return yes.has(lower);
  };
}

const contactList = z.array(z.object({ name: z.string().nullish(), email: z.string() }));

function compileContacts<Row>(given: SupplierPlaces['contacts'], valueAt: (place: string) => (row: Row) => unknown) {
  type Contacts = SupplierRecord['contacts'];
  if (given === undefined) return (): Contacts => [];
  if (typeof given === 'object') {
    const emailAt = valueAt(given.email);
    const nameAt = given.name === undefined ? () => undefined : valueAt(given.name);
    return (row: Row): Contacts => {
      const email = textOf(emailAt(row), 'the e-mail').trim();
      return email === '' ? [] : [{ name: textOf(nameAt(row), 'the contact').trim() || email, email }];
    };
  }
  const at = valueAt(given);
  return (row: Row): Contacts => {
    const value = at(row);
    if (value === undefined || value === null || value === '') return [];
    const read = contactList.safeParse(typeof value === 'string' ? jsonOf(value) : value);
    if (!read.success) throw new DataError('contacts are not a list of objects with name and email');
    return read.data.map(({ name, email }) => ({ name: (name ?? '').trim() || email.trim(), email: email.trim() }));
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
