/** Sourcing requests under `/api/manage`, and the `Location` of what is answered with 202. */
import { expect, test } from 'vitest';
import { createManualClock } from '../harness/manual-clock.ts';
import { createEvent, createRequest, desk, endedJob } from '../harness/sourcing.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';

const clock = createManualClock(Date.UTC(2031, 0, 1));
const service = await startTestService({ clock });
const path = '/api/manage/sourcing_requests';

const sent = {
  name: 'Chairs wanted',
  description: 'For all offices',
  reference_id: 'PR-17',
  requested_by: 'Ann',
  needed_by: '2031-03-01T00:00:00.000000Z',
  category: 'Furniture',
  tags: [{ name: 'Region', value: 'EMEA' }],
  items: [{ name: 'Chair', quantity: '100', unit: 'piece', target_price: '99.90', currency: 'EUR' }, { name: 'Table' }],
};

/** What a request shows that was sent without the members of the public pages. */
const withoutPublicNames = { bot: null, bidding_deadline: null, item_fields: [] };

async function attach(organisation: TestOrganisation, request: string, name: string): Promise<string> {
  const job = await endedJob(organisation, '/api/jobs/attach-files-to-sourcing-request', {
    sourcing_request: request,
    files: [{ file_name: name, content: Buffer.from(name).toString('base64') }],
  });
  return job.detail.data[0].file_uuid;
}

test('a sourcing request is read as it was sent, with its files and the events that serve it', async () => {
  const organisation = await service.organisation();
  const uuid = await createRequest(organisation, sent);
  const created = (await organisation.call('GET', `${path}/${uuid}`)).body.result.created;
  clock.advance(60_000);
  const file = await attach(organisation, uuid, 'drawing.txt');
  const serving = await createEvent(organisation, { name: 'Serving', sourcing_requests: [uuid] });
  const deleted = await createEvent(organisation, { name: 'Deleted', sourcing_requests: [uuid] });
  await desk(organisation, 'POST', `${deleted}/delete`);
  const { status, body } = await organisation.call('GET', `${path}/${uuid.toUpperCase()}`);
  expect(status).toBe(200);
  expect(body).toMatchObject({ used_endpoints: [`${path}/{uuid}`], gsn: expect.any(Number) });
  expect(body.result).toEqual({
    ...sent,
    ...withoutPublicNames,
    uuid,
    created,
    modified: expect.stringMatching(/^2031-01-01T00:01:\d\d\.\d{6}Z$/),
    files: [{ file_uuid: file, file_name: 'drawing.txt' }],
    sourcing_events: [serving],
  });
  expect(created < body.result.modified).toBe(true);
});

test('a request without files or events was modified when it was created', async () => {
  const organisation = await service.organisation();
  const uuid = await createRequest(organisation, { name: 'Bare' });
  const { result } = (await organisation.call('GET', `${path}/${uuid}`)).body;
  expect(result).toMatchObject({ name: 'Bare', description: '', tags: [], items: [], files: [], sourcing_events: [] });
  expect(result.modified).toBe(result.created);
});

test('a job that could fetch none of its files leaves the request as it was modified', async () => {
  const organisation = await service.organisation();
  const uuid = await createRequest(organisation, { name: 'Bare' });
  clock.advance(60_000);
  await endedJob(organisation, '/api/jobs/attach-files-to-sourcing-request', {
    sourcing_request: uuid,
    files: [{ file_name: 'nowhere.txt', url: 'https://nowhere.invalid/file.txt' }],
  });
  const { result } = (await organisation.call('GET', `${path}/${uuid}`)).body;
  expect(result).toMatchObject({ files: [], modified: result.created });
});

test('the list of sourcing requests is filtered by reference and by time, newest first, in pages with links', async () => {
  const organisation = await service.organisation();
  const stranger = await service.organisation();
  await createRequest(stranger, { name: 'Elsewhere', reference_id: 'PR-1' });
  const uuids: string[] = [];
  for (const [name, reference] of [
    ['First', 'PR-1'],
    ['Second', 'PR-2'],
    ['Third', 'PR-1'],
  ] as const) {
    clock.advance(60_000);
    uuids.push(await createRequest(organisation, { name, reference_id: reference }));
  }
  const [first, second, third] = uuids;
  const list = async (query: string) => (await organisation.call('GET', `${path}/?${query}`)).body;
  const namesOf = (body: { result: { uuid: string }[] }) => body.result.map(({ uuid }) => uuid);
  expect(namesOf(await list(''))).toEqual([third, second, first]);
  expect(namesOf(await list('reference_id=PR-1'))).toEqual([third, first]);
  expect(namesOf(await list('reference_id=PR-3'))).toEqual([]);
  const { modified } = (await organisation.call('GET', `${path}/${second}`)).body.result;
  expect(namesOf(await list(`modified_after=${modified}`))).toEqual([third, second]);
  clock.advance(60_000);
  await attach(organisation, first as string, 'late.txt');
  expect(namesOf(await list(`modified_after=${modified}`))).toEqual([third, second, first]);
  const page = await list('reference_id=PR-1&page_size=1');
  expect(page).toMatchObject({
    count: 2,
    num_pages: 2,
    next: `${service.url}${path}?page_number=2&page_size=1&reference_id=PR-1`,
  });
});

test('a sourcing request that is unknown, misspelt or of another organisation is not found', async () => {
  const organisation = await service.organisation();
  const foreign = await createRequest(await service.organisation(), { name: 'Foreign' });
  for (const uuid of [foreign, '00000000-0000-4000-8000-000000000000', 'nonsense'])
    expect((await organisation.call('GET', `${path}/${uuid}`)).status).toBe(404);
});

test('202 names in Location where the job or the submission is read', async () => {
  const organisation = await service.organisation();
  const answers = [
    await organisation.call('POST', '/api/jobs/create-sourcing-requests', { name: 'x' }),
    await organisation.call('POST', '/api/jobs', { type: 'CREATE_SOURCING_REQUEST', name: 'x' }),
    await organisation.call('POST', '/api/manage/supplier_changes', {
      change_data: { suppliers: [{ external_id: 'V-1', name: 'V' }] },
    }),
  ];
  for (const { status, headers, body } of answers) {
    expect(status).toBe(202);
    const location = headers.get('location') ?? '';
    expect(location.startsWith(`${service.url}/api/`)).toBe(true);
    const read = await organisation.call('GET', location.slice(service.url.length));
    expect([read.status, read.body.id ?? read.body.result.uuid]).toEqual([200, body.id ?? body.result.uuid]);
  }
});

test('a repeated request with the same Idempotency-Key is answered with the same Location', async () => {
  const organisation = await service.organisation();
  const submit = () =>
    organisation.call('POST', '/api/jobs/create-sourcing-requests', { name: 'x' }, { 'idempotency-key': 'once' });
  const [one, two] = [await submit(), await submit()];
  expect(two.headers.get('location')).toBe(one.headers.get('location'));
  expect(one.headers.get('location')).toContain(one.body.id);
});
