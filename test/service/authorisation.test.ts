/**
 * Every endpoint of the two tables with every kind of caller that may not call it. Calls that name things of another
 * organisation are in isolation.test.ts.
 */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { scopes } from '#contract/admin.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { type HttpAnswer, request } from '../harness/request.ts';
import { startRecordedService, startTestService } from '../harness/test-service.ts';
import { operatorEndpoints, organisationEndpoints } from './endpoint-tables.ts';

/** A path of the endpoint with unknown ids, or with these values. */
function pathOf(template: string, values: Record<string, string> = {}): string {
  return template.replace(/:(\w+)/g, (_match, name: string) => values[name] ?? randomUUID());
}

const service = await startTestService();

function expectProblem(answer: HttpAnswer, status: number): void {
  expect(answer.status).toBe(status);
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect(answer.body).toMatchObject({
    type: expect.any(String),
    title: expect.any(String),
    status,
    detail: expect.any(String),
  });
}

function expectUnauthorized(answer: HttpAnswer): void {
  expectProblem(answer, 401);
  expect(answer.headers.get('www-authenticate')).toBe('Bearer');
}

async function newKey(organisationId: string, body: object): Promise<{ id: string; key: string }> {
  const made = await service.operator('POST', `/admin/organisations/${organisationId}/api-keys`, {
    name: 'k',
    ...body,
  });
  expect(made.status).toBe(201);
  return made.body;
}

test.each(
  organisationEndpoints.map(
    ({ method, path, scope, orScope }) => [method, path, orScope === undefined ? [scope] : [scope, orScope]] as const,
  ),
)('%s %s: 401 without a valid key, 403 without one of the scopes %s', async (method, path, enough) => {
  const url = service.url + pathOf(path);
  const { id, key } = await service.organisation();
  const revoked = await newKey(id, {});
  await service.operator('DELETE', `/admin/organisations/${id}/api-keys/${revoked.id}`);
  const expired = await newKey(id, { scopes, expires_at: '2999-01-01' });
  await service.db.database.query('update service.api_keys set expires_at = $2 where id = $1', [
    expired.id,
    '2020-01-01',
  ]);
  const wrong: Record<string, string>[] = [
    {},
    { authorization: '' },
    { authorization: 'Bearer' },
    { authorization: 'Bearer ' },
    { authorization: key },
    { authorization: `Basic ${Buffer.from(`key:${key}`).toString('base64')}` },
    { authorization: `Bearer ${key} ${key}` },
    { authorization: `Bearer ${key}x` },
    { authorization: `Bearer ${key.slice(0, -1)}` },
    { authorization: `Bearer ${'x'.repeat(5_000)}` },
    { authorization: `Bearer ${revoked.key}` },
    { authorization: `Bearer ${expired.key}` },
    { authorization: `Bearer ${service.adminToken}` },
  ];
  for (const headers of wrong) {
    const answer = await request(method, url, { headers });
    expectUnauthorized(answer);
    expect(JSON.stringify(answer.body)).not.toContain(key.slice(3));
  }
  const others = await newKey(id, { scopes: scopes.filter((other) => !enough.includes(other)) });
  const answer = await request(method, url, { key: others.key });
  expectProblem(answer, 403);
  for (const scope of enough) {
    expect(answer.body.detail).toContain(`"${scope}"`);
    const allowed = await newKey(id, { scopes: [scope] });
    expect([401, 403]).not.toContain((await request(method, url, { key: allowed.key })).status);
  }
  expect(answer.headers.get('www-authenticate')).toBeNull();
});

test.each(operatorEndpoints.map(({ method, path }) => [method, path] as const))(
  "%s %s: 401 with anything but the operator's token",
  async (method, path) => {
    const { id, key } = await service.organisation();
    const url = service.url + pathOf(path, { id });
    for (const token of [undefined, key, `${service.adminToken}x`, service.adminToken.slice(1), 'x']) {
      const answer = await request(method, url, token === undefined ? {} : { key: token });
      expect(answer.status).toBe(401);
      expectUnauthorized(answer);
    }
  },
);

test('the scheme Bearer may have any case', async () => {
  const { key } = await service.organisation();
  for (const scheme of ['Bearer', 'bearer', 'BEARER'])
    expect(
      (await request('GET', `${service.url}/api/feeds/awards`, { headers: { authorization: `${scheme} ${key}` } }))
        .status,
    ).toBe(200);
});

