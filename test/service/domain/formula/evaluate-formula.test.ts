import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Decimal, formatDecimal, parseDecimal } from '#contract/decimal.ts';
import { evaluateFormula, type FormulaResult } from '#service/domain/formula/evaluate-formula.ts';
import { parseFormula } from '#service/domain/formula/parse-formula.ts';

function evaluate(text: string, values: Record<string, string> = {}): FormulaResult<Decimal> {
  const parsed = parseFormula(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.message}`);
  const cells = new Map(Object.entries(values));
  return evaluateFormula(parsed.formula, (column) => parseDecimal(cells.get(column) ?? ''));
}

function shown(text: string, values: Record<string, string> = {}): string {
  const result = evaluate(text, values);
  return result.ok ? formatDecimal(result.value) : result.message;
}

describe('results computed by hand', () => {
  test.each([
    // Precedence and order: from left to right, products before sums, comparisons last.
    ['2 + 3 * 4', '14'],
    ['(2 + 3) * 4', '20'],
    ['10 - 4 - 3', '3'],
    ['10 - (4 - 3)', '9'],
    ['24 / 4 / 2', '3'],
    ['24 / (4 / 2)', '12'],
    ['24 / 4 * 2', '12'],
    ['2 - 3 + 4', '3'],
    ['1 + 2 < 2 * 2', '1'],
    ['1 + (2 < 2) * 2', '1'],
    // A minus sign applies to the next factor.
    ['-2 + 3', '1'],
    ['-2 * -3', '6'],
    ['2--3', '5'],
    ['---2', '-2'],
    ['-(2 - 5)', '3'],
    ['0 * -1', '0'],
    // Exact, where binary floats are not.
    ['0.1 + 0.2', '0.3'],
    ['0.1 * 3 = 0.3', '1'],
    ['1.005 * 1000', '1005'],
    ['9007199254740993 + 0.0000000001', '9007199254740993.0000000001'],
    ['12345678901234567 * 98765432109876543', '1219326311370217861743636654061881'],
    ['1 / 3', '0.3333333333'],
    ['2 / 3', '0.6666666667'],
    ['1 / 3 * 3', '1'],
    // 34 digits are not the whole third.
    ['1 / 3 * 3 = 1', '0'],
    ['1 / 8', '0.125'],
    // The value of a comparison is 1 or 0.
    ['1 = 1.00', '1'],
    ['1 <> 1', '0'],
    ['1 != 2', '1'],
    ['2 < 2', '0'],
    ['2 <= 2', '1'],
    ['3 > 2', '1'],
    ['2 >= 3', '0'],
    ['(1 < 2) + (2 < 3)', '2'],
    ['0 = -0', '1'],
    // Functions.
    ['IF(2 > 1, 10, 20)', '10'],
    ['if(2 < 1, 10, 20)', '20'],
    ['If(-0.5, 1, 2)', '1'],
    ['IF(0.0, 1, 2)', '2'],
    ['MIN(3, -1, 2)', '-1'],
    ['max(3, -1, 2)', '3'],
    ['MIN(7)', '7'],
    ['SUM(0.1, 0.2, 0.3)', '0.6'],
    ['sum (1, 2)', '3'],
    ['ABS(2 - 5.5)', '3.5'],
    ['ROUND(2.5)', '3'],
    ['ROUND(-2.5)', '-3'],
    ['ROUND(2.4999999999)', '2'],
    ['ROUND(1.005, 2)', '1.01'],
    ['ROUND(-1.005, 2)', '-1.01'],
    ['ROUND(1250, -2)', '1300'],
    ['ROUND(-1250, -2)', '-1300'],
    ['ROUND(1249.99, -2)', '1200'],
    ['ROUND(0.4)', '0'],
    ['ROUND(10 / 3, 1 + 1)', '3.33'],
  ])('%s is %s', (text, expected) => {
    expect(shown(text)).toBe(expected);
  });

  test('a price times a volume, with freight and a discount', () => {
    // 12.3456 x 12,000 = 148,147.2; less 2.5 % is 144,443.52; with freight 144,543.47
    expect(
      shown('[Unit Price] * [Annual Volume] * (1 - Discount / 100) + Freight', {
        'Unit Price': '12.3456',
        'Annual Volume': '12000',
        Discount: '2.5',
        Freight: '99.95',
      }),
    ).toBe('144543.47');
  });

  test('a staggered price', () => {
    const text = 'IF(Qty >= 1000, Qty * 0.95, IF(Qty >= 100, Qty * 0.98, Qty))';
    expect(shown(text, { Qty: '1000' })).toBe('950');
    expect(shown(text, { Qty: '999' })).toBe('979.02');
    expect(shown(text, { Qty: '99' })).toBe('99');
  });

  test('the name of a function is a column when it is in brackets or has no parentheses', () => {
    expect(shown('[SUM] + SUM(SUM, 1) * IF', { SUM: '5', IF: '2' })).toBe('17');
  });

  test('names are case-sensitive, and no name is special', () => {
    expect(shown('price', { Price: '1' })).toBe('column [price] has no value');
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty'])
      expect(shown(name)).toBe(`column [${name}] has no value`);
  });
});

describe('what cannot be computed', () => {
  test('a column without a value makes the bid incomplete, and the message names it', () => {
    expect(evaluate('[Unit Price] * 2 + Other')).toEqual({
      ok: false,
      reason: 'incomplete',
      column: 'Unit Price',
      message: 'column [Unit Price] has no value',
    });
  });

  test.each([
    ['Price / Qty', 'division by zero: Qty is 0'],
    ['Price / [Qty]', 'division by zero: [Qty] is 0'],
    ['1 + Price / (Qty * Price)', 'division by zero: (Qty * Price) is 0'],
    ['Price / -Qty', 'division by zero: -Qty is 0'],
    ['Price / 2 / ROUND(0.4)', 'division by zero: ROUND(0.4) is 0'],
    ['0 / 0', 'division by zero: 0 is 0'],
  ])('%s', (text, message) => {
    expect(evaluate(text, { Price: '5', Qty: '0' })).toEqual({ ok: false, reason: 'impossible', message });
  });

  test('only the chosen branch is computed', () => {
    const text = 'IF([Qty] = 0, 0, [Price] / [Qty])';
    expect(shown(text, { Qty: '0', Price: '5' })).toBe('0');
    expect(shown(text, { Qty: '4', Price: '5' })).toBe('1.25');
    expect(shown(text, { Qty: '0' })).toBe('0');
    expect(shown(text, { Qty: '4' })).toBe('column [Price] has no value');
    expect(shown(text, { Price: '5' })).toBe('column [Qty] has no value');
  });

  test.each([['0.5'], ['21'], ['-21'], ['1/3']])('ROUND to %s digits', (digits) => {
    expect(evaluate(`ROUND(1, ${digits})`)).toEqual({
      ok: false,
      reason: 'impossible',
      message: 'ROUND takes a whole number of digits from -20 to 20',
    });
  });

  test('a number beyond the bound is refused and never written', () => {
    const big = '9'.repeat(34);
    expect(shown(`${big} * ${big}`)).toHaveLength(68);
    const grows = { ok: false, reason: 'impossible', message: 'a number in the formula grows beyond 10^100' };
    expect(evaluate(`${big} * ${big} * ${big}`)).toEqual(grows);
    expect(evaluate(Array(280).fill(big).join('*'))).toEqual(grows);
    const tiny = '0.00000000000000000001';
    expect(evaluate(`1 / ${tiny} / ${tiny} / ${tiny} / ${tiny} / ${tiny} / ${tiny}`)).toEqual(grows);
  });

  test('the longest chains compute', () => {
    expect(shown(`${'1+'.repeat(4999)}1`)).toBe('5000');
    expect(shown(`${'-'.repeat(9999)}1`)).toBe('-1');
    expect(shown(`${'('.repeat(100)}1${')'.repeat(100)}`)).toBe('1');
  });

  test('an error of the caller is not reported as a fault of the bid', () => {
    const parsed = parseFormula('a');
    if (!parsed.ok) throw new Error(parsed.message);
    const broken = () => {
      throw new TypeError('the row is gone');
    };
    expect(() => evaluateFormula(parsed.formula, broken)).toThrow('the row is gone');
  });
});

test('any formula has the value that fractions of whole numbers have, rounded to 34 digits at every step', () => {
  let computed = 0;
  fc.assert(
    fc.property(tree, fc.array(number, { minLength: 3, maxLength: 3 }), (node, given) => {
      const values = Object.fromEntries(columnNames.map((name, index) => [name, given[index] ?? '0']));
      const result = evaluate(print(node, 0), values);
      const expected = oracle(node, values);
      const agree =
        result.ok && expected !== 'impossible'
          ? sameFraction(fraction(result.value.toFixed()), expected)
          : !result.ok && result.reason === expected;
      expect(agree ? 'agree' : print(node, 0)).toBe('agree');
      if (result.ok) computed += 1;
    }),
    { numRuns: 4000 },
  );
  // Otherwise the test would only prove that both refuse.
  expect(computed).toBeGreaterThan(2000);
});

// The oracle shares no code with the product: it has its own trees and its own arithmetic on fractions of BigInts.

type Binary = '+' | '-' | '*' | '/' | '=' | '<>' | '<' | '<=' | '>' | '>=';
type Tree =
  | { is: 'number'; text: string }
  | { is: 'column'; name: string }
  | { is: 'minus'; of: Tree }
  | { is: 'binary'; sign: Binary; left: Tree; right: Tree; spaced: boolean }
  | { is: 'call'; name: string; args: Tree[] }
  | { is: 'round'; of: Tree; digits: number }
  | { is: 'wrapped'; of: Tree };

const columnNames = ['Qty', 'Unit Price', 'a]b'];
const columnTexts: Record<string, string> = { Qty: 'Qty', 'Unit Price': '[Unit Price]', 'a]b': '[a]]b]' };
const nonNegative = fc.oneof(
  fc.nat(30).map(String),
  fc.tuple(fc.nat(999), fc.nat(99)).map(([whole, cents]) => `${whole}.${String(cents).padStart(2, '0')}`),
  fc.stringMatching(/^[0-9]{1,10}\.[0-9]{1,10}$/),
  fc.stringMatching(/^[0-9]{20}$/),
);
const number = fc.tuple(fc.boolean(), nonNegative).map(([negative, text]) => (negative ? `-${text}` : text));

const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    {
      weight: 1,
      arbitrary: fc.oneof(
        nonNegative.map((text): Tree => ({ is: 'number', text })),
        fc.constantFrom(...columnNames).map((name): Tree => ({ is: 'column', name })),
      ),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        is: fc.constant('binary' as const),
        sign: fc.constantFrom<Binary>('+', '-', '*', '/', '+', '-', '*', '/', '=', '<>', '<', '<=', '>', '>='),
        left: tie('tree'),
        right: tie('tree'),
        spaced: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: tie('tree').map((of): Tree => ({ is: 'minus', of })) },
    { weight: 1, arbitrary: tie('tree').map((of): Tree => ({ is: 'wrapped', of })) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom('MIN', 'max', 'Sum'), fc.array(tie('tree'), { minLength: 1, maxLength: 4 }))
        .map(([name, args]): Tree => ({ is: 'call', name, args })),
    },
    { weight: 1, arbitrary: tie('tree').map((of): Tree => ({ is: 'call', name: 'ABS', args: [of] })) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(tie('tree'), tie('tree'), tie('tree'))
        .map((args): Tree => ({ is: 'call', name: 'IF', args })),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(tie('tree'), fc.integer({ min: -4, max: 8 }))
        .map(([of, digits]): Tree => ({ is: 'round', of, digits })),
    },
  ),
}));

/** With as few parentheses as the order of operations allows, so that the parser must know the order. */
function print(node: Tree, bindingMin: number): string {
  switch (node.is) {
    case 'number':
      return node.text;
    case 'column':
      return columnTexts[node.name] ?? '';
    case 'minus':
      return `-${print(node.of, 3)}`;
    case 'wrapped':
      return `( ${print(node.of, 0)} )`;
    case 'call':
      return `${node.name}(${node.args.map((arg) => print(arg, 0)).join(', ')})`;
    case 'round':
      return `ROUND(${print(node.of, 0)}, ${node.digits})`;
    case 'binary': {
      const binding = '*/'.includes(node.sign) ? 2 : '+-'.includes(node.sign) ? 1 : 0;
      const sign = node.spaced ? ` ${node.sign} ` : node.sign;
      // Comparisons are not chained, so an operand of a comparison needs parentheses if it is a comparison.
      const text = `${print(node.left, Math.max(binding, 1))}${sign}${print(node.right, binding + 1)}`;
      return binding < bindingMin ? `(${text})` : text;
    }
  }
}

interface Fraction {
  over: bigint;
  under: bigint;
}

function fraction(text: string): Fraction {
  const [whole = '', decimals = ''] = text.split('.');
  return { over: BigInt(whole + decimals), under: 10n ** BigInt(decimals.length) };
}

function sameFraction(a: Fraction, b: Fraction): boolean {
  return a.over * b.under === b.over * a.under;
}

function halvesAway(over: bigint, under: bigint): bigint {
  const size = ((over < 0n ? -over : over) * 2n + under) / (under * 2n);
  return over < 0n ? -size : size;
}

/** Rounded to a multiple of 10^-places. */
function toPlaces({ over, under }: Fraction, places: number): Fraction {
  if (places < 0) return { over: halvesAway(over, under * 10n ** BigInt(-places)) * 10n ** BigInt(-places), under: 1n };
  return { over: halvesAway(over * 10n ** BigInt(places), under), under: 10n ** BigInt(places) };
}

function to34Digits({ over, under }: Fraction): Fraction | 'impossible' {
  if (over === 0n) return { over: 0n, under: 1n };
  const size = over < 0n ? -over : over;
  // The exponent of the first digit: size / under is at least 10^exponent and less than ten times that.
  let exponent = size.toString().length - under.toString().length;
  const reaches = (power: number) =>
    power < 0 ? size * 10n ** BigInt(-power) >= under : size >= under * 10n ** BigInt(power);
  if (!reaches(exponent)) exponent -= 1;
  if (exponent > 100) return 'impossible';
  if (exponent < -100) return { over: 0n, under: 1n };
  return toPlaces({ over, under }, 33 - exponent);
}

function oracle(node: Tree, values: Record<string, string>): Fraction | 'impossible' {
  switch (node.is) {
    case 'number':
      return fraction(node.text);
    case 'column':
      return fraction(values[node.name] ?? '');
    case 'wrapped':
      return oracle(node.of, values);
    case 'minus': {
      const of = oracle(node.of, values);
      return of === 'impossible' ? of : { over: -of.over, under: of.under };
    }
    case 'round': {
      const of = oracle(node.of, values);
      return of === 'impossible' ? of : toPlaces(of, node.digits);
    }
    case 'binary':
      return binary(node.sign, oracle(node.left, values), oracle(node.right, values));
    case 'call': {
      const [first, second, third] = node.args;
      if (node.name === 'IF' && first && second && third) {
        const condition = oracle(first, values);
        return condition === 'impossible' ? condition : oracle(condition.over === 0n ? third : second, values);
      }
      const [head = 'impossible', ...tail] = node.args.map((arg) => oracle(arg, values));
      if (node.name === 'ABS') return head === 'impossible' || head.over >= 0n ? head : { ...head, over: -head.over };
      return tail.reduce((result, arg) => {
        if (node.name === 'Sum') return binary('+', result, arg);
        const less = binary('<', arg, result);
        if (less === 'impossible') return less;
        return (less.over === 1n) === (node.name === 'MIN') ? arg : result;
      }, head);
    }
  }
}

function binary(sign: Binary, a: Fraction | 'impossible', b: Fraction | 'impossible'): Fraction | 'impossible' {
  if (a === 'impossible' || b === 'impossible') return 'impossible';
  const difference = a.over * b.under - b.over * a.under;
  const truth = (holds: boolean): Fraction => ({ over: holds ? 1n : 0n, under: 1n });
  switch (sign) {
    case '+':
      return to34Digits({ over: a.over * b.under + b.over * a.under, under: a.under * b.under });
    case '-':
      return to34Digits({ over: difference, under: a.under * b.under });
    case '*':
      return to34Digits({ over: a.over * b.over, under: a.under * b.under });
    case '/': {
      if (b.over === 0n) return 'impossible';
      const positive = b.over > 0n ? 1n : -1n;
      return to34Digits({ over: a.over * b.under * positive, under: a.under * b.over * positive });
    }
    case '=':
      return truth(difference === 0n);
    case '<>':
      return truth(difference !== 0n);
    case '<':
      return truth(difference < 0n);
    case '<=':
      return truth(difference <= 0n);
    case '>':
      return truth(difference > 0n);
    case '>=':
      return truth(difference >= 0n);
  }
}
