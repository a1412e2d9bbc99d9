import type { ServerResponse } from 'node:http';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createMemoryQuotas } from '#client/memory-quotas.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { AppError } from '#platform/errors.ts';
import { type TestClock, testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { json, type ScriptedAnswer, type ScriptedService, startScriptedService, status } from './scripted-service.ts';

const apiKey = 'secret-api-key';
const retries = 2;

let service: ScriptedService;
let client: SourceClient;
let clock: TestClock;
let seen: string[];

beforeEach(async () => {
  clock = testClock();
  seen = [];
  service = await startScriptedService();
  client = createSourceClient({
    settings: { baseUrl: `${service.url}/`, apiKey, timeoutMs: 2_000, retries },
    fetch: testOutgoing().fetch,
    clock,
    onRequest: ({ bucket, status: outcome }) => seen.push(`${bucket} ${outcome}`),
  });
});
afterEach(() => service.close());

const page = (body: Record<string, unknown> = {}) =>
  json({ data: [], next: null, ...body }, { 'feed-order': 'commit' });

const first = { modifiedAfter: undefined, pageSize: 100 };
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as AppError,
  );

describe('a compressed answer', () => {
  const packed =
    (encoding: string, bytes: Buffer, code = 200) =>
    (response: ServerResponse) => {
      response.writeHead(code, { 'content-type': 'application/json', 'content-encoding': encoding }).end(bytes);
    };
  const body = JSON.stringify({ data: [{ id: 'größe' }], next: null });

  test('is requested, and read', async () => {
    service.answers = [packed('br', brotliCompressSync(body))];
    expect((await client.readFeed('awards', first)).records).toEqual([{ id: 'größe' }]);
    expect(service.requests[0]?.headers['accept-encoding']).toBe('gzip, br, deflate');
  });

  test('of an error still has the detail of its problem', async () => {
    const problem = { type: 'about:blank', title: 'Forbidden', status: 403, detail: 'The key lacks the scope.' };
    service.answers = [packed('gzip', gzipSync(JSON.stringify(problem)), 403)];
    expect((await failureOf(client.readFeed('awards', first))).message).toContain('The key lacks the scope.');
  });

  test('that cannot be decompressed is a transient error', async () => {
    service.answers = [packed('gzip', gzipSync(body).subarray(0, 20)), page()];
    expect((await client.readFeed('awards', first)).records).toEqual([]);
  });

  test('is read by its charset, and bytes that are not of it are refused', async () => {
    const latin1 = Buffer.from(body, 'latin1');
    const sentAs = (type: string) => (response: ServerResponse) =>
      response.writeHead(200, { 'content-type': type }).end(latin1);
    service.answers = [sentAs('application/json; charset=ISO-8859-1')];
    expect((await client.readFeed('awards', first)).records).toEqual([{ id: 'größe' }]);
    service.answers = [sentAs('application/json')];
    expect((await failureOf(client.readFeed('awards', first))).message).toContain('has bytes that are not UTF-8');
  });

  test.each([200, 500])('with status %i that is nothing but brackets does not fill the memory', async (code) => {
    service.answers = [
      (response) => response.writeHead(code, { 'content-type': 'application/json' }).end('['.repeat(16 * 2 ** 20)),
    ];
    const failure = await failureOf(client.readFeed('awards', first));
    expect(failure.message).toMatch(code === 200 ? /nested deeper than 100 levels/ : /answered with 500\.$/);
  });

  test('that decompresses to more than the limit is refused, and not requested again', async () => {
    service.answers = [packed('gzip', gzipSync(Buffer.alloc(65 * 1024 * 1024, ' ')))];
    const failure = await failureOf(client.readFeed('awards', first));
    expect([failure.code, service.requests.length]).toEqual(['too-large', 1]);
  });
});

