import { describe, expect, test } from 'vitest';
import { type SupplierChange, supplierChangeRequest } from '#contract/supplier.ts';
import { applySupplierChange, type SupplierState } from '#service/domain/supplier-change.ts';

const attributes = new Set(['Region', 'DUNS', '__proto__']);
const known: SupplierState = {
  name: 'Acme',
  fields: new Map([['Region', 'EMEA']]),
  archived: false,
  contacts: [
    { name: 'Ann', email: 'Ann@acme.example' },
    { name: 'Bob', email: 'bob@acme.example' },
  ],
};

/** As the schema returns it. */
function change(fields: Record<string, unknown>): SupplierChange {
  const read = supplierChangeRequest.parse({ change_data: { suppliers: [{ external_id: 'S1', ...fields }] } });
  return read.change_data.suppliers[0] as SupplierChange;
}

function applied(current: SupplierState | undefined, fields: Record<string, unknown>) {
  const result = applySupplierChange(current, change(fields), attributes);
  if (!result.ok) throw new Error(result.errors.join('; '));
  return { ...result, fields: Object.fromEntries(result.next.fields) };
}

function errors(current: SupplierState | undefined, fields: Record<string, unknown>) {
  const result = applySupplierChange(current, change(fields), attributes);
  return result.ok ? [] : result.errors;
}

describe('a new external_id', () => {
  test('creates a supplier', () => {
    const contacts = [{ name: 'Ann', email: 'ann@acme.example' }];
    const result = applied(undefined, { name: 'Acme', fields: { Region: 'APAC' }, contacts });
    expect(result).toMatchObject({ changed: true, header: 'Supplier S1 created', fields: { Region: 'APAC' } });
    expect(result.next).toMatchObject({ name: 'Acme', archived: false, contacts });
  });

  test('needs a name', () => {
    expect(errors(undefined, {})).toEqual(['a new supplier needs a name']);
  });

  test('may be archived from the start', () => {
    expect(applied(undefined, { name: 'Acme', archived: true })).toMatchObject({
      header: 'Supplier S1 created',
      next: { archived: true },
    });
  });
});

describe('a known external_id', () => {
  test('members that are left out do not change', () => {
    const result = applied(known, { name: 'Acme Ltd' });
    expect(result).toMatchObject({ header: 'Supplier S1 updated', fields: { Region: 'EMEA' } });
    expect(result.next).toMatchObject({ name: 'Acme Ltd', contacts: known.contacts, archived: false });
  });

  test('the same again changes nothing', () => {
    const same = { name: 'Acme', fields: { Region: 'EMEA' }, contacts: known.contacts, archived: false };
    expect(applied(known, same)).toMatchObject({ changed: false, header: 'Supplier S1 unchanged', messages: [] });
    expect(applied(known, {})).toMatchObject({ changed: false });
  });

  test('can be archived and taken out of the archive', () => {
    const archived = applied(known, { archived: true });
    expect(archived).toMatchObject({ header: 'Supplier S1 archived', next: { archived: true } });
    expect(applied(archived.next, { archived: false })).toMatchObject({
      header: 'Supplier S1 updated',
      next: { archived: false },
    });
    expect(applied(archived.next, { name: 'New' }).next.archived).toBe(true);
  });
});

describe('contacts, matched by e-mail in upper or lower case', () => {
  test('a new e-mail adds a contact', () => {
    expect(applied(known, { contacts: [{ name: 'Cy', email: 'cy@acme.example' }] }).next.contacts).toEqual([
      ...known.contacts,
      { name: 'Cy', email: 'cy@acme.example' },
    ]);
  });

  test('a known e-mail with another name renames the contact and keeps its spelling', () => {
    expect(applied(known, { contacts: [{ name: 'Anna', email: 'ANN@acme.example' }] }).next.contacts).toEqual([
      { name: 'Anna', email: 'Ann@acme.example' },
      known.contacts[1],
    ]);
  });

  test('delete removes a contact, and needs only the e-mail', () => {
    expect(applied(known, { contacts: [{ email: 'ANN@ACME.example', delete: true }] }).next.contacts).toEqual([
      known.contacts[1],
    ]);
  });

  test('a repeated delete changes nothing and is a warning', () => {
    expect(applied(known, { contacts: [{ email: 'gone@acme.example', delete: true }] })).toMatchObject({
      changed: false,
      warnings: ['there is no contact gone@acme.example to delete'],
    });
  });

  test('an e-mail twice is refused, also as a deletion and an addition', () => {
    const twice = [
      { name: 'Cy', email: 'cy@acme.example' },
      { name: 'Cyd', email: 'CY@acme.example' },
    ];
    expect(errors(known, { contacts: twice })).toEqual(['the e-mail CY@acme.example stands twice']);
    expect(errors(known, { contacts: [twice[0], { email: 'CY@acme.example', delete: true }] })).toHaveLength(1);
  });
});

describe('attributes', () => {
  test('must exist, and all missing attributes are reported', () => {
    expect(errors(known, { fields: { Region: 'APAC', Colour: 'red', constructor: 'x' } })).toEqual([
      'there is no supplier attribute "Colour"',
      'there is no supplier attribute "constructor"',
    ]);
  });

  test('are set one by one', () => {
    expect(applied(known, { fields: { DUNS: '123' } }).fields).toEqual({ Region: 'EMEA', DUNS: '123' });
  });
});
