import { expect, test } from 'vitest';
import { markerOf } from '../../../connectors/tryton/markers.ts';
import { merge } from '../../../connectors/tryton/merge.ts';
import { floatOf, isDate, oneLine, plainDecimal } from '../../../connectors/tryton/values.ts';

test.each([
  ['1.8750', '1.875'],
  ['0E-4', '0'],
  ['1E-7', '0.0000001'],
  ['1.5e3', '1500'],
  ['-0.00', '0'],
  ['-12.30', '-12.3'],
  ['007', '7'],
])('%s is the decimal %s', (text, plain) => {
  expect(plainDecimal(text)).toBe(plain);
});

test.each(['', 'n/a', 'NaN', 'Infinity', '1,5', '0x10'])('"%s" is refused as a decimal, and not read as 0', (text) => {
  expect(() => plainDecimal(text)).toThrow(`"${text}" is not a decimal number`);
});

test('only a day of the calendar is a date', () => {
  expect(['2030-12-31', '2028-02-29', '0001-01-01'].filter((day) => !isDate(day))).toEqual([]);
  const invalid = [
    '2030-02-29',
    '2030-13-01',
    '2030-00-10',
    '0000-01-01',
    '31.12.2030',
    '2030-1-1',
    '2030-12-31T00:00:00Z',
  ];
  expect(invalid.filter(isDate)).toEqual([]);
});

test('a quantity becomes a number only if the number is exactly the quantity', () => {
  expect(floatOf('2.50')).toBe(2.5);
  expect(floatOf('123456789012.345')).toBe(123456789012.345);
  expect(floatOf('12345678901234567.8')).toBeUndefined();
});

test('a one-line text holds no character that Tryton refuses there', () => {
  expect(oneLine(' a\tb\r\nc\v ')).toBe('a b c');
});

test('markers differ if kind, key or lot differ, are always the same for one document, and have 16 characters', () => {
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
  ['a user has edited it', 7, 5, 5, [], []],
  ['both have changed', 7, 5, 6, [], ['quantity']],
  ['both have changed to the same value', 6, 5, 6, [], []],
  ['it is not known what was written last', 7, undefined, 6, ['quantity'], []],
])('if %s, no change is lost', (_, held, lastWritten, wanted, changes, conflicts) => {
  const merged = merge({ quantity: held }, lastWritten === undefined ? undefined : { quantity: lastWritten }, {
    quantity: wanted,
  });
  expect(merged.changes.map(({ field }) => field)).toEqual(changes);
  expect(merged.conflicts.map(({ field }) => field)).toEqual(conflicts);
});
