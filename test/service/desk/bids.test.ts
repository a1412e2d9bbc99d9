/** Bids, withdrawals, the buyer's edits and the buyer's values: what is stored, and what the feed then shows. */
import { describe, expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, eventPayload, readEvent, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1', 'S2', 'S3']);

type Values = Record<string, string | { value: string; currency: string }>;
interface LotEntry {
  lot: string;
  values?: Values;
  offers?: { value: string; volume: string }[];
}

const send = (event: string, method: string, path: string, body: object = {}) =>
  organisation.call(method, `/desk/events/${event}${path}`, body);
const submit = (event: string, supplier: string, lots: LotEntry[], global: Values = {}) =>
  send(event, 'POST', '/bids', { supplier, lots, global });

async function published(payload: object = {}): Promise<string> {
  const base = eventPayload({ lots: ['A', 'B'], suppliers: ['S1', 'S2'] });
  const event = await createEvent(organisation, { ...base, ...payload });
  await desk(organisation, 'POST', `${event}/publish`);
  return event;
}

/** The feed's records of an event, by supplier and lot, with their `modified`. */
async function feed(event: string) {
  const records = await readWholeFeed(organisation, 'latest-bids', `page_size=1000&sourcing_event=${event}`);
  const { suppliers } = await readEvent(organisation, event);
  const names = new Map<string, string>(
    suppliers.map((one: { id: string; external_id: string }) => [one.id, one.external_id]),
  );
  return Object.fromEntries(records.map((one) => [`${names.get(one.supplier)} ${one.lot_name}`, one]));
}

async function liveBids(event: string) {
  const { bids } = await readEvent(organisation, event);
  return Object.fromEntries(bids.map((one: { supplier: string; lot: string }) => [`${one.supplier} ${one.lot}`, one]));
}

const closeRound = (event: string) => desk(organisation, 'POST', `${event}/rounds/1/close`);
const reopenRound = (event: string) => desk(organisation, 'POST', `${event}/rounds/1/reopen`);
const outcome = (answer: { status: number; body: { errors?: { path: string; message: string }[] } }) => [
  answer.status,
  answer.body.errors?.[0]?.path,
];

describe('a Dutch auction', () => {
  const dutch = (changes: object = {}) => {
    const { primary_cost_calculation: _none, ...payload } = eventPayload({ lots: ['A', 'B'], suppliers: ['S1', 'S2'] });
    return createEvent(organisation, { ...payload, event_type: 'DUTCH', ...changes });
  };
  const open = async (changes: object = {}) => {
    const event = await dutch(changes);
    await desk(organisation, 'POST', `${event}/publish`);
    return event;
  };
  const twoVolumes = [
    { value: '5.00', volume: '1000' },
    { value: '5.50', volume: '100' },
  ];

  test('needs no cost calculation to be published, and shows volumes and prices as they were entered', async () => {
    const event = await open();
    const answer = await submit(event, 'S1', [{ lot: 'A', values: { Price: '5.25' }, offers: twoVolumes }]);
    expect(answer.body).toEqual({ supplier: 'S1', complete: 1, incomplete: [] });
    const { 'S1 A': record } = await feed(event);
    expect(record).toMatchObject({
      bids: twoVolumes,
      bid_sheet_values: [
        { column_name: 'Volume', value: '10' },
        { column_name: 'Price', value: '5.25' },
      ],
    });
    // 5 * 1000 + 5.5 * 100
    expect((await liveBids(event))['S1 A']).toMatchObject({ cost: '5550', offers: twoVolumes });
  });

  test('later offers replace the earlier ones; values without offers leave them', async () => {
    const event = await open();
    await submit(event, 'S1', [{ lot: 'A', offers: twoVolumes }]);
    const { 'S1 A': first } = await feed(event);
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '1' } }]);
    expect((await feed(event))['S1 A']).toMatchObject({
      id: first.id,
      bids: twoVolumes,
      bid_sheet_values: [{ column_name: 'Volume' }, { column_name: 'Price', value: '1' }],
    });
    await submit(event, 'S1', [{ lot: 'A', offers: [{ value: '4', volume: '7' }] }]);
    expect((await feed(event))['S1 A']).toMatchObject({
      id: first.id,
      bids: [{ value: '4', volume: '7' }],
      bid_sheet_values: [{ column_name: 'Volume' }, { column_name: 'Price', value: '1' }],
    });
  });

  test('a lot without an offer is incomplete: it is named, stored as a draft, and has no record', async () => {
    const event = await open();
    const answer = await submit(event, 'S1', [
      { lot: 'A', values: { Price: '1' } },
      { lot: 'B', offers: [{ value: '2', volume: '3' }] },
    ]);
    expect(answer.body).toMatchObject({
      complete: 1,
      incomplete: [{ lot: 'A', reason: expect.stringContaining('offer') }],
    });
    expect(Object.keys(await feed(event))).toEqual(['S1 B']);
    expect((await liveBids(event))['S1 A']).toMatchObject({ draft: { Price: '1' }, values: null, cost: null });
    // The values that were entered before are kept.
    await submit(event, 'S1', [{ lot: 'A', offers: [{ value: '2', volume: '3' }] }]);
    expect((await feed(event))['S1 A'].bid_sheet_values).toContainEqual({ column_name: 'Price', value: '1' });
  });

  test.each<[string, object[], string]>([
    ['a volume of zero', [{ value: '1', volume: '0' }], 'lots[0].offers[0].volume'],
    ['a negative volume', [{ value: '1', volume: '-1' }], 'lots[0].offers[0].volume'],
    ['a negative price', [{ value: '-1', volume: '1' }], 'lots[0].offers[0].value'],
    [
      'a volume twice',
      [
        { value: '1', volume: '10' },
        { value: '2', volume: '10.0' },
      ],
      'lots[0].offers[1].volume',
    ],
    ['no offer in the list', [], 'lots[0].offers'],
    ['a number for a decimal', [{ value: 1, volume: '1' }], 'lots[0].offers[0].value'],
    ['an offer without volume', [{ value: '1' }], 'lots[0].offers[0].volume'],
  ])('%s is refused with the path of the fault, and nothing is stored', async (_what, offers, path) => {
    const event = await open();
    expect(outcome(await submit(event, 'S1', [{ lot: 'A', offers: offers as never }]))).toEqual([400, path]);
    expect(await liveBids(event)).toEqual({});
  });

  test('is awarded with the share of the sum of its offers', async () => {
    const event = await open();
    await submit(event, 'S1', [{ lot: 'A', offers: twoVolumes }]);
    await desk(organisation, 'PUT', `${event}/scenarios/s`, {
      awards: [{ lot: 'A', supplier: 'S1', share_awarded: '0.5' }],
    });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 's' });
    await desk(organisation, 'POST', `${event}/close`);
    const records = await readWholeFeed(organisation, 'awards', `sourcing_event=${event}`);
    expect(records.find((one) => one.lot_name === 'A').awards).toMatchObject([{ share_awarded: '0.5', cost: '2775' }]);
  });
});

