import type { Express } from 'express';
import { describe, expect, test } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { startTestApplication } from './test-application.ts';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('request ids', () => {
  test('a valid id of the caller is kept, also on an error', async () => {
    const { url } = await startTestApplication();
    for (const path of ['/healthz', '/nothing-here', '/notes']) {
      const answer = await fetch(url + path, { headers: { 'x-request-id': 'order-4711:a.b_c' } });
      expect(answer.headers.get('x-request-id')).toBe('order-4711:a.b_c');
    }
  });

  test.each([
    ['', 'empty'],
    ['a b', 'a space'],
    ['<script>', 'markup'],
    ['x'.repeat(129), 'too long'],
  ])('%o (%s) is replaced by one of our own', async (given) => {
    const { url } = await startTestApplication();
    const answer = await fetch(`${url}/healthz`, { headers: { 'x-request-id': given } });
    expect(answer.headers.get('x-request-id')).toMatch(uuid);
  });

  test('every request gets an id of its own', async () => {
    const { url } = await startTestApplication();
    const [first, second] = await Promise.all([fetch(`${url}/healthz`), fetch(`${url}/nothing-here`)]);
    expect(first.headers.get('x-request-id')).toMatch(uuid);
    expect(second.headers.get('x-request-id')).toMatch(uuid);
    expect(second.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
  });
});

describe('unknown and invalid paths', () => {
  test('an unknown path is a 404 problem that names the path', async () => {
    const { url } = await startTestApplication();
    const answer = await fetch(`${url}/nothing-here?key=secret`);
    expect(answer.status).toBe(404);
    expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect(await answer.json()).toEqual({
      type: 'about:blank',
      title: 'Not found',
      status: 404,
      detail: 'There is nothing at /nothing-here.',
    });
  });

  test('paths are case sensitive', async () => {
    const { url } = await startTestApplication();
    const headers = { authorization: 'Bearer good' };
    expect((await fetch(`${url}/notes`, { headers })).status).toBe(200);
    expect((await fetch(`${url}/Notes`, { headers })).status).toBe(404);
  });

  test.each(['/notes/%zz', '/notes/%ff', '/%', '/nothing/%c3%28'])(
    'the path %s, which is not percent-encoded UTF-8, is a 400 problem',
    async (path) => {
      const { url, logged } = await startTestApplication();
      const answer = await fetch(url + path, { headers: { authorization: 'Bearer good' } });
      expect(answer.status).toBe(400);
      expect(answer.headers.get('x-request-id')).toMatch(uuid);
      expect(((await answer.json()) as { detail: string }).detail).toMatch(/path is not valid percent-encoded/);
      expect(logged()).toEqual([]);
    },
  );

  test('the answer does not name the framework', async () => {
    const { url } = await startTestApplication();
    expect((await fetch(`${url}/nothing-here`)).headers.get('x-powered-by')).toBeNull();
  });
});

describe('a handler that throws', () => {
  const secret = 'connect to 10.0.0.5 as root failed';
  const throwing = (error: unknown) => ({
    more: (app: Express) =>
      void app.get('/broken', async () => {
        throw error;
      }),
  });

  test.each([
    ['an unknown error', new Error(secret)],
    ['an internal error of our own', new AppError('internal', secret, { issues: [{ path: secret, message: secret }] })],
    ['what looks like an HTTP error', Object.assign(new Error(secret), { status: 400 })],
    ['a URIError', new URIError(secret)],
    ['text', secret],
    ['nothing', undefined],
  ])(
    '%s is a 500 problem that says nothing of the inside, and one error line with the request id',
    async (_, error) => {
      const { url, logged } = await startTestApplication(throwing(error));
      const answer = await fetch(`${url}/broken`, { headers: { 'x-request-id': 'the-broken-one' } });
      expect(answer.status).toBe(500);
      const text = await answer.text();
      expect(text).not.toMatch(/10\.0\.0\.5|root|at .*\.ts/);
      expect(JSON.parse(text)).toEqual({
        type: 'about:blank',
        title: 'Internal error',
        status: 500,
        detail: 'Something went wrong on our side. The request id identifies it in our logs.',
      });
      const lines = logged();
      expect(lines).toHaveLength(1);
      expect(lines[0]).toMatchObject({ level: 'error', requestId: 'the-broken-one' });
      expect(JSON.stringify(lines[0])).toContain(error === undefined ? 'Rejected promise' : secret);
    },
  );

  test('an unavailable part is a 503 and one warning, not an error', async () => {
    const { url, logged } = await startTestApplication(throwing(new AppError('unavailable', 'The database is away.')));
    const answer = await fetch(`${url}/broken`);
    expect(answer.status).toBe(503);
    expect(logged()).toMatchObject([{ level: 'warn' }]);
  });

  test('an outage writes one warning for each route in a second, however many requests there are', async () => {
    const away = new AppError('unavailable', 'The database is away.');
    const { url, logged } = await startTestApplication(throwing(away));
    for (let request = 0; request < 20; request += 1) await (await fetch(`${url}/broken`)).text();
    expect(logged().length).toBeLessThan(20);
  });

  test("the caller's own faults are not logged", async () => {
    const { url, logged } = await startTestApplication(throwing(new AppError('conflict', 'The event is closed.')));
    expect((await fetch(`${url}/broken`)).status).toBe(409);
    expect(logged()).toEqual([]);
  });

  test('after the headers were sent the connection is closed, so that half an answer is not taken for a whole one', async () => {
    const { url } = await startTestApplication({
      more: (app) =>
        void app.get('/half', async (_request, response) => {
          response.write('{"half":');
          throw new Error('broke');
        }),
    });
    await expect(fetch(`${url}/half`).then((answer) => answer.text())).rejects.toThrow('terminated');
  });
});

describe('/healthz, /readyz and /metrics', () => {
  test('/healthz answers while every readiness check fails', async () => {
    const { url } = await startTestApplication({ readiness: { database: () => Promise.reject(new Error('away')) } });
    const answer = await fetch(`${url}/healthz`);
    expect([answer.status, await answer.json()]).toEqual([200, { status: 'ok' }]);
    expect(answer.headers.get('cache-control')).toBe('no-store');
  });

  test('/readyz is 200 when every check passes', async () => {
    const { url } = await startTestApplication({
      readiness: { database: async () => 1, queue: async () => undefined },
    });
    const answer = await fetch(`${url}/readyz`);
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ status: 'ready', checks: { database: 'ok', queue: 'ok' } });
  });

  test('/readyz is 503 and names each check: one that rejects, one that throws and one that hangs have failed', async () => {
    const { url } = await startTestApplication({
      readinessTimeoutMs: 20,
      readiness: {
        good: async () => 1,
        rejects: () => Promise.reject(new Error('password=hunter2')),
        says: () => Promise.reject(new AppError('unavailable', 'The database is read-only.')),
        throws: () => {
          throw new Error('away');
        },
        hangs: () => new Promise(() => undefined),
      },
    });
    const answer = await fetch(`${url}/readyz`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({
      status: 'not ready',
      checks: { good: 'ok', rejects: 'failed', says: 'failed', throws: 'failed', hangs: 'failed' },
      reasons: { says: 'The database is read-only.', hangs: 'There was no answer within 0.02 s.' },
    });
  });

  test('from the beginning of the shutdown /readyz fails and new requests get 503 with Retry-After', async () => {
    const { application, url, logged } = await startTestApplication();
    application.beginShutdown();
    const ready = await fetch(`${url}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([503, { status: 'shutting down', checks: {} }]);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const answer = await fetch(`${url}/notes`, { headers: { authorization: 'Bearer good' } });
    expect(answer.status).toBe(503);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await answer.json()).toMatchObject({ status: 503, title: 'Unavailable' });
    expect(logged()).toEqual([]);
  });

  test.each(['/healthz', '/readyz', '/metrics'])('%s takes GET and HEAD only', async (path) => {
    const { url } = await startTestApplication();
    const head = await fetch(url + path, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    const post = await fetch(url + path, { method: 'POST' });
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  test('the metrics count requests by method, route and status, never by the path itself', async () => {
    const { url } = await startTestApplication();
    const headers = { authorization: 'Bearer good' };
    for (const path of ['/notes/first-value', '/notes/second-value', '/nothing-here', '/notes/%zz', '/healthz'])
      await fetch(url + path, { headers });
    await fetch(`${url}/notes/third-value`, { method: 'PUT', headers });
    const answer = await fetch(`${url}/metrics`);
    expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    const text = await answer.text();
    const count = (method: string, route: string, status: number) =>
      Number(
        text
          .split('\n')
          .find((line) =>
            line.startsWith(
              `http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"}`,
            ),
          )
          ?.split(' ')[1] ?? 0,
      );
    expect(count('GET', '/notes/:id', 200)).toBe(2);
    expect(count('PUT', '/notes/:id', 405)).toBe(1);
    expect(count('GET', 'none', 404)).toBe(1);
    expect(count('GET', 'none', 400)).toBe(1);
    expect(count('GET', '/healthz', 200)).toBe(1);
    expect(text).not.toMatch(/value|nothing-here|%zz/);
  });

  test('two applications of one program share the histogram', async () => {
    const first = await startTestApplication();
    const second = await startTestApplication({ registry: first.registry });
    await fetch(`${first.url}/healthz`);
    await fetch(`${second.url}/healthz`);
    expect(await (await fetch(`${first.url}/metrics`)).text()).toContain(
      'http_request_duration_seconds_count{method="GET",route="/healthz",status="200"} 2',
    );
  });
});

test.each([
  ['of a trusted proxy', () => true, { ip: '203.0.113.9', protocol: 'https' }],
  ['of anybody else', () => false, { ip: '127.0.0.1', protocol: 'http' }],
  ['by default', undefined, { ip: '127.0.0.1', protocol: 'http' }],
])('X-Forwarded-For and X-Forwarded-Proto: %s', async (_what, trustsProxy, expected) => {
  const { url } = await startTestApplication({
    trustsProxy,
    more: (app) => void app.get('/who', ({ ip, protocol }, response) => void response.json({ ip, protocol })),
  });
  const headers = { 'X-Forwarded-For': '203.0.113.9', 'X-Forwarded-Proto': 'https' };
  expect(await (await fetch(`${url}/who`, { headers })).json()).toEqual(expected);
});
