/**
 * The profile `public`: each difference, as the public pages of a real service say it (decisions, "Profile"). The
 * harness compares every answer here with the OpenAPI document that this profile serves.
 */
import { describe, expect, test } from 'vitest';
import { createSourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { eventually } from '../harness/eventually.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { request } from '../harness/request.ts';
import { changeSuppliers, createEvent, endedJob } from '../harness/sourcing.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { startWebhookReceiver } from '../harness/webhook-receiver.ts';
import { organisationEndpoints } from './endpoint-tables.ts';

const clock = createManualClock();
const service = await startTestService({ profile: 'public', clock });
const organisation = await service.organisation();
for (let number = 1; number <= 12; number += 1) await createEvent(organisation, { name: `Event ${number}` });

/** Follows `Link` from a path to the last page, and returns the pages. */
async function pagesOf(path: string) {
  const pages = [];
  for (let url: string | undefined = service.url + path; url !== undefined; ) {
    const answer = await request('GET', url, { key: organisation.key });
    expect(answer.status).toBe(200);
    pages.push(answer);
    url = /^<([^>]+)>; rel="next"$/.exec(answer.headers.get('link') ?? '')?.[1];
  }
  return pages;
}

describe('pages', () => {
  test.each([
    ['/api/feeds/sourcing-events?page_size=10', 'data'],
    ['/api/jobs?page_size=10', 'result'],
  ])('%s: the next page is named in Link alone', async (path, member) => {
    const pages = await pagesOf(path);
    expect(pages.map(({ body }) => [body[member].length, body.next])).toEqual([
      [10, null],
      [2, null],
    ]);
  });

  test('the tag of a page tells whether another one follows', async () => {
    const path = '/api/feeds/sourcing-events?page_size=10&modified_before=2100-01-01';
    const stranger = await service.organisation();
    for (let number = 1; number <= 10; number += 1) await createEvent(stranger, { name: `Event ${number}` });
    const before = await stranger.call('GET', path);
    await createEvent(stranger, { name: 'Event 11' });
    const etag = before.headers.get('etag') ?? '';
    const after = await stranger.call('GET', path, undefined, { 'if-none-match': etag });
    expect([before.headers.get('link'), after.status]).toEqual([null, 200]);
    expect(after.headers.get('link')).toContain('rel="next"');
  });

  const paged = organisationEndpoints.filter(
    ({ method, path, query }) =>
      method === 'GET' && path.startsWith('/api/') && query?.safeParse({ page_size: '1' }).success,
  );

  test.each(paged.map(({ path }) => path.replace(':uuid', '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10')))(
    '%s takes page_size from 10 to 200',
    async (path) => {
      const sizes = ['1', '9', '10', '200', '201', '1000', 'x'];
      const answers = await Promise.all(sizes.map((size) => organisation.call('GET', `${path}?page_size=${size}`)));
      const isRefused = answers.map(({ status, body }) => status === 400 && Object.keys(body.field_errors)[0]);
      expect(isRefused).toEqual(['page_size', 'page_size', false, false, 'page_size', 'page_size', 'page_size']);
    },
  );

  test('a feed has pages of 100 unless another size is asked for, and declares no order', async () => {
    const busy = await service.organisation();
    const suppliers = Array.from({ length: 101 }, (_, index) => ({ external_id: `S${index}`, name: 'x' }));
    await changeSuppliers(busy, ...suppliers);
    const lots = suppliers.map(({ external_id: id }) => ({ name: id }));
    const event = await createEvent(busy, { name: 'x', event_type: 'DUTCH', bid_sheet: { lots } });
    await busy.call('POST', `/desk/events/${event}/publish`, {});
    await busy.call('POST', `/desk/events/${event}/close`, {});
    const { body, headers } = await busy.call('GET', '/api/feeds/awards');
    expect([body.data.length, headers.get('feed-order')]).toEqual([100, null]);
  });
});

describe('errors', () => {
  test.each([
    ['an unknown key', { authorization: 'Bearer sb_unknown' }],
    ['no key', {}],
    ['no bearer', { authorization: 'Basic eDp5' }],
  ])('%s is 403 with an empty body', async (_what, headers) => {
    const answer = await fetch(`${service.url}/api/feeds/awards`, { headers });
    expect([answer.status, await answer.text(), answer.headers.get('www-authenticate')]).toEqual([403, '', null]);
  });

  test('a revoked key, and one without the scope, are 403 with an empty body', async () => {
    const keys = `/admin/organisations/${organisation.id}/api-keys`;
    const { body: made } = await service.operator('POST', keys, { name: 'short', scopes: ['jobs'] });
    const read = () => request('GET', `${service.url}/api/feeds/awards`, { key: made.key });
    expect(await read()).toMatchObject({ status: 403, body: '' });
    await service.operator('DELETE', `${keys}/${made.id}`);
    expect(await read()).toMatchObject({ status: 403, body: '' });
  });

  test('every fault of a body stands under its path, and the text beside them', async () => {
    const answer = await organisation.call('POST', '/api/jobs/create-sourcing-events', {
      event_type: 'SEALED',
      bid_sheet: { columns: [{ name: 'A', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'DATE' }] },
    });
    expect(answer).toMatchObject({ status: 400, body: { errors: [expect.stringContaining('The body is not valid')] } });
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(answer.body.field_errors).toEqual({
      name: ['is missing'],
      event_type: [expect.stringContaining('must be one of RFQ')],
      'bid_sheet.columns[0].input_type': [expect.stringContaining('must be one of TEXT')],
    });
  });

  test('what is not there is 404, and a conflict 409, without field errors', async () => {
    const missing = await organisation.call('GET', '/api/jobs/7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10');
    expect(missing).toMatchObject({ status: 404, body: { errors: ['There is no such job.'], field_errors: {} } });
    const send = (name: string) =>
      organisation.call('POST', '/api/jobs/create-sourcing-requests', { name }, { 'idempotency-key': 'one' });
    await send('first');
    expect(await send('second')).toMatchObject({
      status: 409,
      body: { errors: [expect.any(String)], field_errors: {} },
    });
  });

  test('the desk and the operator keep problem details and 401', async () => {
    const desk = await fetch(`${service.url}/desk/events`, { headers: { authorization: 'Bearer sb_unknown' } });
    const admin = await fetch(`${service.url}/admin/organisations/x/api-keys`);
    for (const answer of [desk, admin])
      expect([answer.status, answer.headers.get('content-type')]).toEqual([
        401,
        'application/problem+json; charset=utf-8',
      ]);
  });
});

describe('rate limits', () => {
  async function limited(): Promise<TestOrganisation> {
    const made = await service.organisation();
    await service.operator('PUT', `/admin/organisations/${made.id}/limits`, {});
    return made;
  }

  test('120 jobs an hour, in the headers of old', async () => {
    const busy = await limited();
    const submit = () => busy.call('POST', '/api/jobs/create-sourcing-requests', { name: 'x' });
    const left = (answer: { headers: Headers }) =>
      ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'ratelimit', 'ratelimit-policy'].map((name) =>
        answer.headers.get(name),
      );
    expect(left(await submit())).toEqual(['120', '119', '3600', null, null]);
    for (let sent = 1; sent < 120; sent += 1) expect((await submit()).status).toBe(202);
    const refused = await submit();
    expect([refused.status, left(refused)[1], refused.headers.get('retry-after')]).toEqual([429, '0', '3600']);
    expect(refused.body).toEqual({ errors: [expect.stringContaining('120 in 3600 s')], field_errors: {} });
    clock.advance(3_600_000);
    expect((await submit()).status).toBe(202);
  });

  test('the operator sees them', async () => {
    const { id } = await service.organisation();
    const { body } = await service.operator('PUT', `/admin/organisations/${id}/limits`, {});
    expect([body.jobs_write, body.feeds]).toEqual([
      { burst: 120, sustained: 500 },
      { burst: 60, sustained: 43_200 },
    ]);
  });
});