test.each(['RFQ', 'ENGLISH'])(
  'an event of type %s shows one bid with the primary cost, and takes no offers',
  async (type) => {
    const event = await published({ event_type: type });
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '2.50' } }]);
    expect((await feed(event))['S1 A'].bids).toEqual([{ value: '25' }]);
    const offers = [{ value: '1', volume: '1' }];
    expect(
      outcome(
        await submit(event, 'S1', [
          { lot: 'A', values: {} },
          { lot: 'B', offers },
        ]),
      ),
    ).toEqual([400, 'lots[1].offers']);
  },
);

describe('a value in a secondary currency', () => {
  test('is shown with its currency, and its cost is in the primary currency', async () => {
    const event = await published({ secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }] });
    const price = { value: '2.50', currency: 'USD' };
    await submit(event, 'S1', [{ lot: 'A', values: { Price: price } }]);
    // 10 * 2.50 * 0.9
    expect((await feed(event))['S1 A']).toMatchObject({
      bids: [{ value: '22.5' }],
      bid_sheet_values: [
        { column_name: 'Volume', value: '10' },
        { column_name: 'Price', ...price },
      ],
    });
  });
});

describe('a submission that the state refuses', () => {
  test('changes nothing: no bid, no invitation, no feed', async () => {
    const event = await published();
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '1' } }]);
    await closeRound(event);
    const [live, shown] = [await readEvent(organisation, event), await feed(event)];
    const outbox = await service.db.database.query('select count(*)::int from service.deliveries');
    for (const supplier of ['S1', 'S2'])
      expect((await submit(event, supplier, [{ lot: 'A', values: { Price: '2' } }])).status).toBe(409);
    expect(await readEvent(organisation, event)).toEqual(live);
    expect(await feed(event)).toEqual(shown);
    expect(await service.db.database.query('select count(*)::int from service.deliveries')).toEqual(outbox);
  });
});

