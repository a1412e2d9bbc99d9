import { expect, test } from 'vitest';
import { submitBidRequest } from '#contract/desk.ts';
import { jobRequest } from '#contract/job.ts';
import { questionList } from '#contract/rfi.ts';
import { supplierChangeRequest } from '#contract/supplier.ts';
import { parseLargeInput } from '#platform/bounded-input.ts';
import { AppError } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';

const many = <Item>(count: number, make: (index: number) => Item) => Array.from({ length: count }, (_, at) => make(at));
const values = (count: number, value: unknown) => Object.fromEntries(many(count, (at) => [`c${at}`, value]));
const bid = (lots: unknown[]) => ({ supplier: 'S', lots });
const changes = (suppliers: unknown[]) => ({ change_data: { suppliers } });

function refusalOf(run: () => unknown): AppError {
  try {
    run();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('It was taken.');
}

test.each([
  ['wrong values in many lots', submitBidRequest, bid(many(20_000, () => ({ lot: 'A', values: values(30, 1) })))],
  ['wrong names of many lots', submitBidRequest, bid(many(20_000, () => ({ lot: '', values: {} })))],
  [
    'many wrong contacts',
    supplierChangeRequest,
    changes(many(300, (at) => ({ external_id: `S${at}`, contacts: many(1_000, () => ({})) }))),
  ],
  ['many unknown members', supplierChangeRequest, { change_data: { suppliers: [values(200_000, 1)] } }],
  ['many unknown members of a cell', submitBidRequest, bid([{ lot: 'A', values: { c: values(300_000, 1) } }])],
  ['many wrong questions', questionList, many(5_000, () => ({ options: many(1_000, () => 1) }))],
  [
    'many wrong lots of a job',
    jobRequest,
    { type: 'CREATE_SOURCING_EVENT', name: 'x', bid_sheet: { lots: many(20_000, () => ({ values: [1, 2, 3] })) } },
  ],
])('%s are refused with a hundred faults', (_what, schema, value) => {
  const { code, issues } = refusalOf(() => parseLargeInput(schema, value, 'The body'));
  expect([code, issues.length]).toEqual(['invalid', 100]);
});

test.each([
  ['lots', submitBidRequest, bid(many(20_001, () => 1)), 'lots', 'must have at most 20000 entries'],
  [
    'contacts of one supplier',
    supplierChangeRequest,
    changes([{ external_id: 'S', contacts: many(300_000, () => ({})) }]),
    'change_data.suppliers[0].contacts',
    'must have at most 1000 entries',
  ],
  [
    'names of values',
    submitBidRequest,
    bid([{ lot: 'A', values: values(600_000, 1) }]),
    'lots[0].values',
    'must have at most 500 names',
  ],
])('too many %s are refused by their number alone', (_what, schema, value, path, message) => {
  expect(refusalOf(() => parseLargeInput(schema, value, 'The body')).issues).toEqual([{ path, message }]);
});

test('input with fewer faults is refused, and valid input is read, as by parseInput', () => {
  const valid = bid(many(50, (at) => ({ lot: `L${at}`, values: { Price: '1' } })));
  expect(parseLargeInput(submitBidRequest, valid, 'The body')).toEqual(parseInput(submitBidRequest, valid, ''));
  const wrong = { ...bid([{ lot: 'A', values: { Price: 1 } }, { lot: 'B', offers: [] }, 7]), extra: 1 };
  const [ours, theirs] = [parseLargeInput, parseInput].map((read) =>
    refusalOf(() => read(submitBidRequest, wrong, 'The body')),
  );
  expect(ours?.issues).toEqual(theirs?.issues);
  expect(ours?.publicMessage).toBe(theirs?.publicMessage);
});