describe('webhooks', () => {
  const triggers = ['SOURCING_EVENTS_FEED_UPDATED', 'AWARD_FEED_UPDATED', 'JOB_UPDATED'];

  test('are registered, shown and changed with AWARD_FEED_UPDATED, and show their triggers as a list', async () => {
    const { url } = await startWebhookReceiver('public');
    const made = await organisation.call('POST', '/api/webhooks', { name: 'hook', url, triggers });
    expect(made).toMatchObject({ status: 201, body: { triggers, signing_key: expect.any(String) } });
    const path = `/api/webhooks/${made.body.uuid}`;
    expect((await organisation.call('GET', path)).body.triggers).toEqual(triggers);
    expect((await organisation.call('GET', '/api/webhooks')).body.result).toMatchObject([{ triggers }]);
    const changed = await organisation.call('PATCH', path, { triggers: ['AWARD_FEED_UPDATED'] });
    expect(changed.body.triggers).toEqual(['AWARD_FEED_UPDATED']);
    for (const wrong of [['AWARDS_FEED_UPDATED'], ['AWARD_FEED_UPDATED', 'AWARD_FEED_UPDATED'], []]) {
      const refused = await organisation.call('PATCH', path, { triggers: wrong });
      expect([refused.status, Object.keys(refused.body.field_errors)[0]]).toEqual([
        400,
        expect.stringContaining('triggers'),
      ]);
    }
    await organisation.call('DELETE', path);
  });

  test('are told AWARD_FEED_UPDATED, without feed_modified; the log of deliveries names it so', async () => {
    const awarded = await service.organisation();
    const receiver = await startWebhookReceiver('public');
    const { body } = await awarded.call('POST', '/api/webhooks', { name: 'hook', url: receiver.url, triggers });
    const event = await createEvent(awarded, {
      name: 'Chairs',
      event_type: 'DUTCH',
      bid_sheet: { lots: [{ name: 'A' }] },
    });
    await awarded.call('POST', `/desk/events/${event}/publish`, {});
    await awarded.call('POST', `/desk/events/${event}/close`, {});
    const told = await eventually('the award is told', async () =>
      receiver.received.find(({ json }) => json.trigger === 'AWARD_FEED_UPDATED'),
    );
    expect(told.json.payload).toEqual({ sourcing_event: event, sourcing_event_name: 'Chairs' });
    const log = await awarded.call('GET', `/api/webhooks/${body.uuid}/deliveries`);
    const names = log.body.result.map(({ trigger }: { trigger: string }) => trigger);
    expect(names).toContain('AWARD_FEED_UPDATED');
    expect(names).not.toContain('AWARDS_FEED_UPDATED');
  });

  test('a large body is checked by the same names', async () => {
    const { url } = await startWebhookReceiver('public');
    const text = JSON.stringify({ name: 'hook', url, triggers: ['AWARD_FEED_UPDATED'] });
    const padded = text.replace('{', `{${' '.repeat(70_000)}`);
    const made = await organisation.call('POST', '/api/webhooks', padded);
    expect(made).toMatchObject({ status: 201, body: { triggers: ['AWARD_FEED_UPDATED'] } });
  });
});