describe('withdrawing', () => {
  const withdraw = (event: string, supplier: string, lots: string[]) =>
    send(event, 'POST', '/bids/withdraw', { supplier, lots });

  async function reopened(): Promise<string> {
    const event = await published();
    await submit(event, 'S1', [
      { lot: 'A', values: { Price: '1' } },
      { lot: 'B', values: { Price: '2' } },
    ]);
    await submit(event, 'S2', [{ lot: 'A', values: { Price: '3' } }]);
    await closeRound(event);
    await reopenRound(event);
    return event;
  }

  test('keeps the record and its id, without bids and values, and changes no other record', async () => {
    const event = await reopened();
    const before = await feed(event);
    const answer = await withdraw(event, 'S1', ['A']);
    expect([answer.status, answer.body]).toEqual([200, { supplier: 'S1', withdrawn: ['A'], unawarded: [] }]);
    const after = await feed(event);
    const { id, sourcing_event, supplier, lot_name } = before['S1 A'];
    expect(after['S1 A']).toEqual({
      id,
      sourcing_event,
      supplier,
      lot_name,
      bids: [],
      bid_sheet_values: [],
      modified: expect.any(String),
    });
    expect(after['S1 A'].modified > before['S1 A'].modified).toBe(true);
    expect([after['S1 B'], after['S2 A']]).toEqual([before['S1 B'], before['S2 A']]);
    expect((await liveBids(event))['S1 A']).toMatchObject({ withdrawn: true, values: null, cost: null, draft: null });
  });

  test('is still shown in the feed after a round or the event has closed, and after an incomplete bid', async () => {
    const event = await reopened();
    await withdraw(event, 'S1', ['A']);
    const { 'S1 A': record } = await feed(event);
    await submit(event, 'S1', [{ lot: 'A' }]);
    expect((await liveBids(event))['S1 A']).toMatchObject({ withdrawn: true, draft: {} });
    await closeRound(event);
    await desk(organisation, 'POST', `${event}/close`);
    expect((await feed(event))['S1 A']).toEqual(record);
  });

  test('a new bid after it has the same id, and none of the old values', async () => {
    const event = await reopened();
    const { 'S1 A': before } = await feed(event);
    await withdraw(event, 'S1', ['A']);
    expect((await submit(event, 'S1', [{ lot: 'A' }])).body.incomplete).toMatchObject([{ lot: 'A' }]);
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '4' } }]);
    expect((await feed(event))['S1 A']).toMatchObject({ id: before.id, bids: [{ value: '40' }] });
    expect((await liveBids(event))['S1 A']).toMatchObject({ withdrawn: false });
  });

  test('removes its awards from scenarios and names them; an award needs a new bid first', async () => {
    const event = await reopened();
    const awards = [
      { lot: 'A', supplier: 'S1', share_awarded: '0.5' },
      { lot: 'A', supplier: 'S2', share_awarded: '0.5' },
      { lot: 'B', supplier: 'S1', share_awarded: '1' },
    ];
    for (const name of ['x', 'y']) await desk(organisation, 'PUT', `${event}/scenarios/${name}`, { awards });
    await desk(organisation, 'POST', `${event}/award`, { scenario: 'x' });
    expect((await withdraw(event, 'S1', ['A'])).body.unawarded).toEqual([
      { scenario: 'x', lot: 'A' },
      { scenario: 'y', lot: 'A' },
    ]);
    const { scenarios } = await readEvent(organisation, event);
    expect(scenarios[0].awards).toEqual(awards.slice(1));
    expect(outcome(await send(event, 'PUT', '/scenarios/x', { awards }))).toEqual([400, 'awards[0].supplier']);
    await desk(organisation, 'POST', `${event}/close`);
    const records = await readWholeFeed(organisation, 'awards', `sourcing_event=${event}`);
    const [a, b] = ['A', 'B'].map((lot) => records.find((one) => one.lot_name === lot));
    // 0.5 * 10 * 3, and 10 * 2.
    expect(a.awards).toMatchObject([{ share_awarded: '0.5', cost: '15' }]);
    expect(b.awards).toMatchObject([{ share_awarded: '1', cost: '20' }]);
  });

  test.each<[string, string, string[], [number, string | undefined]]>([
    ['a lot that does not exist', 'S1', ['A', 'Z'], [400, 'lots[1]']],
    ['a lot twice', 'S1', ['A', 'A'], [400, 'lots[1]']],
    ['no lot', 'S1', [], [400, 'lots']],
    ['a lot without a bid', 'S2', ['A', 'B'], [409, 'lots[1]']],
    ['for a supplier that is not invited', 'S3', ['A'], [409, undefined]],
  ])('%s is refused, and nothing is withdrawn', async (_what, supplier, lots, expected) => {
    const event = await reopened();
    const before = await feed(event);
    expect(outcome(await withdraw(event, supplier, lots))).toEqual(expected);
    expect(await feed(event)).toEqual(before);
  });

  test('is refused twice, for a draft, and outside of a reopened round', async () => {
    const event = await published();
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '1' } }, { lot: 'B' }]);
    expect((await withdraw(event, 'S1', ['A'])).status).toBe(409);
    await closeRound(event);
    expect((await withdraw(event, 'S1', ['A'])).status).toBe(409);
    await reopenRound(event);
    expect(outcome(await withdraw(event, 'S1', ['B']))).toEqual([409, 'lots[0]']);
    expect((await withdraw(event, 'S1', ['A'])).status).toBe(200);
    expect(outcome(await withdraw(event, 'S1', ['A']))).toEqual([409, 'lots[0]']);
  });

  test('a global value that is entered later does not restore a withdrawn bid', async () => {
    const freight = {
      name: 'Freight',
      column_type: 'INPUT',
      input_by: 'SUPPLIER_INPUT',
      input_type: 'CURRENCY',
      scope: 'EVENT',
    };
    const base = eventPayload({ lots: ['A', 'B'] });
    const event = await published({
      primary_cost_calculation: 'Freight',
      bid_sheet: { ...base.bid_sheet, columns: [...base.bid_sheet.columns, freight] },
    });
    await submit(event, 'S1', [{ lot: 'A' }], { Freight: '1' });
    await closeRound(event);
    await reopenRound(event);
    await withdraw(event, 'S1', ['A']);
    await submit(event, 'S1', [{ lot: 'B' }], { Freight: '2' });
    expect((await feed(event))['S1 A'].bids).toEqual([]);
    await submit(event, 'S1', [{ lot: 'A' }]);
    expect((await feed(event))['S1 A'].bids).toEqual([{ value: '2' }]);
  });
});

