import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { markerOf } from '../../../connectors/tryton/markers.ts';
import { merge } from '../../../connectors/tryton/merge.ts';
import {
  decimalsOf,
  floatOf,
  isDate,
  oneLine,
  plainDecimal,
  roundedHalfUp,
} from '../../../connectors/tryton/values.ts';

test.each([
  ['1.8750', '1.875'],
  ['0E-4', '0'],
  ['1E-7', '0.0000001'],
  ['1.5e3', '1500'],
  ['-0.00', '0'],
  ['-12.30', '-12.3'],
  ['007', '7'],
])('%s is the decimal %s', (given, plain) => {
  expect(plainDecimal(given)).toBe(plain);
});

test.each(['', 'n/a', 'NaN', 'Infinity', '1,5', '0x10'])('"%s" is no decimal, and not taken for 0', (given) => {
  expect(() => plainDecimal(given)).toThrow(`"${given}" is not a decimal number`);
});

test('only a day that the calendar has is a date', () => {
  expect(['2030-12-31', '2028-02-29', '0001-01-01'].filter((day) => !isDate(day))).toEqual([]);
  const none = [
    '2030-02-29',
    '2030-13-01',
    '2030-00-10',
    '0000-01-01',
    '31.12.2030',
    '2030-1-1',
    '2030-12-31T00:00:00Z',
  ];
  expect(none.filter(isDate)).toEqual([]);
});

test.each([
  ['1.00005', 4, '1.0001'],
  ['1.00004', 4, '1'],
  ['-2.5', 0, '-3'],
  ['9.9999', 3, '10'],
  ['0.4', 0, '0'],
  ['12', 2, '12'],
])('%s with %i decimals is %s', (given, decimals, rounded) => {
  expect(roundedHalfUp(given, decimals)).toBe(rounded);
});

test('rounding is never further away than half of the last decimal, whatever the number of digits', () => {
  const digits = fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n });
  fc.assert(
    fc.property(digits, fc.integer({ min: 0, max: 20 }), (units, decimals) => {
      const rounded = roundedHalfUp(`${units}e-20`, decimals);
      expect(decimalsOf(rounded)).toBeLessThanOrEqual(decimals);
      const [whole = '', fraction = ''] = rounded.replace('-', '').split('.');
      const back = BigInt(`${rounded.startsWith('-') ? '-' : ''}${whole}${fraction.padEnd(20, '0')}`);
      const off = back > units ? back - units : units - back;
      expect(off * 2n <= 10n ** BigInt(20 - decimals)).toBe(true);
    }),
  );
});

test('a quantity becomes a number only when the number stands for exactly it', () => {
  expect(floatOf('2.50')).toBe(2.5);
  expect(floatOf('123456789012.345')).toBe(123456789012.345);
  expect(floatOf('12345678901234567.8')).toBeUndefined();
});

test('what is one line holds nothing that Tryton refuses in one', () => {
  expect(oneLine(' a\tb\r\nc\v ')).toBe('a b c');
});

test('markers differ where kind, key or lot do, are the same each time, and are short enough to be searched for', () => {
  const markers = [
    markerOf('award', 'a/b'),
    markerOf('quotation', 'a/b'),
    markerOf('award', 'a/c'),
    markerOf('award', 'a/b', 'lot'),
  ];
  expect(new Set(markers).size).toBe(4);
  expect(markerOf('award', 'a/b')).toBe(markers[0]);
  for (const marker of markers) expect(marker).toMatch(/^SB-[0-9A-HJKMNP-TV-Z]{16}$/u);
});

test.each([
  // held, written, wanted: changes, conflicts
  ['nothing has changed', 5, 5, 5, [], []],
  ['the award has changed', 5, 5, 6, ['quantity'], []],
  ['a user has edited', 7, 5, 5, [], []],
  ['both have changed', 7, 5, 6, [], ['quantity']],
  ['both have changed to the same', 6, 5, 6, [], []],
  ['nobody knows what was written', 7, undefined, 6, ['quantity'], []],
])('when %s, nobody’s change is lost', (_, held, written, wanted, changes, conflicts) => {
  const merged = merge({ quantity: held }, written === undefined ? undefined : { quantity: written }, {
    quantity: wanted,
  });
  expect(merged.changes.map(({ field }) => field)).toEqual(changes);
  expect(merged.conflicts.map(({ field }) => field)).toEqual(conflicts);
});