describe('a feed page', () => {
  test('is requested with the key in the header only, and with the exact time', async () => {
    service.answers = [page()];
    await client.readFeed('awards', { modifiedAfter: '2030-01-01T00:00:00.000001Z', pageSize: 7 });
    const [asked] = service.requests;
    expect(asked?.headers.authorization).toBe(`Bearer ${apiKey}`);
    const url = new URL(asked?.url ?? '', service.url);
    expect(url.pathname).toBe('/api/feeds/awards');
    expect(Object.fromEntries(url.searchParams)).toEqual({
      page_size: '7',
      modified_after: '2030-01-01T00:00:00.000001Z',
    });
  });

  test('keeps unknown fields and values', async () => {
    const record = { id: 'a', status: 'OF_TOMORROW', new_field: { deep: [1] }, modified: 'x' };
    service.answers = [page({ data: [record], includes: {}, another: 1 })];
    expect(await client.readFeed('awards', first)).toMatchObject({ records: [record], next: undefined });
  });

  test('is in commit order only if the header says so', async () => {
    const orders: Record<string, string>[] = [{}, { 'feed-order': 'modified' }];
    for (const headers of orders) {
      service.answers = [json({ data: [], next: null }, headers)];
      expect((await client.readFeed('awards', first)).commitOrdered).toBe(false);
    }
  });

  test.each([
    ['https://elsewhere.example/api/feeds/awards?cursor=abc%2F&page_size=7'],
    ['http://169.254.169.254/latest/meta-data?cursor=abc%2F&page_size=7'],
    ['/admin/organisations?cursor=abc%2F&page_size=7'],
    ['?cursor=abc%2F&page_size=7'],
    ['//elsewhere.example?cursor=abc%2F&page_size=7#fragment'],
  ])('is followed only by the query of its next link: %s', async (next) => {
    service.answers = [page({ next }), page()];
    const { next: query } = await client.readFeed('awards', first);
    await client.readFeed('awards', { next: query ?? '' });
    expect(service.requests[1]?.url).toBe('/api/feeds/awards?cursor=abc%2F&page_size=7');
    expect(service.requests).toHaveLength(2);
  });

  test.each(['/api/feeds/awards', 'http://[', ''])('whose next link has no query (%s) is refused', async (next) => {
    service.answers = [page({ next })];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({ recovery: { do: 'halt' } });
  });

  test.each([
    ['no data', {}],
    ['data that is no list', { data: {} }],
    ['records that are no objects', { data: [1] }],
    ['a next that is no text', { data: [], next: 5 }],
  ])('with %s is refused', async (_what, body) => {
    service.answers = [json(body)];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({ code: 'invalid' });
  });
});

describe('a transient error', () => {
  test.each([500, 408, 429])('%i is retried', async (code) => {
    service.answers = [status(code), status(code), page()];
    await client.readFeed('awards', first);
    expect(service.requests).toHaveLength(3);
  });

  test('is thrown after the last attempt', async () => {
    service.answers = [status(500)];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({
      code: 'unavailable',
      recovery: { do: 'retry' },
    });
    expect(service.requests).toHaveLength(retries + 1);
  });

  test('is not retried before Retry-After is over', async () => {
    service.answers = [status(429, { 'retry-after': '3' }), page()];
    await client.readFeed('awards', first);
    expect(clock.slept).toEqual([3_000]);
  });

  test('that asks for a long wait is thrown at once, with the wait', async () => {
    service.answers = [status(503, { 'retry-after': '600' })];
    const error = await failureOf(client.readFeed('awards', first));
    expect(error).toMatchObject({ recovery: { do: 'retry', afterMs: 600_000 } });
    expect(service.requests).toHaveLength(1);
    expect(clock.slept).toEqual([]);
  });

  test('that asks for a minute is waited for by a command, which has no schedule', async () => {
    const longestWaitMs = 90_000;
    const command = createSourceClient({
      settings: { baseUrl: service.url, apiKey, timeoutMs: 2_000, retries, longestWaitMs },
      fetch: testOutgoing().fetch,
      clock,
      quotas: createMemoryQuotas(clock, () => undefined, longestWaitMs),
    });
    service.answers = [status(429, { 'retry-after': '60' }), page()];
    await command.readFeed('awards', first);
    expect(clock.slept).toEqual([60_000]);
  });

  test.each<[string, (response: ServerResponse) => void]>([
    ['a connection that breaks', (response) => response.destroy()],
    [
      'a body that breaks off',
      (response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('{"data":[');
        setImmediate(() => response.destroy());
      },
    ],
  ])('%s is retried', async (_what, broken) => {
    service.answers = [broken, page()];
    await client.readFeed('awards', first);
    expect(service.requests).toHaveLength(2);
    service.answers = [broken];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({ recovery: { do: 'retry' } });
  });
});