describe("the buyer's edit", () => {
  const edit = (event: string, body: object) => send(event, 'PATCH', '/bids', body);

  async function closedRound(payload: object = {}): Promise<string> {
    const event = await published(payload);
    await submit(event, 'S1', [
      { lot: 'A', values: { Price: '1' } },
      { lot: 'B', values: { Price: '2' } },
    ]);
    await closeRound(event);
    return event;
  }

  test('after a round has closed changes its record, and no other', async () => {
    const event = await closedRound();
    const before = await feed(event);
    const answer = await edit(event, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1.50' } }] });
    expect([answer.status, answer.body]).toEqual([200, { supplier: 'S1', edited: ['A'] }]);
    const after = await feed(event);
    expect(after['S1 A']).toMatchObject({ id: before['S1 A'].id, bids: [{ value: '15' }] });
    expect(after['S1 B']).toEqual(before['S1 B']);
  });

  test('may enter the bid of an invited supplier that has not bid', async () => {
    const event = await closedRound();
    await edit(event, { supplier: 'S2', lots: [{ lot: 'B', values: { Price: '9' } }] });
    expect((await feed(event))['S2 B'].bids).toEqual([{ value: '90' }]);
  });

  test('is not possible before a round has closed', async () => {
    const event = await published();
    const answer = await edit(event, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1' } }] });
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringContaining('round')]);
  });

  test.each<[string, object, [number, string | undefined]]>([
    ['of an incomplete bid', { supplier: 'S2', lots: [{ lot: 'A', values: {} }] }, [400, 'lots[0]']],
    [
      "in the buyer's own column",
      { supplier: 'S1', lots: [{ lot: 'A', values: { Volume: '1' } }] },
      [400, 'lots[0].values.Volume'],
    ],
    ['of a lot that does not exist', { supplier: 'S1', lots: [{ lot: 'Z', values: {} }] }, [400, 'lots[0].lot']],
    ['of a supplier that is not invited', { supplier: 'S3', lots: [{ lot: 'A', values: {} }] }, [409, undefined]],
  ])('%s is refused, and nothing is changed', async (_what, body, expected) => {
    const event = await closedRound();
    const before = [await feed(event), await liveBids(event)];
    expect(outcome(await edit(event, body))).toEqual(expected);
    expect([await feed(event), await liveBids(event)]).toEqual(before);
  });

  test("changes the standing bid; the supplier's draft beside it stays a draft, with the edit in it", async () => {
    const columns = [
      ...eventPayload().bid_sheet.columns,
      { name: 'Rebate', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'NUMBER' },
    ];
    const event = await published({
      primary_cost_calculation: '100 / Price + Rebate',
      bid_sheet: { columns, lots: [{ name: 'A' }] },
    });
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '4', Rebate: '1' } }]);
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '0' } }]);
    await closeRound(event);
    await edit(event, { supplier: 'S1', lots: [{ lot: 'A', values: { Rebate: '2' } }] });
    expect((await feed(event))['S1 A'].bids).toEqual([{ value: '27' }]);
    expect((await liveBids(event))['S1 A']).toMatchObject({
      values: { Price: '4', Rebate: '2' },
      draft: { Price: '0', Rebate: '2' },
    });
    const refused = await edit(event, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '0' } }] });
    expect([...outcome(refused), refused.body.errors[0].message]).toEqual([
      400,
      'lots[0]',
      expect.stringContaining('division by zero'),
    ]);
  });
});

