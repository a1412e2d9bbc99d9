import type { IncomingMessage, ServerResponse } from 'node:http';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { AppError } from '#platform/errors.ts';
import { type HttpServer, listen } from '#platform/http/server.ts';
import { type TestClock, testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/programs.ts';

const apiKey = 'secret-api-key';
const retries = 2;

let server: HttpServer;
let client: SourceClient;
let clock: TestClock;
let requests: { method: string; url: string; headers: IncomingMessage['headers'] }[];
/** Answers one after the other; the last one goes on. */
let answers: ((response: ServerResponse) => void)[];

beforeEach(async () => {
  requests = [];
  clock = testClock();
  // A hand-made source: it answers what a test says.
  server = await listen(
    (request, response) => {
      requests.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers });
      request.resume();
      (answers.length > 1 ? answers.shift() : answers[0])?.(response);
    },
    { host: '127.0.0.1', port: 0 },
  );
  client = createSourceClient({
    settings: { baseUrl: `${server.url}/`, apiKey, timeoutMs: 2_000, retries },
    fetch: (await testOutgoing()).fetch,
    clock,
  });
});
afterEach(() => server.close(0));

const json =
  (body: unknown, headers: Record<string, string> = {}, status = 200) =>
  (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  };
const status =
  (code: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(code, headers).end();
  };
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

  test.each([
    ['gzip', gzipSync(body)],
    ['GZIP', gzipSync(body)],
    ['br', brotliCompressSync(body)],
    ['identity', Buffer.from(body)],
  ])('is asked for, and read: %s', async (encoding, bytes) => {
    answers = [packed(encoding, bytes)];
    expect((await client.readFeed('awards', first)).records).toEqual([{ id: 'größe' }]);
    expect(requests[0]?.headers['accept-encoding']).toBe('gzip, br');
  });

  test('that is refused still says why', async () => {
    const problem = { type: 'about:blank', title: 'Forbidden', status: 403, detail: 'The key lacks the scope.' };
    answers = [packed('gzip', gzipSync(JSON.stringify(problem)), 403)];
    expect((await failureOf(client.readFeed('awards', first))).message).toContain('The key lacks the scope.');
  });

  test.each([
    ['gzip', gzipSync(body).subarray(0, 20)],
    ['br', Buffer.from('not packed at all')],
    ['zstd', Buffer.from(body)],
  ])('that cannot be unpacked (%s) is a passing fault', async (encoding, bytes) => {
    answers = [packed(encoding, bytes), page()];
    expect((await client.readFeed('awards', first)).records).toEqual([]);
  });

  test('that unpacks to more than is allowed is given up, and not asked for again', async () => {
    answers = [packed('gzip', gzipSync(Buffer.alloc(65 * 1024 * 1024, ' ')))];
    const failure = await failureOf(client.readFeed('awards', first));
    expect([failure.code, requests.length]).toEqual(['too-large', 1]);
  });
});

describe('a feed page', () => {
  test('is asked for with the key in the header only, and the exact time', async () => {
    answers = [page()];
    await client.readFeed('awards', { modifiedAfter: '2030-01-01T00:00:00.000001Z', pageSize: 7 });
    const [asked] = requests;
    expect(asked?.headers.authorization).toBe(`Bearer ${apiKey}`);
    const url = new URL(asked?.url ?? '', server.url);
    expect(url.pathname).toBe('/api/feeds/awards');
    expect(Object.fromEntries(url.searchParams)).toEqual({
      page_size: '7',
      modified_after: '2030-01-01T00:00:00.000001Z',
    });
  });

  test('keeps fields and values that are not known', async () => {
    const record = { id: 'a', status: 'OF_TOMORROW', new_field: { deep: [1] }, modified: 'x' };
    answers = [page({ data: [record], includes: {}, another: 1 })];
    expect(await client.readFeed('awards', first)).toMatchObject({ records: [record], next: undefined });
  });

  test('declares its order in the header, or does not', async () => {
    const orders: Record<string, string>[] = [{}, { 'feed-order': 'modified' }];
    for (const headers of orders) {
      answers = [json({ data: [], next: null }, headers)];
      expect((await client.readFeed('awards', first)).commitOrdered).toBe(false);
    }
  });

  test.each([
    ['https://elsewhere.example/api/feeds/awards?cursor=abc%2F&page_size=7'],
    ['http://169.254.169.254/latest/meta-data?cursor=abc%2F&page_size=7'],
    ['/admin/organisations?cursor=abc%2F&page_size=7'],
    ['?cursor=abc%2F&page_size=7'],
    ['//elsewhere.example?cursor=abc%2F&page_size=7#fragment'],
  ])('is followed by the query of its next link only: %s', async (next) => {
    answers = [page({ next }), page()];
    const { next: query } = await client.readFeed('awards', first);
    await client.readFeed('awards', { next: query ?? '' });
    expect(requests[1]?.url).toBe('/api/feeds/awards?cursor=abc%2F&page_size=7');
    expect(requests).toHaveLength(2);
  });

  test.each(['/api/feeds/awards', 'http://[', ''])('whose next link has no query (%s) is refused', async (next) => {
    answers = [page({ next })];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({ recovery: { do: 'halt' } });
  });

  test.each([
    ['no data', {}],
    ['data that is no list', { data: {} }],
    ['records that are none', { data: [1] }],
    ['a next that is no text', { data: [], next: 5 }],
  ])('with %s is refused', async (_what, body) => {
    answers = [json(body)];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({ code: 'invalid' });
  });
});

