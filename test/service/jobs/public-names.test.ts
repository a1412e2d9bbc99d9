/** The names of the public pages beside ours. Source: decisions, "Public names". */
import { expect, test } from 'vitest';
import { createEvent, createSuppliers, desk, endedJob, eventPayload, readEvent } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
await createSuppliers(organisation, ['S1']);
const create = '/api/jobs/create-sourcing-events';

async function created(path: string, payload: object) {
  const job = await endedJob(organisation, path, payload);
  expect(job).toMatchObject({ status: 'COMPLETED' });
  return readEvent(organisation, job.created_entity);
}

const paths = (answer: { body: { errors?: { path: string }[] } }) => answer.body.errors?.map(({ path }) => path);

test('an event by public names is the event by ours', async () => {
  const event = await created(create, {
    name: 'Chairs',
    event_type: 'AUCTION',
    business_contact: { name: 'Ann', email: 'ann@buyer.example' },
    created_by: 'ann@buyer.example',
    timezone: 'Europe/Berlin',
    roles: [{ role_type: 'EDITOR', user: [{ email: 'bob@buyer.example' }] }],
    schedule: [{ starts: '2041-01-01T00:00:00Z', ends: '2041-01-02T00:00:00Z' }],
    tags: ['urgent', { name: 'Region', value: 'EMEA' }],
  });
  expect(event).toMatchObject({
    type: 'ENGLISH',
    event_contact: { name: 'Ann', email: 'ann@buyer.example' },
    rounds: [{ starts: '2041-01-01T00:00:00.000000Z', ends: '2041-01-02T00:00:00.000000Z' }],
    tags: [
      { name: 'urgent', value: '' },
      { name: 'Region', value: 'EMEA' },
    ],
  });
});

test.each([
  ['rfq', 'RFQ'],
  ['Dutch', 'DUTCH'],
  ['auction', 'ENGLISH'],
])('event_type %s is %s', async (given, type) => {
  expect((await created(create, { name: 'x', event_type: given })).type).toBe(type);
});

test('an e-mail address alone is a contact', async () => {
  const event = await created(create, { name: 'x', business_contact: 'ann@buyer.example' });
  expect(event.event_contact).toEqual({ email: 'ann@buyer.example' });
});

test('a tag without a value is found by its name', async () => {
  const { id } = await created(create, { name: 'x', tags: ['only-name'] });
  const { body } = await organisation.call('GET', '/api/feeds/sourcing-events?filter[tags.only-name]=');
  expect(body.data.map((record: { id: string }) => record.id)).toEqual([id]);
});

test.each([
  [{ schedule: [{ ends: '2041-01-02' }], rounds: [{ ends: '2041-01-03' }] }, 'schedule'],
  [{ business_contact: { name: 'Ann' }, event_contact: { name: 'Bob' } }, 'business_contact'],
  [{ timezone: 'Mars/Olympus' }, 'timezone'],
  [{ event_type: 'SEALED' }, 'event_type'],
  [{ schedule: [{ starts: '2041-01-02', ends: '2041-01-01' }] }, 'schedule[0].ends'],
])('%j is refused with the path %s', async (members, path) => {
  const answer = await organisation.call('POST', create, { name: 'x', ...members });
  expect([answer.status, paths(answer)]).toEqual([400, [path]]);
});

test('both names with the same value are taken', async () => {
  const rounds = [{ starts: '2041-01-01T00:00:00Z' }];
  const event = await created(create, {
    name: 'x',
    rounds: [{ starts: '2041-01-01T01:00:00+01:00' }],
    schedule: rounds,
    event_contact: { name: 'Ann' },
    business_contact: { name: 'Ann' },
  });
  expect(event.rounds).toMatchObject([{ starts: '2041-01-01T00:00:00.000000Z' }]);
});

test('null members count as left out, at any depth; null entries of lists do not', async () => {
  const event = await created(create, {
    name: 'x',
    description: null,
    reference_id: null,
    schedule: null,
    settings: { is_template: null },
    bid_sheet: { columns: null, lots: [{ name: 'A', values: null, sourcing_request: null }] },
  });
  expect(event).toMatchObject({ description: '', reference_id: null, is_template: false });
  expect(event.lots.map(({ name }: { name: string }) => name)).toEqual(['A']);
  const generic = await endedJob(organisation, '/api/jobs', {
    type: 'CREATE_SOURCING_EVENT',
    name: 'x',
    category: null,
  });
  expect(generic.status).toBe('COMPLETED');
  const nameless = await organisation.call('POST', create, { name: null });
  expect([nameless.status, paths(nameless)]).toEqual([400, ['name']]);
  const inList = await organisation.call('POST', create, { name: 'x', tags: [null] });
  expect([inList.status, paths(inList)]).toEqual([400, ['tags[0]']]);
});

