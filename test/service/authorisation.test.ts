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

const { id, key } = await service.organisation();
const revoked = await newKey(id, {});
await service.operator('DELETE', `/admin/organisations/${id}/api-keys/${revoked.id}`);
const expired = await newKey(id, { scopes, expires_at: '2999-01-01' });
await service.db.database.query('update service.api_keys set expires_at = $2 where id = $1', [
  expired.id,
  '2020-01-01',
]);
const keyOfScope = new Map<string, string>();
for (const scope of scopes) keyOfScope.set(scope, (await newKey(id, { scopes: [scope] })).key);

const endpointsWithScopes = organisationEndpoints.map(({ method, path, scope, orScope }) => ({
  method,
  path,
  enough: orScope === undefined ? [scope] : [scope, orScope],
}));

test('a call of an organisation is 401 without a valid key, and 403 without one of its scopes', async () => {
  expect(endpointsWithScopes.length).toBeGreaterThan(50);
  for (const { method, path, enough } of endpointsWithScopes) {
    const url = service.url + pathOf(path);
    for (const headers of [
      {},
      { authorization: `Bearer ${revoked.key}` },
      { authorization: `Bearer ${expired.key}` },
      { authorization: `Bearer ${service.adminToken}` },
    ])
      expectUnauthorized(await request(method, url, { headers }));
    const others = await newKey(id, { scopes: scopes.filter((other) => !enough.includes(other)) });
    const answer = await request(method, url, { key: others.key });
    expectProblem(answer, 403);
    expect(answer.headers.get('www-authenticate')).toBeNull();
    for (const scope of enough) {
      expect(answer.body.detail).toContain(`"${scope}"`);
      const allowed = await request(method, url, { key: keyOfScope.get(scope) ?? '' });
      expect([method, path, [401, 403].includes(allowed.status)]).toEqual([method, path, false]);
    }
  }
});

test("a call of the operator is 401 with anything but the operator's token", async () => {
  expect(operatorEndpoints.length).toBeGreaterThan(5);
  for (const { method, path } of operatorEndpoints) {
    const url = service.url + pathOf(path, { id });
    for (const token of [undefined, key, `${service.adminToken}x`, service.adminToken.slice(1), 'x'])
      expectUnauthorized(await request(method, url, token === undefined ? {} : { key: token }));
  }
});

test('a key that is misspelt, or sent in another way than as a bearer token, is 401', async () => {
  const url = `${service.url}/api/feeds/awards`;
  const wrong: Record<string, string>[] = [
    { authorization: '' },
    { authorization: 'Bearer' },
    { authorization: 'Bearer ' },
    { authorization: key },
    { authorization: `Basic ${Buffer.from(`key:${key}`).toString('base64')}` },
    { authorization: `Bearer ${key} ${key}` },
    { authorization: `Bearer ${key}x` },
    { authorization: `Bearer ${key.slice(0, -1)}` },
    { authorization: `Bearer ${'x'.repeat(5_000)}` },
    { 'x-api-key': key },
    { 'proxy-authorization': `Bearer ${key}` },
    { cookie: `access_token=${key}` },
    { 'x-authorization': `Bearer ${key}` },
  ];
  for (const headers of wrong) {
    const answer = await request('GET', url, { headers });
    expectUnauthorized(answer);
    expect(JSON.stringify(answer.body)).not.toContain(key.slice(3));
  }
  for (const parameter of ['api_key', 'access_token', 'authorization', 'key'])
    expectUnauthorized(await request('GET', `${url}?${parameter}=${key}`));
});

test('the scheme Bearer may have any case', async () => {
  for (const scheme of ['Bearer', 'bearer', 'BEARER'])
    expect(
      (await request('GET', `${service.url}/api/feeds/awards`, { headers: { authorization: `${scheme} ${key}` } }))
        .status,
    ).toBe(200);
});

test('a key is valid until the instant of its expiry', async () => {
  const clock = createManualClock(Date.UTC(2030, 0, 1));
  const other = await startTestService({ clock });
  const organisation = await other.organisation();
  const made = await other.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, {
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
  const made = await service.operator('POST', `/admin/organisations/${id}/api-keys`, { name: 'default' });
  expect(made.body.scopes).toEqual(['manage', 'jobs', 'feeds', 'webhooks']);
  expect((await request('GET', `${service.url}/desk/events`, { key: made.body.key })).status).toBe(403);
});

test('HEAD is authorised as GET, and OPTIONS shows only the methods', async () => {
  for (const { method, path } of [...organisationEndpoints, ...operatorEndpoints]) {
    const url = service.url + pathOf(path);
    const options = await request('OPTIONS', url);
    expect(options.status).toBe(405);
    expect(options.headers.get('allow')?.split(', ')).toContain(method);
    expect(options.headers.get('access-control-allow-origin')).toBeNull();
    if (method !== 'GET') continue;
    const head = await request('HEAD', url);
    expect([head.status, head.body, head.headers.get('www-authenticate')]).toEqual([401, '', 'Bearer']);
  }
});

test('a key in the query or in the path is in no log line, no metric and no answer', async () => {
  const talkative = await startRecordedService();
  const talked = await talkative.organisation();
  const secret = talked.key.slice(3);
  for (const headers of [{}, { authorization: `Bearer ${talked.key}` }])
    for (const path of [
      `/api/feeds/awards?access_token=${talked.key}`,
      `/api/feeds/awards?cursor=${talked.key}`,
      `/api/feeds/awards?page_size=${talked.key}`,
      `/api/webhooks?api_key=${talked.key}`,
      `/api/jobs/${talked.key}`,
      `/downloads/${talked.key}`,
      `/healthz?key=${talked.key}`,
      `/docs?key=${talked.key}`,
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
