/** Sourcing requests: created by a job, shown by the desk with the events that serve them. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { createEvent, createRequest, desk, endedJob } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const path = '/desk/sourcing-requests';

const request = {
  name: 'Chairs wanted',
  description: 'For all offices',
  reference_id: 'PR-17',
  requested_by: 'Ann',
  needed_by: '2031-01-01',
  category: 'Furniture',
  tags: [{ name: 'Region', value: 'EMEA' }],
  items: [
    { name: 'Chair', description: 'Black', quantity: '100', unit: 'piece', target_price: '99.90', currency: 'EUR' },
    { name: 'Table' },
  ],
};

test('a request is shown as it was sent, with its items, its events and its files', async () => {
  const organisation = await service.organisation();
  const id = await createRequest(organisation, request);
  const file = { file_name: 'chair.txt', content: Buffer.from('chair').toString('base64') };
  const attached = await endedJob(organisation, '/api/jobs/attach-files-to-sourcing-request', {
    sourcing_request: id,
    files: [file],
  });
  const first = await createEvent(organisation, { name: 'First', sourcing_requests: [id] });
  const second = await createEvent(organisation, {
    name: 'Second',
    bid_sheet: { lots: [{ name: 'A', sourcing_request: id }] },
  });
  const deleted = await createEvent(organisation, { name: 'Deleted', sourcing_requests: [id] });
  await desk(organisation, 'POST', `${deleted}/delete`);
  await createEvent(organisation, { name: 'Another' });
  const { status, body } = await organisation.call('GET', `${path}/${id}`);
  expect(status).toBe(200);
  expect(body).toEqual({
    ...request,
    bot: null,
    bidding_deadline: null,
    item_fields: [],
    id,
    needed_by: '2031-01-01T00:00:00.000000Z',
    created: expect.stringMatching(/\.\d{6}Z$/),
    sourcing_events: [first, second],
    files: [expect.objectContaining({ uuid: attached.detail.data[0].file_uuid, file_name: 'chair.txt' })],
  });
});

test('members that were left out are empty', async () => {
  const organisation = await service.organisation();
  const { body } = await organisation.call('GET', `${path}/${await createRequest(organisation, { name: 'Bare' })}`);
  expect(body).toMatchObject({
    name: 'Bare',
    description: '',
    reference_id: null,
    needed_by: null,
    tags: [],
    items: [],
  });
  expect(body).toMatchObject({ sourcing_events: [], files: [] });
});

test("the list has the organisation's own requests, newest first, in pages", async () => {
  const organisation = await service.organisation();
  await createRequest(await service.organisation());
  const ids = [];
  for (const name of ['1', '2', '3']) ids.unshift(await createRequest(organisation, { name, items: [{ name: 'x' }] }));
  const event = await createEvent(organisation, { name: 'Serving', sourcing_requests: [ids[0]] });
  const { body } = await organisation.call('GET', `${path}/?page_size=2`);
  expect(body).toMatchObject({
    result: [
      { id: ids[0], name: '3', item_count: 1, sourcing_events: [event] },
      { id: ids[1], name: '2', sourcing_events: [] },
    ],
    count: 3,
    num_pages: 2,
    next: `${service.url}${path}?page_number=2&page_size=2`,
  });
});

test("another organisation's request is answered as one that does not exist", async () => {
  const organisation = await service.organisation();
  const theirs = await createRequest(await service.organisation());
  const answers = [];
  for (const id of [theirs, randomUUID(), 'x']) answers.push(await organisation.call('GET', `${path}/${id}`));
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
});

test('a job creates a request: it completes with its id, and no feed shows it', async () => {
  const organisation = await service.organisation();
  const job = await endedJob(organisation, '/api/jobs', { type: 'CREATE_SOURCING_REQUEST', ...request });
  expect(job).toMatchObject({ type: 'CREATE_SOURCING_REQUEST', status: 'COMPLETED' });
  expect((await organisation.call('GET', `${path}/${job.created_entity}`)).body.name).toBe('Chairs wanted');
  expect((await organisation.call('GET', '/api/feeds/sourcing-events')).body.data).toEqual([]);
});
