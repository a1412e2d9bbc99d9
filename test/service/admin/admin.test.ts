import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { request } from '../../harness/request.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
const base = `/admin/organisations/${organisation.id}`;

test('an API key is shown once, listed without its secret, and refused after it is revoked', async () => {
  const made = await service.operator('POST', `${base}/api-keys`, {
    name: 'bridge',
    scopes: ['feeds'],
    expires_at: '2999-01-01',
  });
  expect(made.status).toBe(201);
  expect(made.body).toEqual({
    id: expect.any(String),
    name: 'bridge',
    scopes: ['feeds'],
    key: expect.stringMatching(/^sb_[\w-]{43}$/),
  });
  const read = async () => (await request('GET', `${service.url}/api/feeds/awards`, { key: made.body.key })).status;
  expect(await read()).toBe(200);
  const list = await service.operator('GET', `${base}/api-keys`);
  expect(list.body.result).toContainEqual(
    expect.objectContaining({ id: made.body.id, name: 'bridge', scopes: ['feeds'] }),
  );
  expect(JSON.stringify(list.body)).not.toContain(made.body.key);
  expect(list.body).toMatchObject({ count: 2, page_number: 1, next: null });
  expect((await service.operator('DELETE', `${base}/api-keys/${made.body.id}`)).status).toBe(204);
  expect(await read()).toBe(401);
  const stored = await service.db.database.query('select * from service.api_keys where id = $1', [made.body.id]);
  expect(JSON.stringify(stored)).not.toContain(made.body.key);
});

test('a key cannot be revoked through another organisation', async () => {
  const other = await service.organisation();
  const list = await service.operator('GET', `/admin/organisations/${other.id}/api-keys`);
  expect((await service.operator('DELETE', `${base}/api-keys/${list.body.result[0].id}`)).status).toBe(404);
  expect((await other.call('GET', '/api/feeds/awards')).status).toBe(200);
});

test.each([
  ['POST', '/api-keys', { name: 'x' }],
  ['GET', '/api-keys', undefined],
  ['DELETE', `/api-keys/${randomUUID()}`, undefined],
  ['PUT', '/webhook-domains', { domains: [] }],
  ['PUT', '/allowed-networks', { cidrs: [] }],
  ['POST', '/supplier-attributes', { name: 'x' }],
])('%s %s of an unknown organisation: 404', async (method, path, body) => {
  for (const id of [randomUUID(), 'x'])
    expect((await service.operator(method, `/admin/organisations/${id}${path}`, body)).status).toBe(404);
});

test.each([
  ['/api-keys', { name: 'x', scopes: ['admin'] }, ['scopes[0]']],
  ['/api-keys', { name: 'x', expires_at: 'never' }, ['expires_at']],
  ['/api-keys', { name: 'x', expires_at: '2020-01-01' }, ['expires_at']],
  ['/api-keys', { name: 'x', user: { name: 'Una' } }, ['user.email']],
  ['/api-keys', { name: 'x', user: { name: '', email: 'una' } }, ['user.name', 'user.email']],
  ['/supplier-attributes', {}, ['name']],
])('POST %s with %j is refused with the path of the fault', async (path, body, paths) => {
  const answer = await service.operator('POST', base + path, body);
  expect([answer.status, answer.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, paths]);
});

test('each invalid network rule is named, and the stored rules are not changed', async () => {
  const domains = await service.operator('PUT', `${base}/webhook-domains`, {
    domains: ['erp.example.com', 'https://x', '*', '*.10.0.0.1', '*.example.org'],
  });
  expect([domains.status, domains.body.errors.map((error: { path: string }) => error.path)]).toEqual([
    400,
    ['domains[1]', 'domains[2]', 'domains[3]'],
  ]);
  const networks = await service.operator('PUT', `${base}/allowed-networks`, {
    cidrs: ['10.0.0.0/8', '10.0.0.1', 'x/8'],
  });
  expect([networks.status, networks.body.errors.map((error: { path: string }) => error.path)]).toEqual([
    400,
    ['cidrs[1]', 'cidrs[2]'],
  ]);
  const hook = { name: 'h', url: 'https://localhost/', triggers: ['TEST'] };
  expect((await organisation.call('POST', '/api/webhooks', hook)).status).toBe(201);
});

test('a supplier attribute exists once in an organisation', async () => {
  expect((await service.operator('POST', `${base}/supplier-attributes`, { name: 'Region' })).status).toBe(201);
  expect((await service.operator('POST', `${base}/supplier-attributes`, { name: 'Region' })).status).toBe(409);
  const other = await service.organisation();
  expect(
    (await service.operator('POST', `/admin/organisations/${other.id}/supplier-attributes`, { name: 'Region' })).status,
  ).toBe(201);
});
