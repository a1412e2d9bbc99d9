import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Decimal, formatDecimal, hasAtMostDecimals, isDecimal, parseDecimal } from '#contract/decimal.ts';

const shown = (text: string, digitsMax?: number) => {
  const value = parseDecimal(text, digitsMax === undefined ? {} : { digitsMax });
  return value && formatDecimal(value, 40);
};

describe('reading decimals', () => {
  test.each([
    ['0', '0'],
    ['12', '12'],
    ['-0.50', '-0.5'],
    ['007.10', '7.1'],
    ['-0', '0'],
    ['-0.000', '0'],
    ['12345678901234567890', '12345678901234567890'],
    ['0.1234567890123456789', '0.1234567890123456789'],
    ['-1234567890.0987654321', '-1234567890.0987654321'],
  ])('%s is %s', (text, expected) => {
    expect(shown(text)).toBe(expected);
  });

  test.each([
    [['', ' ', '-', '.', '+1', '1.', '.5', '--1', '1.2.3', '1,5', '1 000', ' 1', '1 ', '1\n', '1\u0000']],
    [['1e5', '1E-3', '0x10', '0b1', 'NaN', 'Infinity', '-Infinity', '1_000', '1n', 'null']],
    [['١٢', '１２', '−1']],
  ])('%j are no decimals', (texts) => {
    for (const text of texts) expect([shown(text), isDecimal(text)]).toEqual([undefined, false]);
  });

  test('at most twenty digits are read, zeros counted, unless the caller sets another limit', () => {
    expect(shown(`-${'9'.repeat(20)}`)).toBe(`-${'9'.repeat(20)}`);
    expect(parseDecimal('9'.repeat(21))).toBeUndefined();
    expect(parseDecimal(`0.${'0'.repeat(20)}`)).toBeUndefined();
    expect(parseDecimal(`${'9'.repeat(10)}.${'9'.repeat(11)}`)).toBeUndefined();
    expect(shown('9'.repeat(34), 34)).toBe('9'.repeat(34));
    expect(parseDecimal('123', { digitsMax: 2 })).toBeUndefined();
    const [longest, tooLong] = [`-${'9'.repeat(19)}.9`, `-${'9'.repeat(20)}.9`];
    expect([isDecimal(longest), isDecimal(tooLong)]).toEqual([true, false]);
  });

  test('a text of ten million digits is refused at once', () => {
    const text = '1'.repeat(10_000_000);
    const started = performance.now();
    expect(parseDecimal(text)).toBeUndefined();
    expect(performance.now() - started).toBeLessThan(50);
  });
});

describe('writing decimals', () => {
  test.each([
    ['1.00000000005', '1.0000000001'],
    ['-1.00000000005', '-1.0000000001'],
    ['1.00000000004999', '1'],
    ['-0.00000000004', '0'],
    ['0.0000000001', '0.0000000001'],
    ['100', '100'],
    ['10.50', '10.5'],
    ['12345678901234567890', '12345678901234567890'],
  ])('%s is shown as %s', (text, expected) => {
    expect(formatDecimal(new Decimal(text))).toBe(expected);
  });

  test('other numbers of decimals round halves away from zero as well', () => {
    expect(formatDecimal(new Decimal('2.5'), 0)).toBe('3');
    expect(formatDecimal(new Decimal('-2.5'), 0)).toBe('-3');
    expect(formatDecimal(new Decimal('-0.4'), 0)).toBe('0');
    expect(formatDecimal(new Decimal('1.005'), 2)).toBe('1.01');
  });

  test('very large and very small numbers have no exponent', () => {
    expect(formatDecimal(new Decimal(10).pow(60))).toBe(`1${'0'.repeat(60)}`);
    expect(formatDecimal(new Decimal(10).pow(-60), 60)).toBe(`0.${'0'.repeat(59)}1`);
    expect(String(new Decimal(10).pow(60))).toBe(`1${'0'.repeat(60)}`);
    expect(String(new Decimal(10).pow(-60))).toBe(`0.${'0'.repeat(59)}1`);
  });

  test('a number that is not finite is never written', () => {
    expect(() => formatDecimal(new Decimal(1).dividedBy(0))).toThrow(RangeError);
    expect(() => formatDecimal(new Decimal(Number.NaN))).toThrow(RangeError);
  });

  test('any number is written as whole-number arithmetic computes it', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 20n) + 1n, max: 10n ** 20n - 1n }),
        fc.nat(19),
        fc.nat(12),
        (n, scale, decimals) => {
          const digits = (n < 0n ? -n : n)
            .toString()
            .padStart(scale + 1, '0')
            .slice(-20);
          const text = `${n < 0n ? '-' : ''}${withPoint(digits, scale)}`;
          const value = parseDecimal(text);
          expect(value && formatDecimal(value, decimals)).toBe(byWholeNumbers(BigInt(digits), n < 0n, scale, decimals));
        },
      ),
      { numRuns: 1000 },
    );
  });

  test('arithmetic keeps 34 significant digits', () => {
    expect(formatDecimal(new Decimal(2).dividedBy(3), 50)).toBe(`0.${'6'.repeat(33)}7`);
    expect(formatDecimal(new Decimal('9'.repeat(34)).plus('0.5'), 5)).toBe(`1${'0'.repeat(34)}`);
  });
});

function withPoint(digits: string, scale: number): string {
  return scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/** `digits` / 10^scale, rounded to `decimals`, with nothing but BigInt. */
function byWholeNumbers(digits: bigint, negative: boolean, scale: number, decimals: number): string {
  let scaled = digits;
  let places = scale;
  if (scale > decimals) {
    const unit = 10n ** BigInt(scale - decimals);
    scaled = (digits * 2n + unit) / (2n * unit);
    places = decimals;
  }
  while (places > 0 && scaled % 10n === 0n) {
    scaled /= 10n;
    places -= 1;
  }
  return `${negative && scaled !== 0n ? '-' : ''}${withPoint(scaled.toString().padStart(places + 1, '0'), places)}`;
}

describe('counting decimals', () => {
  test.each([
    ['12', 0, true],
    ['12.5', 0, false],
    ['12.50', 1, true],
    ['12.00', 0, true],
    ['-12.345', 2, false],
    ['-12.345', 3, true],
    ['100', 0, true],
    ['twelve', 10, false],
    ['1e2', 10, false],
    ['', 10, false],
  ])('%j fits %i decimals: %s', (text, precision, expected) => {
    expect(hasAtMostDecimals(text, precision)).toBe(expected);
  });
});
