import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Decimal, formatDecimal, parseDecimal } from '#contract/decimal.ts';
import { type CompiledSheet, checkFormulas, computeLot, type FormulaColumn } from '#service/domain/formula.ts';

const price: FormulaColumn = { name: 'Unit Price', inputType: 'CURRENCY' };
const volume: FormulaColumn = { name: 'Volume', inputType: 'NUMBER' };
const material: FormulaColumn = { name: 'Material', inputType: 'TEXT' };

function computed(name: string, formula: string): FormulaColumn {
  return { name, formula };
}

function compile(columns: readonly FormulaColumn[], primaryCost: string): CompiledSheet {
  const checked = checkFormulas(columns, primaryCost);
  if (!checked.ok) throw new Error(JSON.stringify(checked.issues));
  return checked.sheet;
}

function issues(columns: readonly FormulaColumn[], primaryCost: string) {
  const checked = checkFormulas(columns, primaryCost);
  return checked.ok ? [] : checked.issues;
}

function compute(sheet: CompiledSheet, entered: Record<string, string>) {
  const cells = new Map(Object.entries(entered).map(([name, text]) => [name, parseDecimal(text)]));
  const { values, failures, cost } = computeLot(sheet, (column) => cells.get(column));
  return {
    values: Object.fromEntries([...values].map(([name, value]: [string, Decimal]) => [name, formatDecimal(value)])),
    failures: Object.fromEntries([...failures].map(([name, { reason, message }]) => [name, `${reason}: ${message}`])),
    cost: cost.ok ? formatDecimal(cost.value) : `${cost.reason}: ${cost.message}`,
  };
}

describe('a correct sheet', () => {
  test('formula columns and the primary cost are computed, in any order of the columns', () => {
    const sheet = compile(
      [
        computed('Total', 'Net + Freight'),
        computed('Net', '[Unit Price] * Volume'),
        computed('Freight', 'Volume / 8'),
        price,
        volume,
      ],
      'ROUND(Total, 2)',
    );
    // 2.345 x 10 = 23.45; 10 / 8 = 1.25; together 24.7
    expect(compute(sheet, { 'Unit Price': '2.345', Volume: '10' })).toEqual({
      values: { Net: '23.45', Freight: '1.25', Total: '24.7' },
      failures: {},
      cost: '24.7',
    });
  });

  test('the value of a formula column is used unrounded', () => {
    const sheet = compile([volume, computed('Third', 'Volume / 3')], 'Third * 30000000000');
    // A third shown with 10 decimals would make it 9999999999.
    expect(compute(sheet, { Volume: '1' })).toEqual({
      values: { Third: '0.3333333333' },
      failures: {},
      cost: '10000000000',
    });
  });

  test('names from the object prototype are columns like any other', () => {
    const names = ['__proto__', 'constructor', 'hasOwnProperty'];
    const columns = names.map((name): FormulaColumn => ({ name, inputType: 'NUMBER' }));
    const sheet = compile([...columns, computed('toString', '__proto__ + constructor')], 'hasOwnProperty * toString');
    const entered = new Map(names.map((name) => [name, parseDecimal('3')]));
    const { cost } = computeLot(sheet, (column) => entered.get(column));
    expect(cost.ok && formatDecimal(cost.value)).toBe('18');
    expect(issues([volume], 'constructor')).toEqual([
      { path: 'primary_cost_calculation', message: 'column [constructor] does not exist' },
    ]);
  });

  test('a text column is allowed in a sheet with formulas', () => {
    expect(issues([price, volume, material], '[Unit Price] * Volume')).toEqual([]);
  });

  test('ten thousand columns in one chain are sorted without recursion', () => {
    const columns = Array.from({ length: 10_000 }, (_, index) => computed(`c${index}`, `c${index + 1} + 1`));
    const sheet = compile([...columns, { name: 'c10000', inputType: 'NUMBER' }], 'c0');
    expect(compute(sheet, { c10000: '5' }).cost).toBe('10005');
  });
});

