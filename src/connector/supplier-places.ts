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
import {
  compileFlag,
  flagPlace,
  parseWithDigits,
  place,
  placesOfFlag,
  recordOrFault,
  singleText,
  type ValueAt,
} from './places.ts';
import type { RecordFault, SupplierRecord } from './records.ts';

export const supplierPlaces = z.strictObject({
  external_id: place.describe("Where the ERP's number of the supplier is"),
  name: place.describe('Where its name is'),
  archived: flagPlace
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
    ...placesOfFlag(archived),
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
  valueAt: ValueAt<Row>,
  othersOf: (row: Row) => Readonly<Record<string, unknown>>,
): ReadSupplier<Row> {
  const keyAt = valueAt(places.external_id);
  const nameAt = valueAt(places.name);
  const archivedOf =
    places.archived === undefined
      ? () => false
      : compileFlag(places.archived, valueAt, { what: 'archived', meaning: 'blocked' });
  const contactsOf = compileContacts(places.contacts, valueAt);
  const fieldsAt = places.fields && Object.entries(places.fields).map(([name, at]) => [name, valueAt(at)] as const);
  return (row, where) =>
    recordOrFault(row, { where, keyAt, what: 'external_id' }, (external_id) => {
      const name = singleText(nameAt(row), 'name').trim();
      if (name === '') throw new DataError('it has no name');
      const values = fieldsAt
        ? fieldsAt.map(([field, at]) => [field, singleText(at(row), field)] as const)
        : Object.entries(othersOf(row)).map(([field, value]) => [field, singleText(value, field)] as const);
      return {
        external_id,
        name,
        archived: archivedOf(row),
        fields: Object.fromEntries(values.filter(([, value]) => value !== '')),
        contacts: contactsOf(row),
      };
    });
}

/** An entry has to say that it has no address: else a list whose addresses have another name would be empty. */
const contactList = z.array(z.object({ name: z.string().nullish(), email: z.string().nullable() }));

function compileContacts<Row>(given: SupplierPlaces['contacts'], valueAt: ValueAt<Row>) {
  type Contacts = SupplierRecord['contacts'];
  if (given === undefined) return (): Contacts => [];
  if (typeof given === 'object') {
    const emailAt = valueAt(given.email);
    const nameAt = given.name === undefined ? () => undefined : valueAt(given.name);
    return (row: Row): Contacts => {
      const email = singleText(emailAt(row), 'the e-mail').trim();
      return email === '' ? [] : [{ name: singleText(nameAt(row), 'the contact').trim() || email, email }];
    };
  }
  const at = valueAt(given);
  return (row: Row): Contacts => {
    const value = at(row);
    if (value === undefined || value === null || value === '') return [];
    const read = contactList.safeParse(typeof value === 'string' ? parseWithDigits(value) : value);
    if (!read.success) throw new DataError('contacts are not a list of objects with name and email');
    return read.data.flatMap(({ name, email: address }) => {
      const email = (address ?? '').trim();
      // The service has no contacts without one.
      return email === '' ? [] : [{ name: (name ?? '').trim() || email, email }];
    });
  };
}
