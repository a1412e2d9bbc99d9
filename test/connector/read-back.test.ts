/** The fields of an object: each difference is found, and nothing else is. */
import { array, assert, bigInt, integer, nat, property, record, string, uniqueArray } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalDecimal, fieldsOf, hasDifference } from '#connector/read-back.ts';

const forms = { decimals: ['price'], names: ['item'] };
const differing = (expected: unknown, held: unknown) =>
  fieldsOf(expected, held, forms).filter((field) => field.expected !== field.held);

test('a raised price and a line that was taken out are found by name, and nothing else', () => {
  const expected = {
    title: 'Bolts',
    lines: [
      { item: 'M8', price: '1.5' },
      { item: 'M10', price: '2' },
    ],
  };
  const held = { title: 'Bolts', lines: [{ item: 'M8', price: '1.70' }], internal: 'of the ERP' };
  expect(differing(expected, held)).toEqual([
    { name: 'lines[M8].price', expected: '1.5', held: '1.7' },
    { name: 'lines[M10].item', expected: 'M10', held: undefined },
    { name: 'lines[M10].price', expected: '2', held: undefined },
  ]);
});

test('a line that a person has added is found with all that it has', () => {
  const line = { item: 'M8', price: '1.5' };
  expect(differing({ lines: [line] }, { lines: [line, { item: 'M8', price: '3', tags: ['x'], note: null }] })).toEqual([
    { name: 'lines[M8#2].item', expected: undefined, held: 'M8' },
    { name: 'lines[M8#2].price', expected: undefined, held: '3' },
    { name: 'lines[M8#2].tags[1]', expected: undefined, held: 'x' },
  ]);
});

test('what was not written is not compared; what was written as nothing is', () => {
  expect(fieldsOf({ state: undefined, note: null }, { state: 'open', note: 'by hand' })).toEqual([
    { name: 'note', expected: undefined, held: 'by hand' },
  ]);
});

test('a list that the ERP holds as something else is missing there', () => {
  expect(differing({ lines: [{ item: 'A' }] }, { lines: 'A' })).toEqual([
    { name: 'lines[A].item', expected: 'A', held: undefined },
  ]);
});

describe('a decimal', () => {
  test.each([
    ['1.50', '1.5'],
    ['100', '100'],
    ['-0.00', '0'],
    ['+7.', '7'],
    [' 0012.3400 ', '12.34'],
    ['12345678901234567890.1234567890', '12345678901234567890.123456789'],
  ])('%s is %s', (text, canonical) => expect(canonicalDecimal(text)).toBe(canonical));

  test.each(['1e5', '1,5', '', 'one', '1'.repeat(101)])('%s is no number, and stays as it is', (text) =>
    expect(canonicalDecimal(text)).toBe(text),
  );

  test('has one form for each value, in which no digit is lost', () => {
    assert(
      property(bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), nat(20), nat(5), (units, places, zeros) => {
        const sign = units < 0n ? '-' : '';
        const digits = String(units < 0n ? -units : units).padStart(places + 1, '0');
        const whole = digits.slice(0, digits.length - places);
        const fraction = digits.slice(digits.length - places);
        const plain = canonicalDecimal(`${sign}${whole}${fraction === '' ? '' : `.${fraction}`}`);
        expect(canonicalDecimal(`${sign}00${whole}.${fraction}${'0'.repeat(zeros)}`)).toBe(plain);
        const [, back = '', point = ''] = /^-?(\d+)\.?(\d*)$/.exec(plain) ?? [];
        expect(BigInt(`${back}${point.padEnd(places, '0')}`)).toBe(units < 0n ? -units : units);
      }),
    );
  });
});

/** A document-like object: texts, decimals, lists of named and unnamed entries. */
const line = record({ item: string({ minLength: 1 }), price: integer().map(String), note: string() });
const object = record({
  title: string(),
  head: record({ price: integer().map(String) }),
  lines: uniqueArray(line, { selector: ({ item }) => item, maxLength: 6 }),
  tags: array(string({ minLength: 1 }), { maxLength: 4 }),
});

test('an object has no difference from itself, in whatever order its named lines are', () => {
  assert(
    property(object, nat(5), (given, turn) => {
      const at = turn % (given.lines.length || 1);
      const turned = { ...given, lines: [...given.lines.slice(at), ...given.lines.slice(0, at)] };
      expect(differing(given, turned)).toEqual([]);
    }),
  );
});

test('a text in another form of Unicode is no difference, also in the names of lines', () => {
  const [one, other] = ['M\u00fcller', 'Mu\u0308ller'].map((lot) => ({ name: lot, lines: [{ lot, price: '1' }] }));
  const fields = fieldsOf(one, other, { names: ['lot'] });
  // A field is named as the connector names it.
  expect(fields.map(({ name }) => name)).toEqual(['name', 'lines[M\u00fcller].lot', 'lines[M\u00fcller].price']);
  expect(hasDifference({ key: 'k', status: 'held', reference: 'r', fields })).toBe(false);
});

test('one changed value is one difference, which names it; no two fields share a name', () => {
  assert(
    property(object, nat(), string({ minLength: 1 }), (given, pick, suffix) => {
      if (given.lines.length === 0) return;
      const index = pick % given.lines.length;
      const chosen = given.lines[index] as (typeof given.lines)[number];
      const edited = { ...chosen, note: `${chosen.note}${suffix}` };
      const held = { ...given, lines: given.lines.with(index, edited) };
      expect(differing(given, held).map(({ name }) => name)).toEqual([`lines[${chosen.item}].note`]);
      const names = fieldsOf(given, held, forms).map(({ name }) => name);
      expect(new Set(names).size).toBe(names.length);
    }),
  );
});