describe('a lot that cannot be computed', () => {
  const sheet = compile(
    [
      price,
      volume,
      computed('Net', '[Unit Price] * Volume'),
      computed('Per Piece', '100 / Volume'),
      computed('Both', 'Net + [Per Piece]'),
    ],
    'Both',
  );

  test('a missing value is named, also when it is needed only indirectly', () => {
    expect(compute(sheet, { Volume: '4' })).toEqual({
      values: { 'Per Piece': '25' },
      failures: {
        Net: 'incomplete: column [Unit Price] has no value',
        Both: 'incomplete: column [Unit Price] has no value',
      },
      cost: 'incomplete: column [Unit Price] has no value',
    });
  });

  test('an impossible computation names the column whose formula it is', () => {
    expect(compute(sheet, { 'Unit Price': '7', Volume: '0' })).toEqual({
      values: { Net: '0' },
      failures: {
        'Per Piece': 'impossible: in column [Per Piece]: division by zero: Volume is 0',
        Both: 'impossible: in column [Per Piece]: division by zero: Volume is 0',
      },
      cost: 'impossible: in column [Per Piece]: division by zero: Volume is 0',
    });
  });

  test('a failure in a column that the cost does not need does not fail the cost', () => {
    const aside = compile([price, volume, computed('Per Piece', '100 / Volume')], '[Unit Price]');
    expect(compute(aside, { 'Unit Price': '7', Volume: '0' }).cost).toBe('7');
    expect(compute(aside, { 'Unit Price': '7' }).cost).toBe('7');
    const branch = compile([price, volume, computed('Per Piece', '100 / Volume')], 'IF(Volume = 0, 1, [Per Piece])');
    expect(compute(branch, { Volume: '0' }).cost).toBe('1');
  });

  test('a value entered for a formula column never replaces its formula', () => {
    const given = { 'Per Piece': '1', 'Unit Price': '7' };
    expect(compute(sheet, { ...given, Volume: '0' }).cost).toMatch(/^impossible: in column \[Per Piece\]/);
    expect(compute(sheet, { ...given, Volume: '5' }).cost).toBe('55');
  });

  test('columns that square each other end with a message about the size', () => {
    const columns = Array.from({ length: 200 }, (_, index) => computed(`c${index + 1}`, `c${index} * c${index}`));
    const squares = compile([{ name: 'c0', inputType: 'NUMBER' }, ...columns], 'c200');
    // 10 squared six times is 10^64; the seventh would be 10^128.
    expect(compute(squares, { c0: '10' }).cost).toBe(
      'impossible: in column [c7]: a number in the formula grows beyond 10^100',
    );
    expect(compute(squares, { c0: '1' }).cost).toBe('1');
  });
});

describe('a sheet that is refused', () => {
  test('every fault is reported with its path', () => {
    expect(
      issues(
        [price, computed('A', '[Unit Price] *'), material, computed('B', 'Colour + 1'), computed('C', 'A + 1')],
        '2 * D',
      ),
    ).toEqual([
      {
        path: 'bid_sheet.columns[1].formula',
        message: "at character 15: expected a number, a column or '(', but the formula ends",
      },
      { path: 'bid_sheet.columns[3].formula', message: 'column [Colour] does not exist' },
      { path: 'primary_cost_calculation', message: 'column [D] does not exist' },
    ]);
  });

  test('a text column is refused in a formula', () => {
    expect(issues([price, material], '[Unit Price] * Material')).toEqual([
      {
        path: 'primary_cost_calculation',
        message: '[Material] cannot be computed with: only NUMBER and CURRENCY columns can',
      },
    ]);
    expect(issues([material, price, computed('A', 'IF(1, [Unit Price], Material)')], 'A')).toMatchObject([
      { path: 'bid_sheet.columns[2].formula' },
    ]);
  });

  test('for a name in the wrong case the message has the right name', () => {
    expect(issues([price, volume], '[unit price] * volume')).toEqual([
      {
        path: 'primary_cost_calculation',
        message: 'columns [unit price], [volume] do not exist; the sheet has [Unit Price], [Volume]',
      },
    ]);
  });

  test('an empty calculation', () => {
    expect(issues([price], ' ')).toEqual([{ path: 'primary_cost_calculation', message: 'the formula is empty' }]);
  });

  test('a column that needs itself', () => {
    expect(issues([computed('A', '1 + A')], 'A')).toEqual([
      { path: 'bid_sheet.columns[0].formula', message: 'column [A] needs itself' },
    ]);
  });

  test('each cycle is reported once, and not for columns that only need one of its columns', () => {
    const columns = [
      computed('Leans', 'A + 1'),
      computed('A', 'B'),
      computed('B', 'IF(1, 2, C)'),
      computed('C', 'A * 2'),
      computed('X', 'Y'),
      computed('Y', 'X'),
      computed('Fine', '1'),
    ];
    expect(issues(columns, 'Leans')).toEqual([
      { path: 'bid_sheet.columns[1].formula', message: 'columns [A], [B], [C] need each other in a circle' },
      { path: 'bid_sheet.columns[4].formula', message: 'columns [X], [Y] need each other in a circle' },
    ]);
  });

  test('a cycle of ten thousand columns is found without recursion', () => {
    const columns = Array.from({ length: 10_000 }, (_, index) => computed(`c${index}`, `c${(index + 1) % 10_000}`));
    expect(issues(columns, '1')).toEqual([
      {
        path: 'bid_sheet.columns[0].formula',
        message: 'columns [c0], [c1], [c2], [c3], [c4] and 9995 more need each other in a circle',
      },
    ]);
  });

  test('thousands of unknown names make one short message', () => {
    const names = Array.from({ length: 1500 }, (_, index) => `n${index}`);
    const [issue, ...others] = issues([price], names.join('+'));
    expect(others).toEqual([]);
    expect(issue?.message).toBe('columns [n0], [n1], [n2], [n3], [n4] and 1495 more do not exist');
  });
});

