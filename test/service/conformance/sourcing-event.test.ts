/** The sourcing event in the feed: every field with its exact value, from the draft to the deletion. */
import { expect, test } from 'vitest';
import { createEvent, desk, readEvent } from '../../harness/sourcing.ts';
import type { AnyRecord } from '../../harness/watch-feeds.ts';
import { at, someUuid, startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { organisation, apiKeyId, supplierIds, contactIds, requests } = conformance;

const input = { column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER' };
const payload = {
  name: 'Chairs 2030',
  description: 'For all offices',
  reference_id: 'PR-17',
  secondary_currencies: [{ code: 'USD', exchange_rate: '0.90' }],
  tags: [
    { name: 'Region', value: 'EMEA' },
    { name: 'Cost Center', value: '' },
  ],
  category: 'Furniture',
  event_contact: { name: 'Eve', email: 'eve@buyer.example' },
  suppliers: [{ external_id: 'S3' }, { external_id: 'S1', contacts: ['BOB@one.example'] }, { external_id: 'S2' }],
  // The first round begins at its own time, the second right after it.
  rounds: [
    { starts: '2030-01-01T02:10:00+02:00', ends: '2030-01-01T00:20:00Z' },
    { ends: '2030-01-01T00:40:00.000000Z' },
  ],
  sourcing_requests: requests,
  primary_cost_calculation: '[Volume] * [Price]',
  bid_sheet: {
    column_roles: { volume: 'Volume' },
    columns: [
      { ...input, name: 'Volume' },
      { ...input, name: 'Price', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
      { name: 'Each', column_type: 'FORMULA', formula: 'Price * 1' },
    ],
    lots: ['A', 'B', 'C'].map((name) => ({ name, values: [{ column: 'Volume', value: '10' }] })),
  },
  settings: { is_test: true },
};

const user = { id: apiKeyId };
const contact = (supplier: string, name: string, email: string) => ({
  id: contactIds[email],
  name,
  email,
  supplier: supplierIds[supplier],
});

/** The record with the fields of the document's table, in its order; null fields are left out. */
const draft = {
  name: 'Chairs 2030',
  reference_id: 'PR-17',
  type: 'RFQ',
  roles: [{ role_type: 'ADMIN', user: [user] }],
  created: at(1),
  created_by: user,
  rounds: [
    { starts: at(10), ends: at(20), status: 'PENDING' },
    { ends: at(40), status: 'PENDING' },
  ],
  event_contact: { name: 'Eve', email: 'eve@buyer.example' },
  status: 'DRAFT',
  columns: [{ name: 'Volume' }, { name: 'Price' }, { name: 'Each' }],
  lot_count: 3,
  scenario_count: 0,
  evaluated_scenario_count: 0,
  is_test: true,
  primary_currency: 'EUR',
  secondary_currencies: [{ code: 'USD', exchange_rate: '0.90' }],
  suppliers: [
    {
      id: supplierIds['S1'],
      name: 'Möbel & Söhne',
      invite_count: 0,
      accepted: false,
      participated: false,
      external_id: 'S1',
      contacts: [contact('S1', 'Bob', 'bob@one.example')],
    },
    {
      id: supplierIds['S2'],
      name: 'Second',
      invite_count: 0,
      accepted: false,
      participated: false,
      external_id: 'S2',
      contacts: [contact('S2', 'Cid', 'cid@two.example')],
    },
    {
      id: supplierIds['S3'],
      name: 'Third',
      invite_count: 0,
      accepted: false,
      participated: false,
      external_id: 'S3',
      contacts: [],
    },
  ],
  tags: payload.tags,
  category: 'Furniture',
  sourcing_requests: [...requests],
  modified: at(1),
};

const withSuppliers = (...changes: object[]) =>
  draft.suppliers.map((supplier, index) => ({ ...supplier, ...changes[index] }));
const command = (event: string, path: string, body: object = {}, method = 'POST') =>
  desk(organisation, method, `${event}/${path}`, body);
const bid = (event: string, supplier: string, prices: Record<string, string | undefined>) =>
  command(event, 'bids', {
    supplier,
    lots: Object.entries(prices).map(([lot, price]) => ({ lot, values: price === undefined ? {} : { Price: price } })),
  });

/** The record that was appended in this minute. */
async function recordOf(event: string, minute: number): Promise<AnyRecord> {
  return conformance.eventRecord(event, ({ modified }) => modified === at(minute));
}

test('the record of an event has exactly these fields, from its draft to its deletion', async () => {
  conformance.moveTo(1);
  const event = await createEvent(organisation, payload);
  expect(event).toMatch(someUuid);
  expect(await recordOf(event, 1)).toEqual({ id: event, ...draft });

  conformance.moveTo(2);
  await command(event, 'publish');
  const invited = { invite_count: 1 };
  const published = {
    ...draft,
    status: 'OPEN',
    published: at(2),
    suppliers: withSuppliers(invited, invited, invited),
    modified: at(2),
  };
  expect(await recordOf(event, 2)).toEqual({ id: event, ...published });

  // The first round is active from minute 10 on. S2 bids on two lots, one of them incomplete.
  conformance.moveTo(12);
  await bid(event, 'S1', { A: '2.50', B: '1.00' });
  conformance.moveTo(13);
  await bid(event, 'S2', { A: '2.00', B: undefined });
  conformance.moveTo(14);
  await command(event, 'invitations', { suppliers: ['S2'] });
  conformance.moveTo(20);
  const taken = (minute: number) => ({
    ...invited,
    accepted: true,
    participated: true,
    last_successful_bid: at(minute),
    last_accessed: at(minute),
  });
  const firstRound = { starts: at(10), ends: at(20), status: 'CLOSED' };
  const afterFirst = {
    ...published,
    rounds: [firstRound, { starts: at(20), ends: at(40), status: 'ACTIVE' }],
    suppliers: withSuppliers(taken(12), { ...taken(13), invite_count: 2, last_failed_bid: at(13) }, invited),
    modified: at(20),
  };
  expect(await recordOf(event, 20)).toEqual({ id: event, ...afterFirst });

  conformance.moveTo(30);
  const awards = [
    { lot: 'A', supplier: 'S1', share_awarded: '0.4' },
    { lot: 'A', supplier: 'S2', share_awarded: '0.6' },
    { lot: 'B', supplier: 'S1', share_awarded: '0.25' },
  ];
  await command(event, 'scenarios/best', { awards }, 'PUT');
  await command(event, 'scenarios/nothing', { awards: [] }, 'PUT');
  await command(event, 'award', { scenario: 'best' });
  await command(event, 'close');
  // 0.4 * 10 * 2.50 + 0.6 * 10 * 2.00 + 0.25 * 10 * 1.00 = 10 + 12 + 2.5; two lots of three.
  const complete = { starts: at(20), ends: at(30), status: 'COMPLETE', awarded_cost: '24.5', awarded_lot_count: 2 };
  const closed = {
    ...afterFirst,
    status: 'CLOSED',
    closed: at(30),
    rounds: [firstRound, complete],
    scenario_count: 2,
    evaluated_scenario_count: 2,
    modified: at(30),
  };
  expect(await recordOf(event, 30)).toEqual({ id: event, ...closed });

  // Published and closed again: each shows its latest time, and meanwhile the round has no award.
  conformance.moveTo(31);
  await command(event, 'reopen');
  await command(event, 'award', { scenario: null });
  conformance.moveTo(32);
  await command(event, 'unpublish');
  conformance.moveTo(33);
  await command(event, 'publish');
  const open = { starts: at(20), status: 'ACTIVE' };
  const republished = {
    ...closed,
    status: 'OPEN',
    published: at(33),
    rounds: [firstRound, open],
    suppliers: afterFirst.suppliers.map((supplier) => ({ ...supplier, invite_count: supplier.invite_count + 1 })),
    modified: at(33),
  };
  expect(await recordOf(event, 33)).toEqual({ id: event, ...republished });
  conformance.moveTo(34);
  await command(event, 'close');
  const closedAgain = {
    ...republished,
    status: 'CLOSED',
    closed: at(34),
    rounds: [firstRound, { ...open, ends: at(34), status: 'CLOSED' }],
    modified: at(34),
  };
  expect(await recordOf(event, 34)).toEqual({ id: event, ...closedAgain });

  conformance.moveTo(35);
  await command(event, 'delete');
  expect(await recordOf(event, 35)).toEqual({ id: event, ...closedAgain, status: 'DELETED', modified: at(35) });
});

test('the record of an event with only a name has no fields without a value', async () => {
  conformance.moveTo(50);
  const event = await createEvent(organisation, { name: 'Bare', event_type: 'DUTCH', event_contact: { name: 'Eve' } });
  expect(await recordOf(event, 50)).toEqual({
    id: event,
    name: 'Bare',
    type: 'DUTCH',
    roles: [{ role_type: 'ADMIN', user: [user] }],
    created: at(50),
    created_by: user,
    rounds: [],
    event_contact: { name: 'Eve' },
    status: 'DRAFT',
    columns: [],
    lot_count: 0,
    scenario_count: 0,
    evaluated_scenario_count: 0,
    is_test: false,
    primary_currency: 'EUR',
    secondary_currencies: [],
    suppliers: [],
    tags: [],
    modified: at(50),
  });
  const { bot, sourcing_requests, reference_id, category, published, closed } = await recordOf(event, 50);
  expect([bot, sourcing_requests, reference_id, category, published, closed]).toEqual(Array.from({ length: 6 }));
});

test('pausing appends no record: the feed lags behind the event until it is resumed', async () => {
  conformance.moveTo(60);
  const event = await createEvent(organisation, { name: 'Paused' });
  await command(event, 'publish');
  const before = await conformance.eventRecord(event, ({ status }) => status === 'OPEN');
  conformance.moveTo(61);
  await command(event, 'pause');
  expect((await readEvent(organisation, event)).status).toBe('PAUSED');
  expect(await conformance.eventRecord(event, () => true)).toEqual(before);
});
