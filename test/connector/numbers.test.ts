/**
 * Expected values: shares and roundings worked out by hand; minor units from ISO 4217; the largest-remainder method.
 */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataError } from '#connector/errors.ts';
import {
  atMostDecimals,
  currencyDecimals,
  Decimal,
  jsonNumber,
  readDecimal,
  roundTo,
  splitQuantity,
} from '#connector/numbers.ts';

describe('a number', () => {
  test.each(['', '1e3', '1,5', '.5', '5.', '+1', ' 1', 'NaN', '0x1', '1.2.3'])('cannot be %j', (text) => {
    expect(() => readDecimal(text, 'lot "A": unit_price')).toThrow(DataError);
    expect(() => readDecimal(text, 'lot "A": unit_price')).toThrow(/^lot "A": unit_price is .*not a decimal number$/);
  });

  test('with more than 100 digits is refused', () => {
    expect(() => readDecimal('9'.repeat(101), 'x')).toThrow(DataError);
  });

  test.each([
    ['12.50', 2, '12.5'],
    ['12.5000', 1, '12.5'],
    ['-0.10', 1, '-0.1'],
    ['007', 0, '7'],
    ['12345678901234567890.123456789012345678901234567', 27, '12345678901234567890.123456789012345678901234567'],
  ])('that fits keeps every digit: %s with %i places', (text, places, expected) => {
    expect(atMostDecimals(text, places, 'x')).toBe(expected);
  });

  test('that would lose digits is refused with its place, its value and the limit', () => {
    expect(() => atMostDecimals('0.125', 2, 'lot "A": unit_price')).toThrow(
      new DataError('lot "A": unit_price is 0.125, and the ERP keeps 2 decimals there: digits would be lost'),
    );
  });

  test.each([
    ['0.125', 2, '0.13'],
    ['-0.125', 2, '-0.13'],
    ['2.5', 0, '3'],
    ['0.004', 2, '0'],
    ['1.10', 2, '1.1'],
  ])('is rounded by roundTo, halves away from zero: %s to %i places', (text, places, expected) => {
    expect(roundTo(text, places, 'x')).toBe(expected);
  });

  test('keeps each digit in JSON', () => {
    const json = { price: jsonNumber('12345678901234567.10', 'x'), less: jsonNumber('-0.05', 'x') };
    expect(JSON.stringify(json)).toBe('{"price":12345678901234567.1,"less":-0.05}');
    expect(() => jsonNumber('1e3', 'x')).toThrow(DataError);
  });
});

test.each([
  ['EUR', 2],
  ['JPY', 0],
  ['CLP', 0],
  ['KWD', 3],
  ['IQD', 3],
  ['CLF', 4],
  ['LBP', 2],
  ['XXY', 2],
])('amounts in %s have %i decimals', (currency, decimals) => {
  expect(currencyDecimals(currency)).toBe(decimals);
});

describe('splitting a quantity', () => {
  test.each([
    ['100', ['0.6', '0.4'], 0, ['60', '40']],
    // 33.33 each: one unit is left, for the first.
    ['100', ['1', '1', '1'], 0, ['34', '33', '33']],
    // 4.9, 3.5 and 1.6: two units are left, for the remainders .9 and .6.
    ['10', ['0.49', '0.35', '0.16'], 0, ['5', '3', '2']],
    ['1', ['0.5', '0.5'], 0, ['1', '0']],
    ['0', ['0.5', '0.5'], 0, ['0', '0']],
    ['0.05', ['0.5', '0.5'], 2, ['0.03', '0.02']],
    ['-100', ['1', '1', '1'], 0, ['-34', '-33', '-33']],
    ['100', ['0.6'], 0, ['100']],
    ['90', ['0', '3'], 0, ['0', '90']],
    ['10', ['0.333', '0.6670'], 1, ['3.3', '6.7']],
  ])('of %s by %j with %i places', (total, shares, places, expected) => {
    expect(splitQuantity(total, shares, places)).toEqual(expected);
  });

  test.each([
    ['1.5', ['1'], 0],
    ['1', [], 0],
    ['1', ['0', '0'], 0],
    ['1', ['-1', '2'], 0],
    ['x', ['1'], 0],
    ['1', ['x'], 0],
  ])('of %s by %j with %i places is refused', (total, shares, places) => {
    expect(() => splitQuantity(total, shares, places)).toThrow(DataError);
  });

  const units = fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n });
  const shareOf = fc
    .tuple(fc.integer({ min: 0, max: 100_000 }), fc.integer({ min: 0, max: 6 }))
    .map(([digits, places]) => new Decimal(digits).div(new Decimal(10).pow(places)).toFixed());
  const sharesOf = fc
    .array(shareOf, { minLength: 1, maxLength: 12 })
    .filter((all) => all.some((share) => share !== '0'));

  test('returns parts that sum exactly to the total, each less than one unit away from its exact share', () => {
    const Exact = Decimal.clone({ precision: 200 });
    fc.assert(
      fc.property(units, sharesOf, fc.integer({ min: 0, max: 5 }), (whole, shares, places) => {
        const total = new Exact(String(whole)).div(new Exact(10).pow(places)).toFixed();
        const parts = splitQuantity(total, shares, places).map((part) => new Exact(part));
        expect(parts.reduce((all, part) => all.plus(part)).toFixed()).toBe(total);
        const sum = shares.reduce((all, share) => all.plus(share), new Exact(0));
        const unit = new Exact(10).pow(-places);
        for (const [index, part] of parts.entries()) {
          expect(part.decimalPlaces()).toBeLessThanOrEqual(places);
          const exact = new Exact(total).times(shares[index] ?? '').div(sum);
          expect(part.minus(exact).abs().lt(unit)).toBe(true);
        }
      }),
    );
  });

  test('returns 0 for a share of 0, and never less for a greater share', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 12n }), sharesOf, (whole, shares) => {
        const parts = splitQuantity(String(whole), shares).map((part, index) => ({
          part: BigInt(part),
          share: new Decimal(shares[index] ?? ''),
        }));
        expect(parts.filter(({ part, share }) => share.isZero() && part !== 0n)).toEqual([]);
        const unfair = parts.some((a) => parts.some((b) => a.share.gt(b.share) && a.part < b.part));
        expect(unfair).toBe(false);
      }),
    );
  });
});