describe('a passing error', () => {
  test.each([500, 502, 503, 408, 429])('%i is tried again', async (code) => {
    answers = [status(code), status(code), page()];
    await client.readFeed('awards', first);
    expect(requests).toHaveLength(3);
  });

  test('is told to the caller after the last try', async () => {
    answers = [status(500)];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({
      code: 'unavailable',
      recovery: { do: 'retry' },
    });
    expect(requests).toHaveLength(retries + 1);
  });

  test('is not tried again before Retry-After is over', async () => {
    answers = [status(429, { 'retry-after': '3' }), page()];
    await client.readFeed('awards', first);
    expect(clock.slept).toEqual([3_000]);
  });

  test('that asks for a long wait is handed to the caller at once, with the time', async () => {
    answers = [status(503, { 'retry-after': '600' })];
    const error = await failureOf(client.readFeed('awards', first));
    expect(error).toMatchObject({ recovery: { do: 'retry', afterMs: 600_000 } });
    expect(requests).toHaveLength(1);
    expect(clock.slept).toEqual([]);
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
    ['JSON that is cut short', (response) => response.writeHead(200).end('{"data":[')],
    ['a page of a proxy', (response) => response.writeHead(200).end('<html>')],
  ])('%s is tried again', async (_what, broken) => {
    answers = [broken, page()];
    await client.readFeed('awards', first);
    expect(requests).toHaveLength(2);
    answers = [broken];
    expect(await failureOf(client.readFeed('awards', first))).toMatchObject({ recovery: { do: 'retry' } });
  });
});

describe('an error that does not pass', () => {
  test.each([
    [400, 'invalid'],
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not-found'],
    [409, 'conflict'],
    [302, 'invalid'],
  ])('%i is told at once', async (code, kind) => {
    answers = [status(code, { location: 'http://elsewhere.example/' })];
    const error = await failureOf(client.readFeed('awards', first));
    expect(error).toMatchObject({ code: kind, recovery: { do: 'halt' } });
    expect(requests).toHaveLength(1);
  });

  test("gives the service's own words, without the key that some repeat", async () => {
    const detail = `The key ${apiKey} lacks the scope feeds.${'x'.repeat(5_000)}`;
    answers = [json({ type: 'about:blank', title: 'Forbidden', status: 403, detail }, {}, 403)];
    const error = await failureOf(client.readFeed('awards', first));
    expect(error.message).toContain('GET /api/feeds/awards was answered with 403: The key [secret] lacks');
    expect(error.message.length).toBeLessThan(700);
    for (const text of [error.message, error.publicMessage, String(error.stack)]) expect(text).not.toContain(apiKey);
  });

  test('never shows the key or the query, whatever goes wrong', async () => {
    const broken: typeof answers = [
      (response) => response.destroy(),
      status(500),
      json({ data: apiKey }),
      (response) => response.writeHead(200).end(apiKey),
    ];
    for (const one of broken) {
      answers = [one];
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
      requests = [];
      answers = [broken, json({ id: 'a' })];
      await failureOf(client.call({ method: 'POST', path: '/api/jobs', body: {} }, ok));
      expect(requests).toHaveLength(1);
    }
  });

  test('with one is sent again under the same key', async () => {
    answers = [(response) => response.destroy(), json({ id: 'a', more: 1 }, {}, 202)];
    const read = await client.call({ method: 'POST', path: '/api/jobs', body: {}, idempotencyKey: 'once' }, ok);
    expect(read).toEqual({ id: 'a', more: 1 });
    expect(requests.map(({ headers }) => headers['idempotency-key'])).toEqual(['once', 'once']);
  });

  test('that is answered without a body reads as nothing', async () => {
    answers = [status(204)];
    expect(await client.call({ method: 'POST', path: '/api/x' }, z.undefined())).toBeUndefined();
  });
});

test('an abort ends the call, also between two tries', async () => {
  const stop = new AbortController();
  answers = [
    (response) => {
      response.writeHead(500).end();
      setImmediate(() => stop.abort(new Error('the process stops')));
    },
  ];
  await failureOf(client.readFeed('awards', first, stop.signal));
  expect(requests.length).toBeLessThanOrEqual(2);
  await failureOf(client.readFeed('awards', first, stop.signal));
  expect(requests.length).toBeLessThanOrEqual(2);
});