describe('an answer of 200 without a result', () => {
  test.each<[string, ScriptedAnswer]>([
    ['an empty body', status(200)],
    ['a page of a proxy', (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
    ['JSON that is cut short', json('{"data":[{"id":"a"}')],
    [
      'text that is not UTF-8',
      (response) => response.writeHead(200).end(Buffer.from('{"data":[],"x":"\xe4"}', 'latin1')),
    ],
    ['a 304 to a request without If-None-Match', status(304)],
    ['a transient problem', json({ title: 'Busy', status: 503, detail: 'Later.' })],
    [
      'a problem by its content type',
      json({ title: 'Error', detail: 'Later.' }, { 'content-type': 'application/problem+json' }),
    ],
  ])('%s is retried, and then thrown as a transient error', async (_what, broken) => {
    service.answers = [broken, page()];
    expect((await client.readFeed('awards', first)).records).toEqual([]);
    service.answers = [broken];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({
      code: 'unavailable',
      recovery: { do: 'retry' },
    });
  });

  test('a permanent problem is thrown as the error of its status', async () => {
    service.answers = [json({ title: 'Forbidden', status: 403, detail: 'The key lacks the scope.' })];
    const error = await failureOf(client.readFeed('awards', first));
    expect(error).toMatchObject({ code: 'forbidden', recovery: { do: 'halt' } });
    expect(error.message).toBe('GET /api/feeds/awards was answered with 403 (sent as 200): The key lacks the scope.');
  });

  test('the error of an answer of another content type names the type', async () => {
    service.answers = [
      (response) => response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end('<html>'),
    ];
    expect((await failureOf(client.readFeed('awards', first))).message).toContain('is not JSON (text/html)');
  });

  test.each([
    [
      'another origin',
      301,
      'https://elsewhere.example/api/feeds/awards/?key=x',
      'https://elsewhere.example/api/feeds/awards/',
    ],
    ['another path', 308, '/login/?from=awards', '/login/'],
    ['the parent of a path', 301, '/api/feeds/', '/api/feeds/'],
    ['the same path', 301, '/api/feeds/awards', '/api/feeds/awards'],
    ['a path with a slash, for now', 302, '/api/feeds/awards/', '/api/feeds/awards/'],
    [
      'a path with a slash at another port',
      301,
      'http://127.0.0.1:1/api/feeds/awards/',
      'http://127.0.0.1:1/api/feeds/awards/',
    ],
  ])(
    'a redirect to %s is not followed, and the error names it and the setting to check',
    async (_to, code, to, shown) => {
      service.answers = [status(code, { location: to })];
      const { message } = await failureOf(client.readFeed('awards', first));
      const target = shown.startsWith('/') ? service.url + shown : shown;
      expect(message).toContain(`a redirect to ${target}, which is not followed: check base_url.`);
      expect(service.requests).toHaveLength(1);
    },
  );

  test.each([301, 308])(
    'a %i to the same path with a slash is followed once, with the query and the key',
    async (code) => {
      service.answers = [status(code, { location: '/api/feeds/awards/' }), page({ data: [{ id: 'a' }] }), page()];
      const at = { modifiedAfter: '2030-01-01T00:00:00.000000Z', pageSize: 100 };
      expect((await client.readFeed('awards', at)).records).toEqual([{ id: 'a' }]);
      const query = 'page_size=100&modified_after=2030-01-01T00%3A00%3A00.000000Z';
      // It is remembered: the next request needs no redirect.
      await client.readFeed('awards', at);
      expect(service.requests.map(({ url }) => url)).toEqual([
        `/api/feeds/awards?${query}`,
        `/api/feeds/awards/?${query}`,
        `/api/feeds/awards/?${query}`,
      ]);
      expect(service.requests.map(({ headers }) => headers.authorization)).toEqual(Array(3).fill(`Bearer ${apiKey}`));
    },
  );

  test('a second redirect is not followed, and the first one is forgotten', async () => {
    const moved = status(301, { location: '/api/feeds/awards/' });
    service.answers = [moved, moved, page()];
    expect((await failureOf(client.readFeed('awards', first))).message).toContain('which is not followed');
    expect(service.requests).toHaveLength(2);
    service.answers = [page()];
    await client.readFeed('awards', first);
    expect(service.requests.at(-1)?.url).toBe('/api/feeds/awards?page_size=100');
  });

  test('a redirect of a call that writes is not followed', async () => {
    service.answers = [status(308, { location: '/api/webhooks/' })];
    const made = client.call({ method: 'POST', path: '/api/webhooks', body: {} }, z.unknown());
    expect((await failureOf(made)).message).toContain('which is not followed');
    expect(service.requests).toHaveLength(1);
  });
});

test('a number that a double cannot represent keeps its digits', async () => {
  service.answers = [json('{"data":[{"id":12345678901234567,"cost":1234567890123456.78}],"next":null}')];
  const { records } = await client.readFeed('awards', first);
  expect(records).toEqual([{ id: '12345678901234567', cost: '1234567890123456.78' }]);
});

test('a Retry-After with a date is counted from now', async () => {
  service.answers = [status(503, { 'retry-after': 'Tue, 01 Jan 2030 00:00:04 GMT' }), page()];
  await client.readFeed('awards', first);
  expect(clock.slept).toEqual([4_000]);
});

test.each([
  [{ ratelimit: '"burst";r=0;t=3, "sustained";r=9;t=3600' }, 3_000],
  [{ 'ratelimit-limit': '60', 'ratelimit-remaining': '0', 'ratelimit-reset': '4' }, 4_000],
  [{ 'retry-after': '2', 'ratelimit-reset': '4' }, 2_000],
])('a 429 waits as long as its headers say: %j', async (headers, ms) => {
  service.answers = [status(429, headers), page()];
  await client.readFeed('awards', first);
  expect(clock.slept).toEqual([ms]);
});

describe('each request is reported', () => {
  test('with the limit that it counts against and its outcome', async () => {
    service.answers = [status(500), (response) => void response.destroy(), page()];
    await client.readFeed('awards', first);
    service.answers = [json({ id: 'a' })];
    await client.call({ method: 'GET', path: '/desk/events' }, z.unknown());
    expect(seen).toEqual(['feeds.awards 500', 'feeds.awards reset', 'feeds.awards 200', 'none 200']);
  });

  test('also a download of a file', async () => {
    service.answers = [status(200), (response) => void response.destroy()];
    await client.download(`${service.url}/file`);
    await failureOf(client.download(`${service.url}/file`));
    expect(seen).toEqual(['downloads 200', 'downloads reset']);
  });
});

describe('a permanent error', () => {
  test.each([
    [400, 'invalid'],
    [401, 'unauthorized'],
    [404, 'not-found'],
    [409, 'conflict'],
  ])('%i is thrown at once', async (code, kind) => {
    service.answers = [status(code)];
    const error = await failureOf(client.readFeed('awards', first));
    expect(error).toMatchObject({ code: kind, recovery: { do: 'halt' } });
    expect(service.requests).toHaveLength(1);
  });

  test('403 with an empty body is a key that the service does not know; with words, one that may not do this', async () => {
    service.answers = [status(403)];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({
      code: 'unauthorized',
      recovery: { do: 'halt' },
      publicMessage: 'GET /api/feeds/awards was answered with 403 and an empty body: the API key is wrong or revoked.',
    });
    service.answers = [json({ detail: 'The key lacks the scope.' }, {}, 403)];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({ code: 'forbidden' });
    expect(service.requests).toHaveLength(2);
  });

  test.each([
    [{ errors: ['Not today.', 'Not here.'], field_errors: {} }, 'Not today.; Not here.'],
    [
      { errors: [], field_errors: { 'bid_sheet.columns': ['Is required.'], name: ['Too long.', 'Too odd.'] } },
      'bid_sheet.columns: Is required.; name: Too long.; name: Too odd.',
    ],
    [{ errors: ['Wrong.'], field_errors: { name: 'Too long.' } }, 'Wrong.; name: Too long.'],
    [
      { detail: 'Two are wrong.', errors: [{ path: 'name', message: 'is too long' }, { message: 'is odd' }] },
      'Two are wrong.; name: is too long; is odd',
    ],
    [{ detail: 'name: is too long', errors: [{ path: 'name', message: 'is too long' }] }, 'name: is too long'],
    [{ errors: [{ code: 7 }] }, '{"code":7}'],
    [{ errors: 'Wrong.' }, 'Wrong.'],
  ])('shows what the service says is wrong: %j', async (body, words) => {
    service.answers = [json(body, {}, 400)];
    expect((await failureOf(client.readFeed('awards', first))).publicMessage).toBe(
      `GET /api/feeds/awards was answered with 400: ${words}`,
    );
  });

  test('has the code of its status, also when its page cannot be read', async () => {
    const pages: Record<string, Buffer> = { identity: Buffer.from('zugriff verweigert für sie', 'latin1') };
    for (const encoding of ['deflate', 'gzip']) pages[encoding] = Buffer.from('not packed so');
    for (const [encoding, bytes] of Object.entries(pages)) {
      service.requests.length = 0;
      service.answers = [(response) => response.writeHead(403, { 'content-encoding': encoding }).end(bytes)];
      expect(await failureOf(client.readFeed('awards', first))).toMatchObject({
        code: 'forbidden',
        publicMessage: 'GET /api/feeds/awards was answered with 403.',
      });
      expect(service.requests).toHaveLength(1);
    }
  });

  test("has the service's own text, without the key that some services repeat", async () => {
    const detail = `The key ${apiKey} lacks the scope feeds.${'x'.repeat(5_000)}`;
    service.answers = [json({ type: 'about:blank', title: 'Forbidden', status: 403, detail }, {}, 403)];
    const error = await failureOf(client.readFeed('awards', first));
    expect(error.message).toContain('GET /api/feeds/awards was answered with 403: The key [secret] lacks');
    expect(error.message.length).toBeLessThan(700);
    for (const text of [error.message, error.publicMessage, String(error.stack)]) expect(text).not.toContain(apiKey);
  });

  test('never shows the key or the query, whatever goes wrong', async () => {
    const broken: typeof service.answers = [
      (response) => response.destroy(),
      status(500),
      json({ data: apiKey }),
      (response) => response.writeHead(200).end(apiKey),
    ];
    for (const answer of broken) {
      service.answers = [answer];
      const error = await failureOf(client.readFeed('awards', { next: 'cursor=secret-cursor' }));
      expect(error).toBeInstanceOf(AppError);
      for (const text of [error.message, error.publicMessage, String(error.stack), String(error.cause)])
        expect(text).not.toMatch(/secret-/);
    }
  });
});

describe('a POST', () => {
  const ok = z.looseObject({ id: z.string() });

  test('without an idempotency key is never sent twice', async () => {
    for (const broken of [status(500), status(429), (response: ServerResponse) => void response.destroy()]) {
      service.requests.length = 0;
      service.answers = [broken, json({ id: 'a' })];
      await failureOf(client.call({ method: 'POST', path: '/api/jobs', body: {} }, ok));
      expect(service.requests).toHaveLength(1);
    }
  });

  test('with one is sent again under the same key', async () => {
    service.answers = [(response) => response.destroy(), json({ id: 'a', more: 1 }, {}, 202)];
    const read = await client.call({ method: 'POST', path: '/api/jobs', body: {}, idempotencyKey: 'once' }, ok);
    expect(read).toEqual({ id: 'a', more: 1 });
    expect(service.requests.map(({ headers }) => headers['idempotency-key'])).toEqual(['once', 'once']);
  });

  test('that is answered without a body returns undefined', async () => {
    service.answers = [status(204)];
    expect(await client.call({ method: 'POST', path: '/api/x' }, z.undefined())).toBeUndefined();
  });
});

test('an abort ends the call, also between two attempts', async () => {
  const stop = new AbortController();
  service.answers = [
    (response) => {
      response.writeHead(500).end();
      setImmediate(() => stop.abort(new Error('the process stops')));
    },
  ];
  await failureOf(client.readFeed('awards', first, stop.signal));
  expect(service.requests.length).toBeLessThanOrEqual(2);
  await failureOf(client.readFeed('awards', first, stop.signal));
  expect(service.requests.length).toBeLessThanOrEqual(2);
});
