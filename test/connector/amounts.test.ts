/** What a lot of an award is ordered by, where its line does not name both numbers. */
import { expect, test } from 'vitest';
import { awardAmount } from '#connector/amounts.ts';
import { DataError } from '#connector/errors.ts';

test('a line with quantity and unit price is ordered by them', () => {
  expect(awardAmount({ quantity: '3', unit_price: '2.5', cost: '7.5' })).toEqual({ quantity: '3', unitPrice: '2.5' });
});

test('a line without both is one piece at its cost', () => {
  expect(awardAmount({ cost: '1250' })).toEqual({ quantity: '1', unitPrice: '1250' });
});

test.each([
  ['1250', '100', '12.5'],
  ['0.07', '8', '0.00875'],
  ['0', '5', '0'],
])('in a Dutch auction a cost of %s for %s pieces is %s each', (cost, quantity, unitPrice) => {
  expect(awardAmount({ quantity, cost })).toEqual({ quantity, unitPrice });
});

// 1/7 and 100/3 have no end; the digits of 1/7 times 7, cut to 34, would be 1 again.
test.each([
  ['100', '3'],
  ['1', '7'],
  ['10', '0'],
])('a cost of %s for %s pieces is refused, as the price of one has no end', (cost, quantity) => {
  const order = () => awardAmount({ quantity, cost });
  expect(order).toThrow(DataError);
  expect(order).toThrow(/Dutch auction.*without quantity_column and unit_price_column/);
});

test('a unit price without a quantity is refused', () => {
  expect(() => awardAmount({ unit_price: '2', cost: '10' })).toThrow('quantity_column, unit_price_column');
});