test('a sheet is accepted exactly when no column can be reached from itself', () => {
  const edges = fc.array(fc.tuple(fc.nat(7), fc.nat(7)), { maxLength: 14 });
  fc.assert(
    fc.property(edges, (pairs) => {
      const needs = Array.from({ length: 8 }, (_, from) =>
        pairs.filter((pair) => pair[0] === from).map((pair) => pair[1]),
      );
      const columns = needs.map((all, index) =>
        computed(`c${index}`, ['1', ...all.map((need) => `c${need}`)].join('+')),
      );
      const checked = checkFormulas(columns, 'c0');
      expect(checked.ok).toBe(!needs.some((_, index) => reaches(needs, index, index)));
      if (!checked.ok) return;
      // The value of a column is 1 plus the values of all columns that it needs.
      const valueOf = (index: number): number => (needs[index] ?? []).reduce((total, need) => total + valueOf(need), 1);
      const { cost } = computeLot(checked.sheet, () => undefined);
      expect(cost.ok && cost.value.toNumber()).toBe(valueOf(0));
    }),
    { numRuns: 1000 },
  );
});

function reaches(needs: readonly (readonly number[])[], from: number, to: number): boolean {
  const waiting = [...(needs[from] ?? [])];
  const seen = new Set<number>();
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    if (at === to) return true;
    if (seen.has(at)) continue;
    seen.add(at);
    waiting.push(...(needs[at] ?? []));
  }
  return false;
}

test('ten thousand lots of a three-operator formula are computed in far less than a second', () => {
  const sheet = compile([price, volume], '[Unit Price] * Volume + 12.5 - Volume / 4');
  const cells = new Map([
    ['Unit Price', parseDecimal('12.3456')],
    ['Volume', parseDecimal('12000')],
  ]);
  const started = performance.now();
  for (let lot = 0; lot < 10_000; lot += 1) computeLot(sheet, (column) => cells.get(column));
  expect(performance.now() - started).toBeLessThan(500);
});

describe('names without brackets', () => {
  const input = (name: string) => ({ name, inputType: 'NUMBER' as const });
  const readings = (names: readonly string[], text: string, options = {}) => {
    const checked = checkFormulas(names.map(input), text, options);
    return checked.ok ? [...(checked.sheet.primaryCost?.columns ?? [])] : checked.issues.map(({ message }) => message);
  };

  test.each([
    [['Unit Price', 'Quantity'], 'Unit Price * Quantity', ['Unit Price', 'Quantity']],
    [['Unit Price', 'Unit Price Net'], 'Unit Price Net - Unit Price', ['Unit Price Net', 'Unit Price']],
    [
      ['Price (EUR)', 'Price/kg', 'kg a year'],
      'Price (EUR) + Price/kg*kg a year',
      ['Price (EUR)', 'Price/kg', 'kg a year'],
    ],
    [['Discount %', 'Price'], 'Price * (1 - Discount % / 100)', ['Price', 'Discount %']],
    [['Unit Price', 'Max'], 'MAX(Unit Price, 2) + Max', ['Unit Price', 'Max']],
    [['Unit Price', 'Volume'], '[Unit Price] * Volume', ['Unit Price', 'Volume']],
    [['2031 Volume'], '2 * 2031 Volume', ['2031 Volume']],
    // An operator is one wherever both sides are columns, as it was before there were names without brackets.
    [['Price', 'kg'], 'Price/kg', ['Price', 'kg']],
  ])('of %j, %j names %j', (names, text, expected) => {
    expect(readings(names, text)).toEqual(expected);
  });

  test.each([
    [['Unit Price'], 'Unit Price * Quantty', 'column [Quantty] does not exist'],
    [['Unit Price'], 'Unit Prices', 'an operator is missing before Prices'],
    [['Unit Price', 'Quantity'], 'Unit Price Quantity', 'at character 12: an operator is missing before Quantity'],
    [['100', 'Price (EUR)'], 'Price (EUR) * 100 + 1 (', 'an operator is missing before ('],
    [[' Price', 'Price '], 'Price', 'column [Price] does not exist'],
  ])('of %j, %j is refused: %s', (names, text, message) => {
    expect(readings(names, text)).toEqual([expect.stringContaining(message)]);
  });

  test('a formula that can be read in two ways is refused with both; brackets decide it', () => {
    const names = ['Price', 'kg', 'Price/kg'];
    expect(readings(names, 'Price/kg')).toEqual([
      'can be read in two ways: over [Price/kg], or over [Price], [kg]; write the names in [brackets]',
    ]);
    expect(readings(names, '[Price/kg]')).toEqual(['Price/kg']);
    expect(readings(names, '[Price]/[kg]')).toEqual(['Price', 'kg']);
  });

  test('a stored formula keeps the meaning that it was created with', () => {
    expect(readings(['Price', 'kg', 'Price/kg'], 'Price/kg', { isStored: true })).toEqual(['Price', 'kg']);
  });

  test('hundreds of long names with a common beginning take no longer than a second', () => {
    const names = ['a', ...Array.from({ length: 499 }, (_, index) => `${'a+'.repeat(45)}${index}`)];
    const started = performance.now();
    expect(readings(names, `${'a+'.repeat(4_999)}a`)).toEqual(['a']);
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});