test('null members of a large body count as left out, too', async () => {
  const lots = Array.from({ length: 3_000 }, (_, index) => ({
    name: `Lot ${index}`,
    values: [],
    sourcing_request: null,
  }));
  const job = await endedJob(organisation, create, { name: 'x', category: null, bid_sheet: { lots } });
  expect(job.status).toBe('COMPLETED');
});

test('any event is a template under template_sourcing_event_id; under template only a template is', async () => {
  const path = '/api/jobs/create-sourcing-events-from-template';
  const plain = await createEvent(organisation, { ...eventPayload({ lots: ['A', 'B'] }), description: 'Kept' });
  const template = await createEvent(organisation, { name: 'T', settings: { is_template: true } });
  const copy = await created(path, { template_sourcing_event_id: plain, name: 'Copy', created_by: 'Ann' });
  expect(copy).toMatchObject({ name: 'Copy', description: 'Kept', lots: [{ name: 'A' }, { name: 'B' }] });
  const refused = await endedJob(organisation, path, { template: plain });
  expect([refused.status, refused.errors[0].path]).toEqual(['FAILED', 'template']);
  await created(path, { template, template_sourcing_event_id: template });
  const two = await organisation.call('POST', path, { template, template_sourcing_event_id: plain });
  expect([two.status, paths(two)]).toEqual([400, ['template_sourcing_event_id']]);
  const none = await organisation.call('POST', path, { name: 'x' });
  expect([none.status, paths(none)]).toEqual([400, ['template']]);
  await desk(organisation, 'POST', `${plain}/delete`);
  const deleted = await endedJob(organisation, path, { template_sourcing_event_id: plain });
  expect([deleted.status, deleted.errors[0].path]).toEqual(['FAILED', 'template_sourcing_event_id']);
});

test('an update goes by the plural path, with public names', async () => {
  const event = await createEvent(organisation, { name: 'x' });
  const path = '/api/jobs/update-sourcing-events';
  const job = await endedJob(organisation, path, {
    sourcing_event: event,
    schedule: [{ ends: '2041-01-02' }],
    business_contact: 'ann@buyer.example',
    roles: [{ role_type: 'VIEWER', email: 'cid@buyer.example' }],
    description: null,
  });
  expect(job).toMatchObject({ type: 'UPDATE_SOURCING_EVENT', status: 'COMPLETED' });
  expect((await organisation.call('GET', `${path}/${job.id}`)).body).toEqual(job);
  expect(await readEvent(organisation, event)).toMatchObject({
    event_contact: { email: 'ann@buyer.example' },
    rounds: [{ ends: '2041-01-02T00:00:00.000000Z' }],
  });
});

test('a formula without brackets is computed', async () => {
  const column = { column_type: 'INPUT', input_type: 'NUMBER' };
  const id = await createEvent(organisation, {
    name: 'x',
    suppliers: [{ external_id: 'S1' }],
    primary_cost_calculation: 'Unit Price * Quantity',
    bid_sheet: {
      columns: [
        { ...column, name: 'Unit Price', input_by: 'SUPPLIER_INPUT' },
        { ...column, name: 'Quantity', input_by: 'BUYER_INPUT' },
      ],
      lots: [{ name: 'A', values: [{ column: 'Quantity', value: '4' }] }],
    },
  });
  await desk(organisation, 'POST', `${id}/publish`);
  await desk(organisation, 'POST', `${id}/bids`, {
    supplier: 'S1',
    lots: [{ lot: 'A', values: { 'Unit Price': '2.5' } }],
  });
  const { body } = await organisation.call('GET', `/api/feeds/latest-bids?sourcing_event=${id}`);
  expect(body.data[0].bids).toEqual([{ value: '10' }]);
});

test('a sourcing request keeps and shows bot, bidding_deadline and item_fields; without a name it has its description', async () => {
  const sent = {
    bot: '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10',
    description: 'Sixty chairs. '.repeat(20),
    bidding_deadline: '2041-03-01T00:00:00.000000Z',
    item_fields: [
      [
        { name: 'Article', value: 'Chair' },
        { name: 'Pieces', value: '60' },
      ],
      [],
    ],
  };
  const job = await endedJob(organisation, '/api/jobs/create-sourcing-requests', { ...sent, category: null });
  const shown = await organisation.call('GET', `/api/manage/sourcing_requests/${job.created_entity}`);
  expect(shown.body.result).toMatchObject({ ...sent, name: sent.description.slice(0, 120) });
  const nothing = await organisation.call('POST', '/api/jobs/create-sourcing-requests', { bot: sent.bot });
  expect([nothing.status, paths(nothing)]).toEqual([400, ['name']]);
});
