import { assert, boolean, constantFrom, dictionary, option, property, record, subarray, uniqueArray } from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareSupplier,
  type SupplierComparison,
  type SupplierView,
  withChange,
} from '#bridge/intake/compare-supplier.ts';
import { matchValuesOf } from '#bridge/intake/match-suppliers.ts';

const acme: SupplierView = {
  name: 'Acme',
  fields: { City: 'Rome' },
  archived: false,
  contacts: [{ name: 'Ann', email: 'ann@acme' }],
};
const all = { owns: ['name', 'fields', 'archived'], contacts: 'add' } as const;

function change(given: Partial<Omit<SupplierComparison, 'rules'>> & { rules?: Partial<SupplierComparison['rules']> }) {
  const { rules, ...rest } = given;
  return compareSupplier({
    key: 'A',
    wanted: acme,
    held: acme,
    base: acme,
    echo: undefined,
    setsBack: true,
    ...rest,
    rules: { ...all, owns: [...all.owns], ...rules },
  });
}

describe('a supplier that the service does not have', () => {
  test('is created with everything that the ERP knows of it', () => {
    expect(change({ held: undefined, base: undefined })).toEqual({
      external_id: 'A',
      name: 'Acme',
      fields: { City: 'Rome' },
      contacts: [{ name: 'Ann', email: 'ann@acme' }],
    });
  });
  test('gets its name also where the ERP is not master of names: without one it cannot be created', () => {
    expect(change({ held: undefined, base: undefined, rules: { owns: ['archived'], contacts: 'leave' } })).toEqual({
      external_id: 'A',
      name: 'Acme',
    });
  });
  test('is not created when it is blocked in the ERP', () => {
    expect(change({ held: undefined, base: undefined, wanted: { ...acme, archived: true } })).toBeUndefined();
  });
});

describe('what the ERP is master of', () => {
  test('is sent where it has changed there, and nothing else is', () => {
    expect(change({ wanted: { ...acme, name: 'Acme Ltd' } })).toEqual({ external_id: 'A', name: 'Acme Ltd' });
    expect(change({ wanted: { ...acme, archived: true } })).toEqual({ external_id: 'A', archived: true });
    expect(change({ wanted: { ...acme, fields: { City: 'Oslo' } } })).toEqual({
      external_id: 'A',
      fields: { City: 'Oslo' },
    });
  });
  test('is set back where a user of the service has changed it', () => {
    expect(change({ held: { ...acme, name: 'ACME', archived: true } })).toEqual({
      external_id: 'A',
      name: 'Acme',
      archived: false,
    });
  });
  test('is not set back where a flow takes the change to the ERP', () => {
    expect(change({ held: { ...acme, name: 'ACME', archived: true }, setsBack: false })).toBeUndefined();
  });
  test('is not sent when it is what a flow has just written there', () => {
    const echo = { ...acme, name: 'ACME' };
    expect(change({ wanted: echo, held: { ...acme, name: 'Newer' }, echo, setsBack: false })).toBeUndefined();
    const edited = { ...acme, name: 'By a user of the ERP' };
    expect(change({ wanted: edited, held: acme, echo, setsBack: false })).toEqual({
      external_id: 'A',
      name: edited.name,
    });
  });
  test('an attribute without a value in the ERP is emptied only where its value came from there', () => {
    const held = { ...acme, fields: { City: 'Rome', Rating: 'A' } };
    expect(change({ wanted: { ...acme, fields: {} }, held })).toEqual({ external_id: 'A', fields: { City: '' } });
  });
  test.each(['name', 'fields', 'archived'] as const)('does not include %s when the settings leave it out', (part) => {
    const other: SupplierView = { ...acme, name: 'Other', fields: { City: 'Oslo' }, archived: true };
    const owns = all.owns.filter((each) => each !== part);
    expect(change({ wanted: other, rules: { owns } })).not.toHaveProperty(part);
  });
});