test('a key is valid until the instant of its expiry', async () => {
  const clock = createManualClock(Date.UTC(2030, 0, 1));
  const other = await startTestService({ clock });
  const { id } = await other.organisation();
  const made = await other.operator('POST', `/admin/organisations/${id}/api-keys`, {
    name: 'k',
    expires_at: '2030-01-01T00:00:10Z',
  });
  const read = async () => (await request('GET', `${other.url}/api/feeds/awards`, { key: made.body.key })).status;
  clock.advance(9_999);
  expect(await read()).toBe(200);
  clock.advance(1);
  expect(await read()).toBe(401);
});

test('a key has every scope except desk by default', async () => {
  const { id } = await service.organisation();
  const made = await service.operator('POST', `/admin/organisations/${id}/api-keys`, { name: 'default' });
  expect(made.body.scopes).toEqual(['manage', 'jobs', 'feeds', 'webhooks']);
  expect((await request('GET', `${service.url}/desk/events`, { key: made.body.key })).status).toBe(403);
});

const everyEndpoint = [...organisationEndpoints, ...operatorEndpoints].map(
  ({ method, path }) => [method, path] as const,
);

test.each(everyEndpoint)('%s %s: a key outside of the Authorization header is ignored', async (method, path) => {
  const { id, key } = await service.organisation();
  const url = service.url + pathOf(path, { id });
  for (const secret of [key, service.adminToken]) {
    for (const query of [
      `api_key=${secret}`,
      `access_token=${secret}`,
      `authorization=Bearer%20${secret}`,
      `key=${secret}`,
    ]) {
      const answer = await request(method, `${url}?${query}`);
      expectUnauthorized(answer);
      expect(JSON.stringify(answer.body)).not.toContain(secret);
    }
    for (const headers of [
      { 'x-api-key': secret },
      { 'proxy-authorization': `Bearer ${secret}` },
      { cookie: `access_token=${secret}` },
      { 'x-authorization': `Bearer ${secret}` },
    ])
      expectUnauthorized(await request(method, url, { headers }));
  }
});

test.each(everyEndpoint)(
  '%s %s: HEAD is authorised as GET, and OPTIONS shows only the methods',
  async (method, path) => {
    const url = service.url + pathOf(path);
    const options = await request('OPTIONS', url);
    expect(options.status).toBe(405);
    expect(options.headers.get('allow')?.split(', ')).toContain(method);
    expect(options.headers.get('access-control-allow-origin')).toBeNull();
    if (method !== 'GET') return;
    const head = await request('HEAD', url);
    expect([head.status, head.body, head.headers.get('www-authenticate')]).toEqual([401, '', 'Bearer']);
  },
);

test('a key in the query or in the path is in no log line, no metric and no answer', async () => {
  const talkative = await startRecordedService();
  const { key } = await talkative.organisation();
  const secret = key.slice(3);
  for (const headers of [{}, { authorization: `Bearer ${key}` }])
    for (const path of [
      `/api/feeds/awards?access_token=${key}`,
      `/api/feeds/awards?cursor=${key}`,
      `/api/feeds/awards?page_size=${key}`,
      `/api/webhooks?api_key=${key}`,
      `/api/jobs/${key}`,
      `/downloads/${key}`,
      `/healthz?key=${key}`,
      `/docs?key=${key}`,
    ]) {
      const { status, body } = await request('GET', talkative.url + path, {
        headers,
      });
      expect(status).toBeLessThan(500);
      expect(JSON.stringify(body)).not.toContain(secret);
    }
  expect(talkative.lines.length).toBeGreaterThan(10);
  expect(talkative.lines.join('')).not.toContain(secret);
  expect(await talkative.registry.metrics()).not.toContain(secret);
});

test('paths that need no key reveal nothing of an organisation', async () => {
  const { id, key } = await service.organisation();
  for (const path of [
    '/healthz',
    '/readyz',
    '/metrics',
    '/openapi.json',
    '/openapi-desk.json',
    '/openapi-admin.json',
    '/docs',
  ]) {
    const { status, body } = await request('GET', service.url + path);
    expect([path, status]).toEqual([path, 200]);
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    for (const secret of [id, key, service.adminToken]) expect(text).not.toContain(secret);
  }
});
