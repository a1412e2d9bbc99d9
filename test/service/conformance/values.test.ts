/** Decisions, "Values": decimals of shares, negative values, and bids without lots. */
import { describe, expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, endedJob, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);

const call = (event: string, method: string, path: string, body: object) =>
  organisation.call(method, `/desk/events/${event}/${path}`, body);
const outcome = (answer: { status: number; body: { errors?: { path: string }[] } }) => [
  answer.status,
  answer.body.errors?.map(({ path }) => path),
];

const base = eventPayload({ lots: ['A', 'B'], suppliers: ['S1'] });
const supplier = { column_type: 'INPUT', input_by: 'SUPPLIER_INPUT' };
const buyer = { column_type: 'INPUT', input_by: 'BUYER_INPUT' };
/** Columns of every side, type and scope, all of them with or without negative values. */
const columnsWith = (more: object) => [
  ...base.bid_sheet.columns.map((column) => ({ ...column, ...more })),
  { name: 'Days', ...supplier, input_type: 'NUMBER', ...more },
  { name: 'Rebate', ...supplier, input_type: 'CURRENCY', scope: 'EVENT', ...more },
  { name: 'Paid', ...buyer, input_type: 'CURRENCY', ...more },
  { name: 'Index', ...buyer, input_type: 'NUMBER', scope: 'EVENT', ...more },
];
const payloadWith = (more: object, sheet: object = {}) => ({
  ...base,
  primary_cost_calculation: '[Volume] * [Price] + [Rebate]',
  bid_sheet: { ...base.bid_sheet, columns: columnsWith(more), ...sheet },
});
const lots = (values: object) => [{ lot: 'A', values }];

