/**
 * Formulas over HTTP that try to run code, to take very long or to nest very deeply: refused with their path, or
 * computed, and in both cases quickly.
 */
import { expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, endedJob, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);
const create = '/api/jobs/create-sourcing-events';

const formulaColumn = (formula: string) => ({ name: 'Computed', column_type: 'FORMULA', formula });

/** A payload whose sheet has these columns beside Volume and Price. */
function payloadWith(columns: readonly object[], cost?: string) {
  const payload = eventPayload({ suppliers: ['S1'] });
  return {
    ...payload,
    ...(cost === undefined ? {} : { primary_cost_calculation: cost }),
    bid_sheet: { ...payload.bid_sheet, columns: [...payload.bid_sheet.columns, ...columns] },
  };
}

async function inGoodTime<T>(work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  const result = await work();
  expect(performance.now() - started).toBeLessThan(8_000);
  return result;
}

const nested = (levels: number, opening: string, closing: string) =>
  `${opening.repeat(levels)}Price${closing.repeat(levels)}`;

const refused: readonly (readonly [what: string, formula: string])[] = [
  ['a call of the process', 'process.exit(1)'],
  ['a call by a name', 'exit(1)'],
  ['a constructor through a member', 'constructor.constructor("return process")()'],
  ['a constructor', 'constructor(1)'],
  ['a prototype', '__proto__'],
  ['the global object', 'globalThis'],
  ['this', 'this'],
  ['an import', "import('node:fs')"],
  ['require', "require('fs')"],
  ['eval', 'eval(1)'],
  ['a template', '`${process.env}`'],
  ['an expression of a template engine with ${}', '${7*7}'],
  ['an expression of a template engine with {{}}', '{{7*7}}'],
  ['an assignment', 'Price = (Volume := 1)'],
  ['an arrow', '(() => 1)()'],
  ['a statement after it', 'Price; process.exit(1)'],
  ['a comment', 'Price // Volume'],
  ['SQL', 'Price) union select current_user --'],
  ['a name with a look-alike letter of another script', 'Рrice * Volume'],
  ['a function with a look-alike letter of another script', 'ЅUM(Price)'],
  ['a name with an invisible character', 'Pri\u200Bce'],
  ['text with reversed direction', 'Price\u202E * 1'],
  ['full-width operators', 'Price ＊ Volume'],
  ['a number with an exponent', 'Price * 1e999'],
  ['hexadecimal', 'Price * 0x10'],
  ['a number of 400 digits', `Price * ${'9'.repeat(400)}`],
  ['a thousand parentheses', nested(1_000, '(', ')')],
  ['a thousand functions', nested(1_000, 'ABS(', ')')],
  ['a thousand branches', nested(1_000, 'IF(1,', ',2)')],
  ['a thousand conditions', nested(1_000, 'IF(', ',1,2)')],
  ['a thousand minus signs and parentheses', nested(1_000, '-(', ')')],
  ['parentheses that do not close', '('.repeat(9_000)],
  ['brackets that do not close', '['.repeat(9_000)],
  ['over a thousand unknown names', Array.from({ length: 1_600 }, (_, index) => `n${index}`).join('+')],
];

test.each(refused)('%s is refused at once, in every member that takes a formula', async (_what, formula) => {
  const event = await createEvent(organisation, eventPayload());
  for (const [path, payload, place] of [
    [create, payloadWith([], formula), 'primary_cost_calculation'],
    [create, payloadWith([formulaColumn(formula)]), 'bid_sheet.columns[2].formula'],
    [
      '/api/jobs/update-sourcing-event',
      { sourcing_event: event, bid_sheet: { columns: payloadWith([formulaColumn(formula)]).bid_sheet.columns } },
      'bid_sheet.columns[2].formula',
    ],
  ] as const) {
    const answer = await inGoodTime(() => organisation.call('POST', path, payload));
    expect([answer.status, answer.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [place]]);
    expect(answer.body.errors[0].message.length).toBeLessThan(400);
  }
  // A cost formula for the event's own columns is checked when the job runs.
  const job = await inGoodTime(() =>
    endedJob(organisation, '/api/jobs/update-sourcing-event', {
      sourcing_event: event,
      primary_cost_calculation: formula,
    }),
  );
  expect([job.status, job.errors.map((error: { path: string }) => error.path)]).toEqual([
    'FAILED',
    ['primary_cost_calculation'],
  ]);
});