test('the simulator plays its story', async () => {
  const timely = await startTestService({ profile: 'public' });
  const player = await timely.organisation();
  const outgoing = createGuardedFetch();
  closeAtEnd(() => outgoing.close());
  const client = createSourceClient({
    settings: { baseUrl: timely.url, apiKey: player.key, timeoutMs: 30_000, retries: 3 },
    fetch: outgoing.fetch,
    clock: systemClock,
  });
  const lines: string[] = [];
  const story = { seed: 3, events: 2, suppliers: 4, lots: 3, pauseMs: 0, clock: systemClock };
  await playStory({ ...story, client, print: (line) => lines.push(line) });
  expect(lines.length).toBeGreaterThan(8);
  expect((await endedJob(player, '/api/jobs/create-sourcing-events', { name: 'x' })).status).toBe('COMPLETED');
});

test('its OpenAPI document says how it speaks', async () => {
  const { body } = await request('GET', `${service.url}/openapi.json`);
  const feed = body.paths['/api/feeds/awards'].get;
  const size = feed.parameters.find(({ name }: { name: string }) => name === 'page_size').schema;
  expect(size).toMatchObject({ minimum: 10, maximum: 200, default: 100 });
  const headers = Object.keys(feed.responses['200'].headers);
  expect(headers).toEqual(
    expect.arrayContaining(['Link', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']),
  );
  expect(headers).not.toContain('Feed-Order');
  expect(Object.keys(feed.responses)).not.toContain('401');
  expect(Object.keys(body.webhooks)).toContain('AWARD_FEED_UPDATED');
  expect(body.paths['/api/jobs'].post.description).not.toContain('750');
});
