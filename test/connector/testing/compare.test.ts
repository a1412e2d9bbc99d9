import { describe, expect, test } from 'vitest';
import { differencesOf } from '#connector/testing/compare.ts';

const document = {
  kind: 'award',
  key: 'e/s',
  event: { id: 'e', name: '1.50' },
  currency: 'KWD',
  total_cost: '12345678901234567890.12',
  lines: [
    {
      lot: 'A',
      quantity: '16',
      unit_price: '12.345',
      values: [
        { column: 'Price', value: '12.345' },
        { column: 'Note', value: 'x' },
      ],
    },
    { lot: 'B', unit_price: '-0.50', values: [] },
  ],
};
const held = (more: object = {}) => ({ currency: 'KWD', ...more });
const line = (more: object) => ({ lot: 'A', ...more });
const both = (...lines: object[]) => held({ lines: lines.length > 0 ? lines : [{ lot: 'B' }, { lot: 'A' }] });

describe('what the ERP holds is equal to the document', () => {
  test.each([
    ['lines are in another order', both()],
    [
      'a decimal has another notation',
      both(line({ quantity: '16.000', unit_price: '012.3450' }), { lot: 'B', unit_price: '-.50'.replace('-.', '-0.') }),
    ],
    ['a member is undefined', both(line({ unit_price: undefined }), { lot: 'B' })],
  ])('when %s', (_what, seen) => {
    expect(differencesOf(seen, document).differences).toEqual([]);
  });
});

describe('what the ERP holds differs from the document', () => {
  test.each([
    [
      'a decimal is rounded',
      both(line({ unit_price: '12.35' }), { lot: 'B' }),
      'lines[A].unit_price: expected "12.345", the ERP holds "12.35"',
    ],
    [
      'a sign is lost',
      both(line({}), { lot: 'B', unit_price: '0.5' }),
      'lines[B].unit_price: expected "-0.50", the ERP holds "0.5"',
    ],
    [
      'a decimal became a number',
      both(line({ quantity: 16 }), { lot: 'B' }),
      'lines[A].quantity: expected "16", the ERP holds 16',
    ],
    ['a line is missing', both(line({})), 'lines[B]: missing in the ERP'],
    [
      'there is an extra line',
      both(line({}), { lot: 'B' }, { lot: 'C' }),
      'lines[C]: not in the document, the ERP holds {"lot":"C"}',
    ],
    [
      'a line exists twice',
      both(line({}), { lot: 'B' }, { lot: 'B' }),
      'lines[B]: not in the document, the ERP holds {"lot":"B"}',
    ],
    [
      'the ERP has a value that the document does not have',
      both(line({}), { lot: 'B', quantity: '1' }),
      'lines[B].quantity: expected nothing, the ERP holds "1"',
    ],
  ])('when %s', (_what, seen, difference) => {
    expect(differencesOf(seen, document).differences).toEqual([difference]);
  });
});

test('the compared texts and decimals are returned separately', () => {
  const { compared } = differencesOf(both(line({ quantity: '16' }), { lot: 'B' }), document);
  expect(compared).toEqual({ texts: ['KWD', 'A', 'B'], decimals: ['16'] });
});