test('text in another form of Unicode is the same: it is matched, and sends nothing', () => {
  const view = (name: string): SupplierView => ({
    ...acme,
    name,
    fields: { City: `${name} City` },
    contacts: [{ name, email: `${name}@acme` }],
  });
  const [one, other] = [view('M\u00fcller'), view('Mu\u0308ller')];
  const rules = { contacts: 'replace' } as const;
  expect(change({ wanted: one, held: other, base: undefined, rules })).toBeUndefined();
  expect(change({ wanted: one, held: { ...other, name: 'By a user' }, base: other, rules })).toEqual({
    external_id: 'A',
    name: one.name,
  });
  const matched = [one, other].map((state) => matchValuesOf({ is: 'wanted', state }, ['name', 'email', 'fields.City']));
  expect(matched[0]).toEqual(matched[1]);
  expect(matched[0]).toHaveLength(3);
});

describe('contacts', () => {
  const bob = { name: 'Bob', email: 'bob@acme' };
  test('are added and renamed; e-mails in other letters are the same', () => {
    const wanted = { ...acme, contacts: [{ name: 'Anna', email: 'ANN@acme' }, bob] };
    expect(change({ wanted })?.contacts).toEqual([{ name: 'Anna', email: 'ANN@acme' }, bob]);
    expect(change({ held: { ...acme, contacts: [...acme.contacts, bob] } })).toBeUndefined();
  });
  test('that the ERP does not have are deleted with replace', () => {
    const held = { ...acme, contacts: [...acme.contacts, bob] };
    expect(change({ held, rules: { contacts: 'replace' } })?.contacts).toEqual([{ email: 'bob@acme', delete: true }]);
  });
  test('are never touched with leave', () => {
    expect(change({ wanted: { ...acme, contacts: [bob] }, rules: { contacts: 'leave' } })).toBeUndefined();
  });
});

const states = record({
  name: constantFrom('Acme', 'Beta', 'Gamma'),
  fields: dictionary(constantFrom('City', 'VAT'), constantFrom('1', '2')).map((fields) => ({ ...fields })),
  archived: boolean(),
  contacts: uniqueArray(record({ name: constantFrom('Ann', 'Bob'), email: constantFrom('a@x', 'b@x', 'c@x') }), {
    selector: ({ email }) => email,
  }),
});
const maybe = option(states, { nil: undefined });
const anyRules = record({
  owns: subarray([...all.owns]),
  contacts: constantFrom('add' as const, 'replace' as const, 'leave' as const),
});

test('once a change is taken, there is nothing left to send, whatever the three states are', () => {
  const isStable = (
    wanted: SupplierView,
    held: SupplierView | undefined,
    rest: Pick<SupplierComparison, 'base' | 'setsBack' | 'rules'>,
  ) => {
    const comparison = { key: 'A', wanted, held, echo: undefined, ...rest };
    const first = compareSupplier(comparison);
    if (!first) return true;
    const second = compareSupplier({ ...comparison, held: withChange(held, first), base: wanted });
    return second === undefined;
  };
  expect(() =>
    assert(
      property(states, maybe, maybe, boolean(), anyRules, (wanted, held, base, setsBack, rules) =>
        isStable(wanted, held, { base, setsBack, rules }),
      ),
    ),
  ).not.toThrow();
});

test('what the ERP is not master of is in no change of a supplier that exists', () => {
  const isRespected = (rules: SupplierComparison['rules'], made: ReturnType<typeof compareSupplier>) =>
    made === undefined ||
    (all.owns.every((part) => rules.owns.includes(part) || !(part in made)) &&
      (rules.contacts !== 'leave' || made.contacts === undefined) &&
      (rules.contacts === 'replace' || (made.contacts ?? []).every((contact) => contact.delete !== true)));
  expect(() =>
    assert(
      property(states, states, maybe, anyRules, (wanted, held, base, rules) =>
        isRespected(rules, compareSupplier({ key: 'A', wanted, held, base, echo: undefined, setsBack: true, rules })),
      ),
    ),
  ).not.toThrow();
});
