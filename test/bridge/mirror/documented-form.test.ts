import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { faultOfRecord } from '#bridge/mirror/documented-form.ts';
import { type FeedName, feedNames, feeds } from '#contract/feed.ts';
import type { Written } from '#contract/written.ts';
import type { Complete } from '../../harness/complete-records.ts';
import { idOf } from '../parts.ts';

const bidSheetValues = [{ column_name: 'Price', value: '1.5', currency: 'EUR', more: [1] }];
const ofEvent = { id: idOf(1), sourcing_event: idOf(2).toUpperCase(), sourcing_request: idOf(3) };

/** A record of each feed with every member that a reader knows; the form of one that it forgets would not be compared. */
const records: {
  readonly [Feed in FeedName]: Complete<Omit<Written<(typeof feeds)[Feed]['essentials']>, 'modified'>>;
} = {
  'sourcing-events': {
    id: idOf(1),
    name: 'Chairs',
    reference_id: 'R1',
    type: 'RFQ',
    status: 'OPEN',
    primary_currency: 'EUR',
    secondary_currencies: [{ code: 'USD', exchange_rate: '1.08' }],
    category: 'Furniture',
    columns: [{ name: 'Price' }],
    suppliers: [{ id: idOf(5), name: 'A', external_id: 'SUP-1' }],
    tags: [{ name: 'Region', value: 'EMEA' }],
    is_test: false,
  },
  'latest-bids': {
    ...ofEvent,
    supplier: idOf(5),
    lot_name: 'Lot',
    bids: [{ value: '-12.50', volume: '3' }],
    bid_sheet_values: bidSheetValues,
  },
  awards: {
    ...ofEvent,
    lot_name: 'Lot',
    scenario_name: 'Best',
    awards: [
      {
        supplier: idOf(5),
        share_awarded: '0.6',
        cost: '12',
        savings: '1',
        historic_cost: '13',
        bid_sheet_values: bidSheetValues,
      },
    ],
  },
  'rfi-responses': {
    ...ofEvent,
    id: 7,
    supplier: idOf(5),
    question_uuid: idOf(6),
    value: 'yes',
    selected_options: [{ value: 'yes', satisfies_gating: true }],
    comment: 'of course',
    currency: 'EUR',
    document_file_uuids: [idOf(7)],
  },
};

const odd = fc.oneof(
  fc.constantFrom<unknown>(undefined, null, '', 'text', 5, true, [], {}, [null], ['a'], [[]], '1.', '.5', '1e3', '5\n'),
  fc.string(),
  fc.jsonValue(),
);

/** The value with one member replaced, which `steps` choose; undefined removes it. */
function withOdd(value: unknown, steps: readonly number[], replacement: unknown): unknown {
  if (typeof value !== 'object' || value === null) return replacement;
  const names = Object.keys(value);
  const [step = 0, ...rest] = steps;
  const name = names[step % Math.max(1, names.length)];
  if (name === undefined || steps.length === 0) return replacement;
  const member = withOdd((value as Record<string, unknown>)[name], rest, replacement);
  if (Array.isArray(value)) return value.toSpliced(Number(name), 1, ...(member === undefined ? [] : [member]));
  const copy: Record<string, unknown> = { ...value };
  if (member === undefined) delete copy[name];
  else copy[name] = member;
  return copy;
}

describe.each(feedNames)('a record of %s', (feed) => {
  const whole: Readonly<Record<string, unknown>> = records[feed];
  const { essentials }: { essentials: z.ZodObject } = feeds[feed];
  // When it was made is read elsewhere.
  const schema = essentials.omit({ modified: true });

  test('in its documented form has no fault, and other members change nothing', () => {
    expect(faultOfRecord(feed, whole)).toBeUndefined();
    expect(faultOfRecord(feed, { ...whole, more: { of: 'it' } })).toBeUndefined();
  });

  test('has a fault exactly when the schema finds one, after any change', () => {
    const changes = fc.array(fc.record({ steps: fc.array(fc.nat(30), { minLength: 1, maxLength: 5 }), odd }), {
      minLength: 1,
      maxLength: 2,
    });
    fc.assert(
      fc.property(changes, (given) => {
        const record = given.reduce<unknown>(
          (value, { steps, odd: replacement }) => withOdd(value, steps, replacement),
          whole,
        );
        expect(faultOfRecord(feed, record as Record<string, unknown>) === undefined).toBe(
          schema.safeParse(record).success,
        );
      }),
      { numRuns: 4_000 },
    );
  });
});

test('a fault says where it is and what was expected', () => {
  const whole = records.awards;
  expect(faultOfRecord('awards', { ...whole, awards: [{ ...whole.awards[0], cost: 5 }] })).toMatch(
    /^awards\[0\]\.cost /,
  );
});
