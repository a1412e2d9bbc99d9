import { expect, test } from 'vitest';
import { decideMatch, matchValuesOf } from '#bridge/intake/match-suppliers.ts';

const noRivals = new Map<string, number>();
const free = () => false;

test('a supplier is matched by the strongest rule that finds one', () => {
  const candidates = new Map([
    ['name:acme', ['A-1']],
    ['email:a@x', ['B-1']],
  ]);
  expect(decideMatch(['email:a@x', 'name:acme'], candidates, noRivals, free)).toEqual({ is: 'one', key: 'B-1' });
  expect(decideMatch(['name:other'], candidates, noRivals, free)).toEqual({ is: 'none' });
});

test('nothing is guessed: several candidates, several of the ERP, or a taken supplier are for a person', () => {
  const candidates = new Map([
    ['name:beta', ['B-1', 'B-2']],
    ['name:acme', ['A-1']],
  ]);
  const several = decideMatch(['name:beta'], candidates, noRivals, free);
  expect(several).toMatchObject({ is: 'ambiguous', why: expect.stringContaining('B-1, B-2') });
  expect(decideMatch(['name:acme'], candidates, new Map([['name:acme', 2]]), free)).toMatchObject({ is: 'ambiguous' });
  expect(decideMatch(['name:acme'], candidates, noRivals, () => true)).toMatchObject({ is: 'ambiguous' });
});

test('names match without regard to letters and blanks, attributes by their value', () => {
  const state = {
    name: ' ACME  GmbH',
    fields: { VAT: 'de1' },
    archived: false,
    contacts: [{ name: 'A', email: 'A@X' }],
  };
  expect(matchValuesOf({ is: 'wanted', state }, ['fields.VAT', 'email', 'name'])).toEqual([
    'fields.VAT:de1',
    'email:a@x',
    'name:acme gmbh',
  ]);
  expect(matchValuesOf({ is: 'left-out' }, ['name'])).toEqual([]);
});
