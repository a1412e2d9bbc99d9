import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseFormula } from '#service/domain/formula/parse-formula.ts';

function columnsOf(text: string): string[] {
  const parsed = parseFormula(text);
  if (!parsed.ok) throw new Error(parsed.message);
  return [...parsed.formula.columns];
}

function refusal(text: string): string {
  const parsed = parseFormula(text);
  return parsed.ok ? 'accepted' : parsed.message;
}

describe('names', () => {
  test.each([
    ['[Unit Price] * [Annual Volume]', ['Unit Price', 'Annual Volume']],
    ['Price * Volume_2', ['Price', 'Volume_2']],
    ['Größe + цена + 単価 + _x', ['Größe', 'цена', '単価', '_x']],
    ['[मूल्य] + मूल्य', ['मूल्य']],
    ['[Price [net]]] + 1', ['Price [net]']],
    ['[]]] + []]]]]', [']', ']]']],
    ['[2024 (EUR) + 10 %]', ['2024 (EUR) + 10 %']],
    ['[line\nbreak "quoted" 😀]', ['line\nbreak "quoted" 😀']],
    ['[ spaced ]', [' spaced ']],
    ['Sum * IF + [MIN]', ['Sum', 'IF', 'MIN']],
    ['sum(Sum, [SUM])', ['Sum', 'SUM']],
    ['IF(a = 0, b, c)', ['a', 'b', 'c']],
    ['__proto__ + constructor + [toString]', ['__proto__', 'constructor', 'toString']],
    ['1 + 2', []],
  ])('%j names %j', (text, expected) => {
    expect(columnsOf(text)).toEqual(expected);
  });
});

describe('refusals name the place and the fault', () => {
  test.each([
    ['', 'the formula is empty'],
    [' \t\n', 'the formula is empty'],
    ['a +', "at character 4: expected a number, a column or '(', but the formula ends"],
    ['a * / b', "at character 5: expected a number, a column or '(', but found '/'"],
    ['+ a', "at character 1: expected a number, a column or '(', but found '+'"],
    ['()', "at character 2: expected a number, a column or '(', but found ')'"],
    ['SUM(a,)', "at character 7: expected a number, a column or '(', but found ')'"],
    ['(a', "at character 1: the parenthesis that opens here is not closed with ')'"],
    ['1 + MAX(a, b', "at character 5: the parenthesis that opens here is not closed with ')'"],
    ['a)', "at character 2: ')' is out of place"],
    ['1,5', "at character 2: ',' is out of place"],
    [
      'Unit Price',
      'at character 6: an operator is missing before Price; a column name with spaces stands in [brackets]',
    ],
    ['2 (3)', 'at character 3: an operator is missing before (; a column name with spaces stands in [brackets]'],
    ['1e5', 'at character 2: an operator is missing before e5; a column name with spaces stands in [brackets]'],
    ['[a', 'at character 1: this bracket is not closed; a ] inside a name is written ]]'],
    ['1 + [a]]', 'at character 5: this bracket is not closed; a ] inside a name is written ]]'],
    ['[]', 'at character 1: there is no column name between the brackets'],
    ['a = b = c', 'at character 7: comparisons are not chained; put one of them in parentheses'],
    ['ROUND(a, 1, 2)', 'at character 1: ROUND takes 1 or 2 values, not 3'],
    ['sum()', 'at character 1: SUM takes 1 or more values, not 0'],
    ['ABS(a, b)', 'at character 1: ABS takes 1 value, not 2'],
    ['1 + IF(a, b)', 'at character 5: IF takes 3 values, not 2'],
    ['12345678901234567890123456789012345', 'at character 1: a number has at most 34 digits'],
  ])('%j', (text, expected) => {
    expect(refusal(text)).toBe(expected);
  });

  test.each([
    ['a ^ 2', "at character 3: '^' means nothing here"],
    ['a == b', "at character 4: expected a number, a column or '(', but found '='"],
    ['a × b', "at character 3: '×' means nothing here"],
    ['"text"', "at character 1: '\"' means nothing here"],
    ['1.5.2', "at character 4: '.' means nothing here"],
    ['.5', "at character 1: '.' means nothing here"],
    ['a\u0000', 'at character 2: U+0000 means nothing here'],
    ['a \u200B', 'at character 3: U+200B means nothing here'],
    ['a \uD800', 'at character 3: U+D800 means nothing here'],
    ['[😀] + 😀', "at character 7: '😀' means nothing here"],
    ['Total (EUR)', 'at character 1: there is no function Total; there are IF, MIN, MAX, SUM, ROUND, ABS'],
    ['constructor(1)', 'at character 1: there is no function constructor'],
    ['__proto__(1)', 'at character 1: there is no function __proto__'],
    ['[ſum](1)', 'at character 6: an operator is missing before ('],
    ['ſum(1)', 'at character 1: there is no function ſum'],
    ['process.exit(1)', "at character 8: '.' means nothing here"],
  ])('%j', (text, expected) => {
    expect(refusal(text)).toContain(expected);
  });
});

