/** Decisions, "Currencies": wherever the service takes a currency, an unknown code is refused with its path. */
import { describe, expect, test } from 'vitest';
import {
  createEvent,
  createSuppliers,
  desk,
  endedJob,
  eventPayload,
  jobEnd,
  readEvent,
} from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);
const jobs = '/api/jobs/create-sourcing-events';

const base = eventPayload({ suppliers: ['S1'] });
const [volume, price] = base.bid_sheet.columns;
const buyerPrice = { name: 'Paid', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'CURRENCY' };
const index = { ...buyerPrice, name: 'Index', scope: 'EVENT' };
const freight = { ...buyerPrice, name: 'Freight', input_by: 'SUPPLIER_INPUT', scope: 'EVENT' };
const columns = [volume, price, buyerPrice, index, freight];
const question = { identifier: '1', question_text: 'How much?', input_type: 'CURRENCY' };

const outcome = (answer: { status: number; body: { errors?: { path: string }[] } }) => [
  answer.status,
  answer.body.errors?.map(({ path }) => path),
];

/** An open event in EUR and USD, with a question. */
async function openEvent(): Promise<string> {
  const event = await createEvent(organisation, {
    ...base,
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
    questions: [question],
    bid_sheet: { ...base.bid_sheet, columns },
  });
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

const unknown = ['XXQ', 'XXX', 'XTS', 'ZZZ', 'DEM', 'eur'];
const members = (code: string): [path: string, changes: object][] => [
  ['primary_currency', { primary_currency: code }],
  ['secondary_currencies[0].code', { secondary_currencies: [{ code, exchange_rate: '2' }] }],
  ['questions[0].currency', { questions: [{ ...question, currency: code }] }],
  [
    'bid_sheet.lots[0].values[0].currency',
    {
      bid_sheet: { columns, lots: [{ name: 'A', values: [{ column: 'Paid', value: '1', currency: code }] }] },
    },
  ],
  [
    'bid_sheet.global_values[0].currency',
    { bid_sheet: { columns, global_values: [{ column: 'Index', value: '1', currency: code }] } },
  ],
];

describe.each(unknown)('the code %s', (code) => {
  test('in an event, an override of a template or an update is 400 with its path, and makes no job', async () => {
    const id = '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10';
    const count = async () => (await organisation.call('GET', '/api/jobs/')).body.count;
    const before = await count();
    for (const [path, changes] of members(code)) {
      expect(outcome(await organisation.call('POST', jobs, { ...base, ...changes }))).toEqual([400, [path]]);
      for (const [type, named] of [
        ['create-sourcing-events-from-template', { template: id }],
        ['update-sourcing-event', { sourcing_event: id }],
      ] as const) {
        const answer = await organisation.call('POST', `/api/jobs/${type}`, { ...named, ...changes });
        expect([type, ...outcome(answer)]).toEqual([type, 400, [path]]);
      }
    }
    expect(await count()).toBe(before);
  });

  test('of an item of a sourcing request is 400 with its path', async () => {
    const items = [
      { name: 'chair', currency: 'XAU' },
      { name: 'desk', currency: code },
    ];
    const answer = await organisation.call('POST', '/api/jobs/create-sourcing-requests', { name: 'x', items });
    expect(outcome(answer)).toEqual([400, ['items[1].currency']]);
  });

  test("in bids, the buyer's values, questions and answers is 400 with its path, and nothing is stored", async () => {
    const event = await openEvent();
    const before = await readEvent(organisation, event);
    const cell = { value: '1', currency: code };
    const calls: [method: string, path: string, body: object, fault: string][] = [
      ['POST', 'bids', { supplier: 'S1', lots: [{ lot: 'A', values: { Price: cell } }] }, 'lots[0].values.Price'],
      ['POST', 'bids', { supplier: 'S1', lots: [{ lot: 'A' }], global: { Freight: cell } }, 'global.Freight'],
      ['PUT', 'buyer-values', { lots: [{ lot: 'A', values: { Paid: cell } }] }, 'lots[0].values.Paid'],
      ['PUT', 'buyer-values', { global: { Index: cell } }, 'global.Index'],
    ];
    for (const [method, path, body, fault] of calls)
      expect(outcome(await organisation.call(method, `/desk/events/${event}/${path}`, body))).toEqual([
        400,
        [`${fault}.currency`],
      ]);
    const asked = await organisation.call('PUT', `/desk/events/${event}/questions`, [{ ...question, currency: code }]);
    expect(outcome(asked)).toEqual([400, ['[0].currency']]);
    const answers = [{ question_uuid: before.questions[0].id, value: '1', currency: code }];
    const answered = await organisation.call('POST', `/desk/events/${event}/answers`, { supplier: 'S1', answers });
    expect(outcome(answered)).toEqual([400, ['answers[0].currency']]);
    await desk(organisation, 'POST', `${event}/rounds/1/close`);
    const edit = { supplier: 'S1', lots: [{ lot: 'A', values: { Price: cell } }] };
    expect(outcome(await organisation.call('PATCH', `/desk/events/${event}/bids`, edit))).toEqual([
      400,
      ['lots[0].values.Price.currency'],
    ]);
    const after = await readEvent(organisation, event);
    expect([after.bids, after.answers, after.lots]).toEqual([before.bids, before.answers, before.lots]);
  });
});

describe('a code that was stored before the rule', () => {
  const store = (sql: string, params: unknown[]) => service.db.database.query(sql, params);

  test('of a job that waits fails the job with the path', async () => {
    const { body } = await organisation.call('POST', jobs, { name: 'ends at once' });
    await jobEnd(organisation, body.id);
    await store(
      `update service.jobs set payload = payload || '{"primary_currency": "XXQ"}', status = 'PENDING' where id = $1`,
      [body.id],
    );
    await endedJob(organisation, jobs, { name: 'wakes the worker' });
    const job = await jobEnd(organisation, body.id);
    expect([job.status, job.errors.map(({ path }: { path: string }) => path)]).toEqual([
      'FAILED',
      ['primary_currency'],
    ]);
  });

  test('of a template fails the job with the path, unless an override replaces it', async () => {
    const template = await createEvent(organisation, { ...base, settings: { is_template: true } });
    await store(`update service.sourcing_events set primary_currency = 'XXQ' where id = $1`, [template]);
    const path = '/api/jobs/create-sourcing-events-from-template';
    const job = await endedJob(organisation, path, { template });
    expect([job.status, job.errors.map((error: { path: string }) => error.path)]).toEqual([
      'FAILED',
      ['primary_currency'],
    ]);
    expect((await endedJob(organisation, path, { template, primary_currency: 'CHF' })).status).toBe('COMPLETED');
  });

  test('of an event does not stop an update of something else, and is shown as it is', async () => {
    const event = await createEvent(organisation, base);
    await store(`update service.sourcing_events set primary_currency = 'XXQ' where id = $1`, [event]);
    const update = { sourcing_event: event, description: 'new' };
    expect((await endedJob(organisation, '/api/jobs/update-sourcing-event', update)).status).toBe('COMPLETED');
    expect(await readEvent(organisation, event)).toMatchObject({ description: 'new', primary_currency: 'XXQ' });
  });
});

test('funds, supranational units and metals are taken as currencies of an event, and in its values', async () => {
  const event = await createEvent(organisation, {
    ...base,
    primary_currency: 'XDR',
    secondary_currencies: ['XAU', 'CLF', 'XOF'].map((code) => ({ code, exchange_rate: '2' })),
  });
  await desk(organisation, 'POST', `${event}/publish`);
  const lots = [{ lot: 'A', values: { Price: { value: '3', currency: 'XAU' } } }];
  await desk(organisation, 'POST', `${event}/bids`, { supplier: 'S1', lots });
  // 10 * 3 XAU * 2.
  expect((await readEvent(organisation, event)).bids).toMatchObject([{ cost: '60' }]);
});