/** A formula, and the cost of a lot with a volume of 10 at the given price, worked out by hand. */
const computed: readonly (readonly [what: string, formula: string, price: string, cost: string | undefined])[] = [
  ['a hundred levels', nested(100, '(', ')'), '7', '7'],
  ['ten thousand characters of a sum', `${'Price+'.repeat(1_665)}Price`, '1', '1666'],
  // Each step drops digits after the 34th; this product has none.
  ['a thousand multiplications', `${'Price*'.repeat(1_000)}Price`, '1', '1'],
  ['multiplications that grow beyond the limit', `${'Price*'.repeat(1_000)}Price`, '99', undefined],
  ['divisions that shrink to zero', `Volume${'/Price'.repeat(1_000)}`, '99', '0'],
  ['too many digits', 'ROUND(Price, 1000000000)', '1', undefined],
  ['a fractional number of digits', 'ROUND(Price, 0.5)', '1', undefined],
  ['a division by zero', 'Price / (Volume - 10)', '1', undefined],
  ['a division by zero in a branch that is not taken', 'IF(Volume = 10, Price, Price / 0)', '3', '3'],
  ['ten thousand minus signs', `${'-'.repeat(9_990)}Price`, '5', '5'],
];

test.each(computed)(
  '%s is computed for a bid, or leaves it incomplete, quickly',
  async (_what, formula, price, cost) => {
    const event = await inGoodTime(() => createEvent(organisation, payloadWith([formulaColumn(formula)], 'Computed')));
    await desk(organisation, 'POST', `${event}/publish`);
    const submitted = await inGoodTime(() =>
      desk(organisation, 'POST', `${event}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: price } }] }),
    );
    expect([submitted.complete, submitted.incomplete.length]).toEqual(cost === undefined ? [0, 1] : [1, 0]);
    expect((await readEvent(organisation, event)).bids[0].cost).toBe(cost ?? null);
  },
);

test('columns may have the names of members that every object has', async () => {
  const names = [
    'constructor',
    'toString',
    'hasOwnProperty',
    'process',
    'valueOf',
    '__defineGetter__',
    'then',
    'IF',
    '$&',
    'a]b',
  ];
  const columns = names.map((name) => ({
    name,
    column_type: 'INPUT',
    input_by: 'SUPPLIER_INPUT',
    input_type: 'NUMBER',
  }));
  const cost = names.map((name) => `[${name.replaceAll(']', ']]')}]`).join(' + ');
  const event = await createEvent(organisation, payloadWith(columns, cost));
  await desk(organisation, 'POST', `${event}/publish`);
  const values = Object.fromEntries(names.map((name, index) => [name, String(index)]));
  const submitted = await desk(organisation, 'POST', `${event}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values }] });
  expect(submitted).toMatchObject({ complete: 1, incomplete: [] });
  // 0 + 1 + ... + 9
  expect((await readEvent(organisation, event)).bids[0]).toMatchObject({ cost: '45', values });
  const unnamed = await desk(organisation, 'POST', `${await openEvent(columns.slice(1), 'Price')}/bids`, {
    supplier: 'S1',
    lots: [{ lot: 'A', values: { Price: '1' } }],
  });
  expect(unnamed.complete).toBe(1);
});

async function openEvent(columns: readonly object[], cost: string): Promise<string> {
  const event = await createEvent(organisation, payloadWith(columns, cost));
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

test('a circle through four hundred columns is refused at once', async () => {
  const columns = Array.from({ length: 400 }, (_, index) => ({
    name: `c${index}`,
    column_type: 'FORMULA',
    formula: Array.from({ length: 400 }, (_each, other) => `c${other}`).join('+'),
  }));
  const answer = await inGoodTime(() => organisation.call('POST', create, payloadWith(columns)));
  expect(answer.status).toBe(400);
  expect(answer.body.errors[0].path).toMatch(/^bid_sheet\.columns/);
});

test('formulas that would take too long for all lots are refused before there is a bid', async () => {
  const payload = payloadWith([formulaColumn(`${'Price*Price/'.repeat(830)}Price`)], 'Computed');
  const lots = Array.from({ length: 2_000 }, (_, index) => ({ name: `Lot ${index}` }));
  const answer = await inGoodTime(() =>
    organisation.call('POST', create, { ...payload, bid_sheet: { ...payload.bid_sheet, lots } }),
  );
  expect([answer.status, answer.body.errors[0].path]).toEqual([400, 'bid_sheet.columns']);
});

test('no code of a formula has run', () => {
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(process.exitCode).toBeUndefined();
});