describe('hostile text leads to a message, not to a crash', () => {
  test('a hundred levels are read; the next level is refused, at its parenthesis', () => {
    const nested = (levels: number, open: string, close: string) => `${open.repeat(levels)}1${close.repeat(levels)}`;
    expect(refusal(nested(100, '(', ')'))).toBe('accepted');
    expect(refusal(nested(101, '(', ')'))).toBe('at character 101: parentheses and functions nest at most 100 deep');
    expect(refusal(nested(100, 'ABS(', ')'))).toBe('accepted');
    expect(refusal(nested(101, 'ABS(', ')'))).toBe('at character 401: parentheses and functions nest at most 100 deep');
    expect(refusal(nested(100, 'IF(1,', ',2)'))).toBe('accepted');
    expect(refusal(nested(101, 'IF(1,', ',2)'))).toContain('nest at most 100 deep');
  });

  test('levels that are not nested in each other do not add up', () => {
    expect(refusal(Array(200).fill('((a))').join('+'))).toBe('accepted');
  });

  test.each([
    ['parentheses', '('],
    ['calls', 'SUM('],
    ['branches', 'IF(1,'],
    ['conditions', 'IF('],
    ['brackets', '['],
    ['minus signs and parentheses', '-('],
  ])('%s that open and never close', (_kind, opening) => {
    expect(refusal(opening.repeat(Math.floor(10_000 / opening.length)))).toMatch(/nest at most 100|is not closed/);
  });

  test.each([
    ['a sum', `${'a+'.repeat(4999)}a`],
    ['a product', `${'a*'.repeat(4999)}a`],
    ['minus signs', `${'-'.repeat(9999)}1`],
    ['arguments', `SUM(${'a,'.repeat(4997)}a)`],
    ['one name', 'a'.repeat(10_000)],
    ['one name in brackets', `[${']]'.repeat(4999)}]`],
    ['spaces', `${' '.repeat(9998)}1 `],
  ])('%s of ten thousand characters is read', (_kind, text) => {
    expect(text.length).toBeLessThanOrEqual(10_000);
    expect(refusal(text)).toBe('accepted');
  });

  test('a text of more than ten thousand characters is refused without being read', () => {
    expect(refusal(`${'a+'.repeat(5000)}a`)).toBe('a formula has at most 10000 characters, this one has 10001');
    expect(refusal('('.repeat(5_000_000))).toBe('a formula has at most 10000 characters, this one has 5000000');
  });

  test('a message is short even if the name in it is long', () => {
    expect(refusal(`1 ${'b'.repeat(9000)}`).length).toBeLessThan(300);
  });

  test('for any text the result is a formula or a message, within a second', () => {
    const piece = fc.oneof(
      fc.constantFrom('(', ')', '[', ']', ']]', ',', '+', '-', '*', '/', '=', '<>', '!=', '<', '<=', '>', '>='),
      fc.constantFrom(
        'IF(',
        'min(',
        'ROUND',
        'a',
        '[b c]',
        '1',
        '2.5',
        '.',
        ' ',
        '\n',
        '__proto__',
        '😀',
        '\uD83D',
        '\u0000',
      ),
      fc.string({ unit: 'binary', maxLength: 4 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 400 }), (pieces) => {
        const started = performance.now();
        const parsed = parseFormula(pieces.join(''));
        expect(performance.now() - started).toBeLessThan(500);
        expect(parsed.ok ? 'accepted' : parsed.message).toMatch(
          /^(at character \d+: .|the formula is empty$|accepted$)/,
        );
      }),
      { numRuns: 2000 },
    );
  });
});
