import { expect, test } from 'vitest';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
const hook = { name: 'ERP', url: 'https://localhost:9443/hook?tenant=1', triggers: ['AWARDS_FEED_UPDATED', 'TEST'] };
const create = (changes: object = {}) => organisation.call('POST', '/api/webhooks', { ...hook, ...changes });
const domains = (...list: string[]) =>
  service.operator('PUT', `/admin/organisations/${organisation.id}/webhook-domains`, { domains: list });

test('the answer to a creation has the signing key, and no other answer has it', async () => {
  const made = await create({ description: 'to the inbox' });
  expect(made.status).toBe(201);
  expect(made.headers.get('location')).toBe(`/api/webhooks/${made.body.uuid}`);
  const { signing_key: signingKey, ...fields } = made.body;
  expect(fields).toEqual({
    uuid: expect.stringMatching(/^[0-9a-f-]{36}$/),
    name: 'ERP',
    description: 'to the inbox',
    url: hook.url,
    triggers: '[AWARDS_FEED_UPDATED, TEST]',
    signing_alg: 'HMAC_SHA256',
    is_active: true,
  });
  // 256 random bits in Base64.
  expect(signingKey).toMatch(/^[\w-]{43}$/);
  expect((await organisation.call('GET', `/api/webhooks/${fields.uuid}`)).body).toEqual(fields);
  const list = await organisation.call('GET', '/api/webhooks?page_size=1000');
  expect(list.body.result).toContainEqual(fields);
  expect(JSON.stringify(list.body)).not.toContain('signing_key');
  expect((await create()).body.signing_key).not.toBe(signingKey);
});

test('triggers are shown in the order of the request', async () => {
  expect((await create({ triggers: ['TEST', 'JOB_UPDATED', 'AWARDS_FEED_UPDATED'] })).body.triggers).toBe(
    '[TEST, JOB_UPDATED, AWARDS_FEED_UPDATED]',
  );
});

test.each<[string, object, string]>([
  ['http', { url: 'http://localhost/hook' }, 'url'],
  ['no URL', { url: 'localhost/hook' }, 'url'],
  ['another scheme', { url: 'ftp://localhost/hook' }, 'url'],
  ['credentials', { url: 'https://user:pa55word@localhost/hook' }, 'url'],
  ['a host that is not whitelisted', { url: 'https://elsewhere.example/hook' }, 'url'],
  ['a host that only ends like a whitelisted one', { url: 'https://notlocalhost/hook' }, 'url'],
  ['a subdomain of a whitelisted host', { url: 'https://a.localhost/hook' }, 'url'],
  ['an address behind a whitelisted name', { url: 'https://127.0.0.1/hook' }, 'url'],
  ['an unknown trigger', { triggers: ['AWARDS'] }, 'triggers[0]'],
  ['no trigger', { triggers: [] }, 'triggers'],
  ['a trigger twice', { triggers: ['TEST', 'TEST'] }, 'triggers'],
  ['triggers as answers show them', { triggers: '[TEST]' }, 'triggers'],
  ['another algorithm', { signing_alg: 'HMAC_SHA512' }, 'signing_alg'],
  ['a key of the caller', { signing_key: 'x' }, 'signing_key'],
])('%s: refused with the path of the fault', async (_what, changes, path) => {
  const answer = await create(changes);
  expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
  expect(JSON.stringify(answer.body)).not.toContain('pa55word');
});

test('a wildcard covers subdomains of any depth, and not the domain itself', async () => {
  await domains('localhost', '*.example.org', '203.0.113.7');
  const status = async (url: string) => (await create({ url })).status;
  expect(await status('https://a.example.org/')).toBe(201);
  expect(await status('https://a.b.EXAMPLE.org:8443/')).toBe(201);
  expect(await status('https://203.0.113.7/')).toBe(201);
  expect(await status('https://example.org/')).toBe(400);
  expect(await status('https://badexample.org/')).toBe(400);
  expect(await status('https://203.0.113.8/')).toBe(400);
});

test('a deleted webhook is gone, with its notifications', async () => {
  const { uuid } = (await create()).body;
  await organisation.call('POST', `/api/webhooks/${uuid}/test`);
  const answer = await organisation.call('DELETE', `/api/webhooks/${uuid}`);
  expect([answer.status, answer.body]).toEqual([204, '']);
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/test'],
  ] as const)
    expect((await organisation.call(method, `/api/webhooks/${uuid}${path}`)).status).toBe(404);
  expect(await service.db.database.query('select from service.deliveries where webhook_id = $1', [uuid])).toEqual([]);
});

test('the list is paged, with absolute links; a page beyond the end is empty and has the count', async () => {
  const other = await service.organisation();
  for (let number = 1; number <= 5; number += 1)
    await other.call('POST', '/api/webhooks', { ...hook, name: `h${number}` });
  const page = async (query: string) => (await other.call('GET', `/api/webhooks${query}`)).body;
  const names = (body: { result: { name: string }[] }) => body.result.map(({ name }) => name);
  const link = (number: number) => `${service.url}/api/webhooks?page_number=${number}&page_size=2`;
  const first = await page('?page_size=2');
  expect(names(first)).toEqual(['h1', 'h2']);
  expect(first).toMatchObject({ count: 5, page_size: 2, page_number: 1, num_pages: 3, next: link(2), previous: null });
  expect(first).toMatchObject({ used_endpoints: ['/api/webhooks'], gsn: 0, includes: {}, extras: {} });
  const last = await page('?page_size=2&page_number=3');
  expect(names(last)).toEqual(['h5']);
  expect(last).toMatchObject({ next: null, previous: link(2) });
  const beyond = await page('?page_size=2&page_number=9');
  expect(beyond).toMatchObject({ result: [], count: 5, page_number: 9, num_pages: 3, next: null, previous: link(3) });
  expect(await page('')).toMatchObject({ count: 5, page_size: 20, num_pages: 1, next: null, previous: null });
});
