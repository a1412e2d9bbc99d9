/** Cross-origin requests: what a browser must be told, and what it must not be told. Source: the Fetch standard. */
import { describe, expect, test } from 'vitest';
import type { ApplicationOptions } from '#platform/http/application.ts';
import { startTestApplication } from './test-application.ts';

const page = 'https://app.example.com';
const cors = { origins: [page, 'http://localhost:5173'], paths: ['/notes'] };
const good = { authorization: 'Bearer good' };

async function ask(
  method: string,
  path: string,
  headers: Record<string, string>,
  options: Partial<ApplicationOptions> = { cors },
) {
  const { url } = await startTestApplication(options);
  const answer = await fetch(url + path, { method, headers });
  const sent = [...answer.headers].filter(([name]) => name.startsWith('access-control-'));
  return { status: answer.status, vary: answer.headers.get('vary') ?? '', cors: Object.fromEntries(sent) };
}

const preflight = (origin: string) => ({
  origin,
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization,idempotency-key,if-none-match',
});

test('an origin that is listed reads the answer, and the headers that a client of the API needs', async () => {
  const { status, vary, cors: sent } = await ask('GET', '/notes', { ...good, origin: page });
  expect([status, sent['access-control-allow-origin']]).toEqual([200, page]);
  expect(vary).toContain('Origin');
  const exposed = sent['access-control-expose-headers']?.split(', ');
  expect(exposed).toEqual(
    expect.arrayContaining(['ETag', 'Location', 'RateLimit', 'RateLimit-Policy', 'Retry-After', 'X-Request-Id']),
  );
});

test('a preflight needs no key, and allows the methods and headers of the API', async () => {
  const { status, cors: sent } = await ask('OPTIONS', '/notes/1', preflight(page));
  expect([status, sent['access-control-allow-origin']]).toEqual([204, page]);
  expect(sent['access-control-allow-methods']?.split(', ').sort()).toEqual([
    'DELETE',
    'GET',
    'HEAD',
    'PATCH',
    'POST',
    'PUT',
  ]);
  const allowed = sent['access-control-allow-headers']?.split(', ');
  expect(allowed).toEqual(
    expect.arrayContaining(['Authorization', 'Content-Type', 'Idempotency-Key', 'If-None-Match']),
  );
});

test('a refusal can be read by the page, too', async () => {
  for (const [method, path, headers] of [
    ['GET', '/notes', {}],
    ['GET', '/notes/1/2/3', good],
    ['PATCH', '/notes', good],
  ] as const) {
    const { status, cors: sent } = await ask(method, path, { ...headers, origin: page });
    expect([status >= 400, sent['access-control-allow-origin']]).toEqual([true, page]);
  }
});

describe('no header is sent', () => {
  test.each(['https://evil.example', 'https://app.example.com.evil.example', 'http://app.example.com', 'null', '*'])(
    'to the origin %s, which is not listed',
    async (origin) => {
      expect((await ask('GET', '/notes', { ...good, origin })).cors).toEqual({});
      expect(await ask('OPTIONS', '/notes', preflight(origin))).toMatchObject({ status: 405, cors: {} });
    },
  );

  test('for a path that is not opened', async () => {
    expect((await ask('OPTIONS', '/touch', preflight(page))).cors).toEqual({});
    expect((await ask('GET', '/metrics', { origin: page })).cors).toEqual({});
  });

  test('unless it is set: the default is off', async () => {
    for (const options of [{}, { cors: { ...cors, origins: [] } }]) {
      expect((await ask('GET', '/notes', { ...good, origin: page }, options)).cors).toEqual({});
      expect((await ask('OPTIONS', '/notes', preflight(page), options)).status).toBe(405);
    }
  });

  test('that permits cookies, or any origin', async () => {
    for (const method of ['GET', 'OPTIONS']) {
      const { cors: sent } = await ask(method, '/notes', { ...good, ...preflight(page) });
      expect(sent).not.toHaveProperty('access-control-allow-credentials');
      expect(Object.values(sent)).not.toContain('*');
    }
  });
});

test('a cache is told that the answer depends on the origin, also when none was sent', async () => {
  const { vary, cors: sent } = await ask('GET', '/notes', good);
  expect(vary).toContain('Origin');
  expect(sent).toEqual({});
});
