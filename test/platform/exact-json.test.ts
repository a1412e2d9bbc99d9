import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { JsonBoundError, parseAsWritten, parseExactJson } from '#platform/exact-json.ts';

test.each([
  ['{"cost":12345678901234567.89}', { cost: '12345678901234567.89' }],
  ['{"cost":-0.12345678901234567890}', { cost: '-0.12345678901234567890' }],
  ['[9007199254740993]', ['9007199254740993']],
  ['[1, 9007199254740993]', [1, '9007199254740993']],
  ['{"a":[\n12345678901234567890\n]}', { a: ['12345678901234567890'] }],
  ['{"a":1E400}', { a: '1E400' }],
  ['{"a":-1e-400}', { a: '-1e-400' }],
  ['{"a":1e99999999999999999999}', { a: '1e99999999999999999999' }],
  ['{"a":1000000000000000000000}', { a: '1000000000000000000000' }],
  ['{"a":1e-99999999999999999999}', { a: '1e-99999999999999999999' }],
  ['12345678901234567890', '12345678901234567890'],
  ['{"a":1,"a":12345678901234567890}', { a: '12345678901234567890' }],
  ['{"\\u0061\\"":12345678901234567890}', { 'a"': '12345678901234567890' }],
])('a number that a double cannot represent is returned as its text: %s', (text, value) => {
  expect(parseExactJson(text)).toEqual(value);
});

test.each([
  ['{"a":0,"b":-1.5,"c":1e2,"d":1.50,"e":100000000000000000000}', { a: 0, b: -1.5, c: 100, d: 1.5, e: 1e20 }],
  [
    '{"a":"12345678901234567.89","b":": 12345678901234567890, 1e999"}',
    { a: '12345678901234567.89', b: ': 12345678901234567890, 1e999' },
  ],
  ['null', null],
  ['"x"', 'x'],
])('any other JSON is parsed as JSON.parse does: %s', (text, value) => {
  expect(parseExactJson(text)).toEqual(value);
});

test('a member called __proto__ is an ordinary member', () => {
  const read = parseExactJson('{"__proto__":12345678901234567890}') as object;
  expect(Object.entries(read)).toEqual([['__proto__', '12345678901234567890']]);
  expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
});

test('a text that is no JSON is refused', () => {
  for (const text of ['', '{"a":', '{"a":1e}', '[1,]', '{"a":12345678901234567890'])
    expect(() => parseExactJson(text)).toThrow(SyntaxError);
});

describe.each([
  ['exact', parseExactJson],
  ['as written', parseAsWritten],
])('JSON read %s is refused', (_how, parse) => {
  test('beyond 100 levels, before anything is made of it', () => {
    expect(parse(`${'['.repeat(100)}${']'.repeat(100)}`)).toBeInstanceOf(Array);
    expect(() => parse(`${'['.repeat(101)}${']'.repeat(101)}`)).toThrow(JsonBoundError);
    expect(() => parse('['.repeat(16 * 2 ** 20))).toThrow('is nested deeper than 100 levels');
    expect(() => parse('{"a":'.repeat(2 ** 20))).toThrow('is nested deeper than 100 levels');
  });

  test('beyond 1,000,000 values', () => {
    expect(parse(`[${'0,'.repeat(999_998)}0]`)).toHaveLength(999_999);
    expect(() => parse(`[${'0,'.repeat(999_999)}0]`)).toThrow('has more than 1000000 values');
    expect(() => parse(`[${'[],'.repeat(1_000_000)}0]`)).toThrow('has more than 1000000 values');
  });

  test('not for brackets and commas in its texts', () => {
    const texts = ['['.repeat(200), '"[\\', '\\', ','.repeat(1_000_001), '{'.repeat(101)];
    expect(parse(JSON.stringify(texts))).toEqual(texts);
  });
});

test('each number can be read as it is written, without an exponent', () => {
  expect(parseAsWritten('{"a":12.50,"b":[1E+2,5e-7,-1.5e3,"3","1E+2"]}')).toEqual({
    a: '12.50',
    b: ['100', '0.0000005', '-1500', '3', '1E+2'],
  });
  // It would take megabytes to write it down.
  expect(parseAsWritten('1e999999')).toBe('1e999999');
});

test('no digit of a number is lost, at any place in the JSON', () => {
  const digits = fc.stringMatching(/^-?(0|[1-9]\d{0,25})(\.\d{1,25})?$/);
  fc.assert(
    fc.property(digits, fc.constantFrom('', ' ', '\n', '\t'), (number, gap) => {
      const read = parseExactJson(`{"a":${gap}${number},"b":[${gap}${number}]}`) as { a: unknown; b: unknown[] };
      // The shortest text of the double must be the number itself.
      const written = [read.a, read.b[0]].map((value) =>
        typeof value === 'number' ? plain(value) : trimmed(String(value)),
      );
      expect(written).toEqual([trimmed(number), trimmed(number)]);
    }),
    { numRuns: 2_000 },
  );
});

/** The number's text without an exponent. JavaScript writes small and large numbers with one. */
function plain(value: number): string {
  const [mantissa = '', exponent] = String(value).split('e');
  if (exponent === undefined) return mantissa;
  const sign = mantissa.startsWith('-') ? '-' : '';
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const point = whole.length + Number(exponent);
  const all = whole + fraction;
  const padded = point <= 0 ? `${'0'.repeat(1 - point)}${all}` : all.padEnd(point, '0');
  const at = Math.max(1, point);
  return trimmed(`${sign}${padded.slice(0, at)}.${padded.slice(at)}`);
}

/** Without trailing zeros. */
function trimmed(number: string): string {
  const short = number.includes('.') ? number.replace(/\.?0*$/, '') : number;
  return short === '-0' ? '0' : short;
}
