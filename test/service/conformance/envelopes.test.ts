/** API document, "Response envelopes": every member of every envelope, for each endpoint that has an envelope. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { request } from '../../harness/request.ts';
import { changeSuppliers, createEvent, createRequest, createSuppliers, desk } from '../../harness/sourcing.ts';
import { startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { service, organisation, apiKeyId } = conformance;
const hook = { name: 'hook', url: 'https://localhost:1/', triggers: ['TEST'] };

const key = async (scopes: string[]) =>
  service.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, { name: 'more', scopes });

/** Each list of `/api`, with a function that creates an item of it. */
const manageLists: [string, (number: number) => Promise<unknown>][] = [
  ['/api/manage/suppliers', async () => undefined],
  ['/api/manage/supplier_changes', (number) => changeSuppliers(organisation, { external_id: 'S1', name: `${number}` })],
  ['/api/jobs', () => createRequest(organisation)],
  ['/api/webhooks', () => organisation.call('POST', '/api/webhooks', hook)],
];

describe.each(manageLists)('GET %s', (path, make) => {
  test('is a list envelope with exactly the members of a manage answer', async () => {
    for (let number = 0; number < 3; number += 1) await make(number);
    const whole = (await organisation.call('GET', `${path}?page_size=1000`)).body;
    const { count, gsn } = whole;
    expect(count).toBeGreaterThanOrEqual(3);
    const link = (page: number, size: number) => `${service.url}${path}?page_number=${page}&page_size=${size}`;
    const common = { used_endpoints: [path], gsn, includes: {}, extras: {} };
    expect(whole).toEqual({
      result: whole.result,
      count: whole.result.length,
      page_size: 1000,
      page_number: 1,
      num_pages: 1,
      next: null,
      previous: null,
      ...common,
    });
    const second = await organisation.call('GET', `${path}/?page_size=1&page_number=2`);
    expect(second.body).toEqual({
      result: [whole.result[1]],
      count,
      page_size: 1,
      page_number: 2,
      num_pages: count,
      next: link(3, 1),
      previous: link(1, 1),
      ...common,
    });
    expect((await organisation.call('GET', path)).body.page_size).toBe(20);
    expect([typeof count, Number.isInteger(gsn)]).toEqual(['number', true]);
  });

  test('of an organisation without items is one empty page', async () => {
    const emptyOrganisation = await service.organisation();
    expect((await emptyOrganisation.call('GET', path)).body).toEqual({
      result: [],
      count: 0,
      page_size: 20,
      page_number: 1,
      num_pages: 1,
      next: null,
      previous: null,
      used_endpoints: [path],
      gsn: 0,
      includes: {},
      extras: {},
    });
  });
});

test('the default page has 20 of 21 items, and next leads to the rest', async () => {
  const other = await service.organisation();
  const ids = Array.from({ length: 21 }, (_, index) => `S${String(index).padStart(2, '0')}`);
  await createSuppliers(other, ids);
  const { body } = await other.call('GET', '/api/manage/suppliers');
  const idsOf = (result: { external_id: string }[]) => result.map((supplier) => supplier.external_id);
  expect(idsOf(body.result)).toEqual(ids.slice(0, 20));
  expect(body).toMatchObject({ count: 21, page_size: 20, num_pages: 2, previous: null });
  const { pathname, search } = new URL(body.next);
  const rest = (await other.call('GET', pathname + search)).body;
  expect(idsOf(rest.result)).toEqual(ids.slice(20));
  expect(rest).toMatchObject({ page_number: 2, next: null, previous: expect.stringContaining('page_number=1') });
});

test('a single item has result, used_endpoints, gsn, includes and extras, and no other member', async () => {
  const submitted = await organisation.call('POST', '/api/manage/supplier_changes', {
    change_data: { suppliers: [{ external_id: 'S2', name: 'Again' }] },
  });
  const { uuid } = submitted.body.result;
  const read: [object, string][] = [
    [submitted.body, '/api/manage/supplier_changes'],
    [
      (await organisation.call('GET', `/api/manage/supplier_changes/${uuid}`)).body,
      '/api/manage/supplier_changes/{uuid}',
    ],
    [(await organisation.call('GET', '/api/manage/suppliers/S1')).body, '/api/manage/suppliers/{external_id}'],
  ];
  for (const [body, template] of read)
    expect(body).toEqual({
      result: expect.objectContaining({}),
      used_endpoints: [template],
      gsn: expect.any(Number),
      includes: {},
      extras: {},
    });
});

test('the endpoints of a job and of a webhook answer with the object, without an envelope', async () => {
  const submitted = await organisation.call('POST', '/api/jobs/create-sourcing-requests', { name: 'x' });
  const webhook = await organisation.call('POST', '/api/webhooks', hook);
  for (const { body } of [
    submitted,
    await organisation.call('GET', `/api/jobs/${submitted.body.id}`),
    webhook,
    await organisation.call('GET', `/api/webhooks/${webhook.body.uuid}`),
  ]) {
    expect(body.id ?? body.uuid).toEqual(expect.any(String));
    for (const member of ['result', 'used_endpoints', 'gsn', 'includes', 'extras', 'data'])
      expect(body).not.toHaveProperty(member);
  }
});

test('a feed has data and next, and includes only on request; next is null on the last page', async () => {
  const event = await createEvent(organisation, {
    name: 'x',
    suppliers: [{ external_id: 'S1' }],
    questions: [{ uuid: randomUUID(), identifier: '1', question_text: '?', input_type: 'TEXT' }],
  });
  await createEvent(organisation, { name: 'y' });
  await desk(organisation, 'POST', `${event}/publish`);
  for (const feed of ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses']) {
    const { body } = await organisation.call('GET', `/api/feeds/${feed}`);
    expect(body).toEqual({ data: expect.any(Array), next: null });
    if (feed === 'sourcing-events') continue;
    const included = await organisation.call('GET', `/api/feeds/${feed}?include=sourcing_events&include=suppliers`);
    expect(included.body).toEqual({ data: body.data, includes: { sourcing_events: [], suppliers: [] }, next: null });
  }
  const page = (await organisation.call('GET', '/api/feeds/sourcing-events?page_size=1')).body;
  expect(Object.keys(page)).toEqual(['data', 'next']);
  expect([page.data.length, typeof page.next]).toEqual([1, 'string']);
});

test('the lists of the operator and of the desk have the paging members, and each item has an id', async () => {
  await key(['desk']);
  await key(['feeds']);
  await createRequest(organisation);
  const { body: made } = await organisation.call('POST', '/api/webhooks', hook);
  for (let number = 0; number < 3; number += 1) await organisation.call('POST', `/api/webhooks/${made.uuid}/test`);
  const paths = [
    '/desk/events',
    `/admin/organisations/${organisation.id}/api-keys`,
    `/admin/organisations/${organisation.id}/deliveries`,
  ];
  for (const path of paths) {
    const by = path.startsWith('/admin') ? service.adminToken : organisation.key;
    const { body } = await request('GET', `${service.url}${path}?page_size=1`, { key: by });
    expect(body).toEqual({
      result: [expect.objectContaining({ id: expect.any(String) })],
      count: expect.any(Number),
      page_size: 1,
      page_number: 1,
      num_pages: body.count,
      next: `${service.url}${path}?page_number=2&page_size=1`,
      previous: null,
    });
    expect(body.count).toBeGreaterThan(1);
  }
  const keys = await service.operator('GET', `/admin/organisations/${organisation.id}/api-keys`);
  expect(keys.body.result.map(({ id }: { id: string }) => id)).toContain(apiKeyId);
});