async function openEvent(more: object): Promise<string> {
  const event = await createEvent(organisation, payloadWith(more));
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

/** Negative entries by call, with the path of the fault. */
const entries: [method: string, path: string, body: object, fault: string][] = [
  ['POST', 'bids', { supplier: 'S1', lots: lots({ Price: '-1' }) }, 'lots[0].values.Price'],
  ['POST', 'bids', { supplier: 'S1', lots: lots({ Days: '-0.5' }) }, 'lots[0].values.Days'],
  ['POST', 'bids', { supplier: 'S1', lots: lots({ Price: { value: '-1', currency: 'EUR' } }) }, 'lots[0].values.Price'],
  ['POST', 'bids', { supplier: 'S1', lots: lots({ Price: '1' }), global: { Rebate: '-3' } }, 'global.Rebate'],
  ['PUT', 'buyer-values', { lots: lots({ Paid: '-1' }) }, 'lots[0].values.Paid'],
  ['PUT', 'buyer-values', { global: { Index: '-1' } }, 'global.Index'],
];

describe('a negative value', () => {
  test.each<[string, object]>([
    ['does not say allow_negative', {}],
    ['says allow_negative: false', { allow_negative: false }],
  ])("in a bid, the buyer's values or an edit is 400 with its path when the column %s", async (_what, more) => {
    const event = await openEvent(more);
    const before = await readEvent(organisation, event);
    for (const [method, path, body, fault] of entries)
      expect(outcome(await call(event, method, path, body))).toEqual([400, [fault]]);
    await desk(organisation, 'POST', `${event}/rounds/1/close`);
    for (const [method, path, body, fault] of entries.filter(([, path]) => path === 'bids'))
      expect([method, ...outcome(await call(event, 'PATCH', path, body))]).toEqual([method, 400, [fault]]);
    const after = await readEvent(organisation, event);
    expect([after.bids, after.lots, after.global_values]).toEqual([before.bids, before.lots, before.global_values]);
  });

  test('is taken where the column says allow_negative, and the computed cost may be negative', async () => {
    const event = await openEvent({ allow_negative: true });
    for (const [method, path, body] of entries)
      expect([path, (await call(event, method, path, body)).status]).toEqual([path, 200]);
    const { bids, columns } = await readEvent(organisation, event);
    // 10 * 1 - 3, after the last bid.
    expect(bids).toMatchObject([{ lot: 'A', cost: '7' }]);
    expect(columns).toHaveLength(6);
    expect(columns.every((column: { allow_negative: boolean }) => column.allow_negative)).toBe(true);
    await desk(organisation, 'POST', `${event}/rounds/1/close`);
    const edit = { supplier: 'S1', lots: lots({ Price: '-2' }) };
    expect((await call(event, 'PATCH', 'bids', edit)).status).toBe(200);
    // 10 * -2 - 3.
    expect((await readEvent(organisation, event)).bids).toMatchObject([{ cost: '-23' }]);
    const { body } = await organisation.call('GET', `/api/feeds/latest-bids?sourcing_event=${event}&include=columns`);
    expect(body.data).toMatchObject([{ bids: [{ value: '-23' }] }]);
    expect(body.includes.columns).toMatchObject(columnsWith({ allow_negative: true }));
  });

  test('of the buyer in an event payload is 400 with its path, and makes no event', async () => {
    for (const [sheet, fault] of [
      [{ lots: [{ name: 'A', values: [{ column: 'Paid', value: '-1' }] }] }, 'bid_sheet.lots[0].values[0]'],
      [{ global_values: [{ column: 'Index', value: '-1' }] }, 'bid_sheet.global_values[0]'],
    ] as const) {
      const jobs = '/api/jobs/create-sourcing-events';
      expect(outcome(await organisation.call('POST', jobs, payloadWith({}, sheet)))).toEqual([400, [fault]]);
      expect((await endedJob(organisation, jobs, payloadWith({ allow_negative: true }, sheet))).status).toBe(
        'COMPLETED',
      );
    }
  });

  test('that only the stored columns can show fails the job of an update or an override with its path', async () => {
    const changes = { bid_sheet: { lots: [{ name: 'A', values: [{ column: 'Paid', value: '-1' }] }] } };
    const event = await createEvent(organisation, payloadWith({}));
    const template = await createEvent(organisation, { ...payloadWith({}), settings: { is_template: true } });
    for (const [type, named] of [
      ['update-sourcing-event', { sourcing_event: event }],
      ['create-sourcing-events-from-template', { template }],
    ] as const) {
      const job = await endedJob(organisation, `/api/jobs/${type}`, { ...named, ...changes });
      expect([job.status, job.errors.map(({ path }: { path: string }) => path)]).toEqual([
        'FAILED',
        ['bid_sheet.lots[0].values[0]'],
      ]);
    }
  });

  test('of a Dutch offer is 400 with its path, whatever the columns say', async () => {
    const event = await createEvent(organisation, { ...payloadWith({ allow_negative: true }), event_type: 'DUTCH' });
    await desk(organisation, 'POST', `${event}/publish`);
    for (const [offer, member] of [
      [{ value: '-1', volume: '1' }, 'value'],
      [{ value: '1', volume: '-1' }, 'volume'],
    ] as const) {
      const answer = await call(event, 'POST', 'bids', { supplier: 'S1', lots: [{ lot: 'A', offers: [offer] }] });
      expect(outcome(answer)).toEqual([400, [`lots[0].offers[0].${member}`]]);
    }
  });

  test('of a target_price is 400 with its path; 0 is none', async () => {
    const create = (price: string) =>
      organisation.call('POST', '/api/jobs/create-sourcing-requests', {
        name: 'x',
        items: [{ name: 'a', target_price: price }],
      });
    expect(outcome(await create('-0.01'))).toEqual([400, ['items[0].target_price']]);
    expect([(await create('0')).status, (await create('-0')).status]).toEqual([202, 202]);
  });
});

describe('an event that was stored before columns could say allow_negative', () => {
  /** An event as an earlier version has stored it, with a negative value of the buyer and a negative bid. */
  async function oldEvent(): Promise<string> {
    const event = await openEvent({ allow_negative: true });
    const paid = { lots: lots({ Paid: '-1' }) };
    await desk(organisation, 'PUT', `${event}/buyer-values`, paid);
    const bid = { supplier: 'S1', lots: lots({ Price: '-1' }), global: { Rebate: '0' } };
    await desk(organisation, 'POST', `${event}/bids`, bid);
    await service.db.database.query(
      `update service.sourcing_events
       set columns = (select jsonb_agg(value - 'allow_negative') from jsonb_array_elements(columns)) where id = $1`,
      [event],
    );
    return event;
  }

  test('shows its columns with allow_negative: false, and takes no further negative value', async () => {
    const event = await oldEvent();
    const { columns } = await readEvent(organisation, event);
    expect(columns).toMatchObject(columnsWith({ allow_negative: false }));
    const { body } = await organisation.call('GET', `/api/feeds/latest-bids?sourcing_event=${event}&include=columns`);
    expect(body.includes.columns).toMatchObject(columnsWith({ allow_negative: false }));
    const bid = { supplier: 'S1', lots: lots({ Price: '-2' }) };
    expect(outcome(await call(event, 'POST', 'bids', bid))).toEqual([400, ['lots[0].values.Price']]);
  });

  test.each(['OPEN', 'DRAFT'])(
    'can be updated while it is %s, with its columns as a client knows them, and keeps its bids',
    async (status) => {
      const event = await oldEvent();
      if (status === 'DRAFT') await desk(organisation, 'POST', `${event}/unpublish`);
      const update = { sourcing_event: event, description: 'new', bid_sheet: { columns: columnsWith({}) } };
      const job = await endedJob(organisation, '/api/jobs/update-sourcing-event', update);
      expect([job.status, job.errors]).toEqual(['COMPLETED', undefined]);
      const after = await readEvent(organisation, event);
      expect(after).toMatchObject({ description: 'new', bids: [{ cost: '-10', withdrawn: false }] });
      expect(after.lots[0].values.Paid).toBe('-1');
    },
  );
});

describe('the share of an award', () => {
  test.each(['0.12345678901', '0.00000000000', '1.00000000000'])(
    '%s has more than 10 decimals: 400 with its path, and the refusal says "at most 10 decimals"',
    async (share) => {
      const event = await openEvent({});
      const bid = { supplier: 'S1', lots: lots({ Price: '1' }), global: { Rebate: '0' } };
      await desk(organisation, 'POST', `${event}/bids`, bid);
      const save = (share_awarded: string) =>
        call(event, 'PUT', 'scenarios/best', { awards: [{ lot: 'A', supplier: 'S1', share_awarded }] });
      const refused = await save(share);
      expect(outcome(refused)).toEqual([400, ['awards[0].share_awarded']]);
      expect(refused.body.errors[0].message).toContain('at most 10 decimals');
      // One decimal less.
      expect((await save(share.slice(0, -1))).status).toBe(200);
    },
  );
});

describe('a bid without lots', () => {
  test.each<[string, object]>([
    ['missing', {}],
    ['missing, beside global', { global: { Rebate: '1' } }],
    ['empty', { lots: [] }],
    ['empty, beside global', { lots: [], global: { Rebate: '1' } }],
  ])('%s: a bid and an edit are 400 with the path lots, and nothing is stored', async (_what, body) => {
    const event = await openEvent({});
    const standing = { supplier: 'S1', lots: lots({ Price: '1' }), global: { Rebate: '0' } };
    await desk(organisation, 'POST', `${event}/bids`, standing);
    const { bids, suppliers } = await readEvent(organisation, event);
    expect(outcome(await call(event, 'POST', 'bids', { supplier: 'S1', ...body }))).toEqual([400, ['lots']]);
    await desk(organisation, 'POST', `${event}/rounds/1/close`);
    expect(outcome(await call(event, 'PATCH', 'bids', { supplier: 'S1', ...body }))).toEqual([400, ['lots']]);
    expect(await readEvent(organisation, event)).toMatchObject({ bids, suppliers });
  });
});