describe("the buyer's values", () => {
  const put = (event: string, body: object) => send(event, 'PUT', '/buyer-values', body);

  test('of a lot change the cost of its standing bids, and no feed until its next update', async () => {
    const event = await published();
    for (const supplier of ['S1', 'S2'])
      await submit(event, supplier, [
        { lot: 'A', values: { Price: '1' } },
        { lot: 'B', values: { Price: '2' } },
      ]);
    const before = await feed(event);
    const outbox = await service.db.database.query('select count(*)::int from service.deliveries');
    const answer = await put(event, { lots: [{ lot: 'A', values: { Volume: '20' } }] });
    expect([answer.status, answer.body]).toEqual([200, { lots: 1, recomputed: 2, completed: 0 }]);
    expect(await liveBids(event)).toMatchObject({
      'S1 A': { cost: '20' },
      'S2 A': { cost: '20' },
      'S1 B': { cost: '20' },
    });
    expect(await feed(event)).toEqual(before);
    expect(await service.db.database.query('select count(*)::int from service.deliveries')).toEqual(outbox);
    // A bid of one supplier updates the feed: also the records of the other suppliers' bids.
    await submit(event, 'S2', [{ lot: 'B', values: { Price: '3' } }]);
    const after = await feed(event);
    expect([after['S1 A'], after['S2 A']]).toMatchObject([{ bids: [{ value: '20' }] }, { bids: [{ value: '20' }] }]);
    expect(after['S1 A'].bid_sheet_values).toContainEqual({ column_name: 'Volume', value: '20' });
    expect(after['S1 B']).toEqual(before['S1 B']);
    expect(after['S2 B'].bids).toEqual([{ value: '30' }]);
  });

  test("that change no cost are shown at the feed's next update, too", async () => {
    const columns = [
      ...eventPayload().bid_sheet.columns,
      { name: 'Plant', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT', scope: 'EVENT' },
    ];
    const event = await published({ bid_sheet: { ...eventPayload().bid_sheet, columns } });
    await submit(event, 'S1', [{ lot: 'A', values: { Price: '1' } }]);
    await put(event, { global: { Plant: 'Ulm' } });
    await closeRound(event);
    expect((await feed(event))['S1 A'].bid_sheet_values).toContainEqual({ column_name: 'Plant', value: 'Ulm' });
  });

  test('keep the columns that are not named', async () => {
    const columns = [
      ...eventPayload().bid_sheet.columns,
      { name: 'Item', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'TEXT' },
    ];
    const lots = [
      {
        name: 'A',
        values: [
          { column: 'Item', value: 'X-1' },
          { column: 'Volume', value: '10' },
        ],
      },
    ];
    const event = await published({ bid_sheet: { columns, lots } });
    await put(event, { lots: [{ lot: 'A', values: { Volume: '30' } }] });
    const body = await readEvent(organisation, event);
    expect(body.lots[0].values).toEqual({ Item: 'X-1', Volume: '30' });
  });

  test('that leave a bid without a cost are refused with lot, supplier and reason, and none is stored', async () => {
    const event = await published({ primary_cost_calculation: '100 / [Volume] + [Price]' });
    await submit(event, 'S2', [{ lot: 'B', values: { Price: '1' } }]);
    const before = await readEvent(organisation, event);
    const answer = await put(event, {
      lots: [
        { lot: 'A', values: { Volume: '0' } },
        { lot: 'B', values: { Volume: '0' } },
      ],
    });
    expect(outcome(answer)).toEqual([409, 'lots[1]']);
    for (const part of ['"S2"', '"B"', 'division by zero']) expect(answer.body.errors[0].message).toContain(part);
    expect(await readEvent(organisation, event)).toEqual(before);
  });

  test('complete a first bid that lacked only them; a draft beside a standing bid stays a draft', async () => {
    const base = eventPayload({ lots: ['A', 'B'] });
    const event = await published({
      primary_cost_calculation: '100 / [Volume] + [Price]',
      bid_sheet: {
        ...base.bid_sheet,
        lots: [{ name: 'A' }, { name: 'B', values: [{ column: 'Volume', value: '4' }] }],
      },
    });
    expect((await submit(event, 'S1', [{ lot: 'A', values: { Price: '1' } }])).body.incomplete).toMatchObject([
      { lot: 'A', reason: expect.stringContaining('Volume') },
    ]);
    expect((await put(event, { lots: [{ lot: 'A', values: { Volume: '50' } }] })).body).toEqual({
      lots: 1,
      recomputed: 0,
      completed: 1,
    });
    expect((await liveBids(event))['S1 A']).toMatchObject({ cost: '3', draft: null });
    expect(await feed(event)).toEqual({});
    await closeRound(event);
    expect((await feed(event))['S1 A'].bids).toEqual([{ value: '3' }]);
  });

  test.each<[string, object, string]>([
    ['for a lot that does not exist', { lots: [{ lot: 'Z', values: {} }] }, 'lots[0].lot'],
    ['for a lot twice', { lots: [{ lot: 'A' }, { lot: 'A' }] }, 'lots[1].lot'],
    ["in a supplier's column", { lots: [{ lot: 'A', values: { Price: '1' } }] }, 'lots[0].values.Price'],
    ['with too many decimals', { lots: [{ lot: 'A', values: { Volume: '1.5' } }] }, 'lots[0].values.Volume'],
    ["a lot's value for the whole event", { global: { Volume: '1' } }, 'global.Volume'],
    ['with an unknown field', { lots: [{ lot: 'A', value: '1' }] }, 'lots[0].value'],
  ])('%s are refused with the path of the fault', async (_what, body, path) => {
    expect(outcome(await put(await published(), body))).toEqual([400, path]);
  });
});

describe('a formula that tries to do more than compute', () => {
  const job = (changes: object) =>
    organisation.call('POST', '/api/jobs/create-sourcing-events', { ...eventPayload(), ...changes });

  test.each<[string, string]>([
    ['runs code', 'constructor.constructor("return process")()'],
    ['calls an unknown function', 'eval([Price])'],
    ['accesses the process', 'process.exit(1)'],
    ['nests a thousand deep', `${'('.repeat(1_000)}Price${')'.repeat(1_000)}`],
    ['nests a thousand calls', `${'ABS('.repeat(1_000)}Price${')'.repeat(1_000)}`],
    ['never ends', '('.repeat(10_000)],
    ['raises to powers', 'Price ** Price'],
  ])('one that %s is refused without a job', async (_what, formula) => {
    const answer = await job({ primary_cost_calculation: formula });
    expect(outcome(answer)).toEqual([400, 'primary_cost_calculation']);
  });

  test('one that would take too long over all lots is refused without a job', async () => {
    const { bid_sheet: sheet } = eventPayload({ lots: Array.from({ length: 1_000 }, (_, index) => `${index}`) });
    const answer = await job({ bid_sheet: sheet, primary_cost_calculation: `${'Price+'.repeat(1_600)}1` });
    expect(outcome(answer)).toEqual([400, 'bid_sheet.columns']);
  });

  test('one that divides by zero or grows beyond the limit fails that bid, and names the place', async () => {
    const event = await published({
      primary_cost_calculation: '100 / Price + Price * Price * Price * Price * Price * Price',
    });
    const answer = await submit(event, 'S1', [
      { lot: 'A', values: { Price: '0' } },
      { lot: 'B', values: { Price: '99999999999999999999' } },
    ]);
    expect(answer.body).toMatchObject({
      complete: 0,
      incomplete: [
        { lot: 'A', reason: 'division by zero: Price is 0' },
        { lot: 'B', reason: expect.stringContaining('beyond 10^100') },
      ],
    });
  });
});

test("another organisation's event is not found by any of the commands", async () => {
  const event = await published();
  const other = await service.organisation();
  for (const [method, path, body] of [
    ['POST', '/bids', { supplier: 'S1', lots: [{ lot: 'A' }] }],
    ['PATCH', '/bids', { supplier: 'S1', lots: [{ lot: 'A' }] }],
    ['POST', '/bids/withdraw', { supplier: 'S1', lots: ['A'] }],
    ['PUT', '/buyer-values', {}],
  ] as const)
    expect((await other.call(method, `/desk/events/${event}${path}`, body)).status).toBe(404);
});
