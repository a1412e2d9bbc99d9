import { describe, expect, test } from 'vitest';
import { connectRaw } from '../../harness/raw-connection.ts';
import { type Seen, startTestApplication } from './test-application.ts';

const good = { authorization: 'Bearer good' };

async function post(
  url: string,
  body: string | Buffer | undefined,
  headers: Record<string, string> = {},
  path = '/notes',
) {
  const init: RequestInit = { method: 'POST', headers: { ...good, ...headers } };
  if (body !== undefined) init.body = body;
  const answer = await fetch(url + path, init);
  return { status: answer.status, headers: answer.headers, body: JSON.parse(await answer.text()) };
}

const json = { 'content-type': 'application/json' };

describe('the call of a handler', () => {
  test('it gets what the client sent', async () => {
    const seen: Seen = [];
    const { url } = await startTestApplication({ seen });
    await post(url, '{"text":"hello"}', json);
    await fetch(`${url}/notes?name=a%20b`, { headers: good });
    await fetch(`${url}/notes/a%2Fb`, { headers: good });
    expect(seen.map(({ body, query, params }) => ({ body, query, params }))).toEqual([
      { body: { text: 'hello' }, query: {}, params: {} },
      { body: undefined, query: { name: 'a b' }, params: {} },
      { body: undefined, query: {}, params: { id: 'a/b' } },
    ]);
    expect(seen[0]?.baseUrl).toBe(url);
  });

  test('an unauthorized client does not learn what else is wrong with its request', async () => {
    const { url } = await startTestApplication();
    for (const [headers, status] of [
      [{}, 401],
      [{ authorization: 'Bearer other' }, 403],
    ] as const) {
      const answer = await fetch(`${url}/notes?wrong=1`, { method: 'POST', headers, body: 'not JSON at all' });
      expect(answer.status).toBe(status);
      expect(await answer.text()).not.toMatch(/JSON|wrong/);
    }
  });

  test('both forms of a path, with and without a slash at the end, answer alike', async () => {
    const { url } = await startTestApplication();
    for (const path of ['/notes', '/notes/', '/notes/1', '/notes/1/'])
      expect((await fetch(url + path, { headers: good })).status).toBe(200);
    expect((await post(url, '{}', json, '/notes/')).status).toBe(201);
  });

  test('an answer to GET has an ETag, and one to a command has none', async () => {
    const { url } = await startTestApplication();
    expect((await fetch(`${url}/notes`, { headers: good })).headers.get('etag')).not.toBeNull();
    const made = await post(url, '{"text":"é"}', json);
    expect([made.status, made.headers.get('etag'), made.body.body]).toEqual([201, null, { text: 'é' }]);
    expect(made.headers.get('content-type')).toBe('application/json; charset=utf-8');
  });

  test('HEAD answers as GET does, without the body', async () => {
    const { url } = await startTestApplication();
    const get = await fetch(`${url}/notes`, { headers: good });
    const head = await fetch(`${url}/notes`, { method: 'HEAD', headers: good });
    expect(head.status).toBe(200);
    expect(head.headers.get('content-length')).toBe(get.headers.get('content-length'));
    expect(head.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await head.text()).toBe('');
    const refused = await fetch(`${url}/notes`, { method: 'HEAD' });
    expect([refused.status, await refused.text()]).toEqual([401, '']);
  });

  test.each([
    ['PUT', '/notes', 'GET, HEAD, POST'],
    ['DELETE', '/notes/', 'GET, HEAD, POST'],
    ['OPTIONS', '/notes', 'GET, HEAD, POST'],
    ['POST', '/notes/1', 'GET, HEAD, DELETE'],
    ['GET', '/touch', 'POST'],
    ['HEAD', '/touch', 'POST'],
  ])('%s %s is 405 with Allow: %s', async (method, path, allow) => {
    const { url } = await startTestApplication();
    const answer = await fetch(url + path, { method, headers: good });
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe(allow);
    expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  });

  test('204 has neither body nor type', async () => {
    const { url } = await startTestApplication();
    const answer = await fetch(`${url}/notes/1`, { method: 'DELETE', headers: good });
    expect([answer.status, await answer.text(), answer.headers.get('content-type')]).toEqual([204, '', null]);
  });

  test('without a Host header (HTTP/1.0) the call still has a base URL', async () => {
    const seen: Seen = [];
    const { server } = await startTestApplication({ seen });
    const connection = await connectRaw(server.port);
    connection.send('GET /notes HTTP/1.0\r\nAuthorization: Bearer good\r\n\r\n');
    expect(await connection.until('"params"')).toContain('200 OK');
    expect(seen[0]?.baseUrl).toBe('http://localhost');
  });
});

describe('media types', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'Application/JSON',
    'application/merge-patch+json',
    'application/vnd.example.note+json; charset=utf-8',
  ])('%s is taken', async (type) => {
    const { url } = await startTestApplication();
    expect(await post(url, '{"text":"ä"}', { 'content-type': type })).toMatchObject({
      status: 201,
      body: { body: { text: 'ä' } },
    });
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/xml',
    'application/jsonp',
    'text/json-not',
    'nonsense',
    'application/json; charset=iso-8859-1',
    'application/json; charset=utf-16',
  ])('%s is 415', async (type) => {
    const { url } = await startTestApplication();
    const { status, body } = await post(url, '{"text":"x"}', { 'content-type': type });
    expect([status, body.title]).toEqual([415, 'Unsupported media type']);
  });

  test('a body without a type is 415', async () => {
    const { url } = await startTestApplication();
    const { status, body } = await post(url, Buffer.from('{"text":"x"}'));
    expect(status).toBe(415);
    expect(body.detail).toContain('Content-Type: application/json');
  });

  test('a compressed body is 415, not "invalid JSON"', async () => {
    const { url } = await startTestApplication();
    const { status, body } = await post(url, '{"text":"x"}', { ...json, 'content-encoding': 'gzip' });
    expect(status).toBe(415);
    expect(body.detail).toContain('Content-Encoding');
  });

  test('no body needs no type', async () => {
    const { url } = await startTestApplication();
    expect((await post(url, undefined, {}, '/touch')).status).toBe(200);
    expect((await post(url, '', { 'content-type': 'text/plain' }, '/touch')).status).toBe(200);
  });
});

describe('invalid input', () => {
  test('every wrong and every unknown field is named with its path, and no value is repeated', async () => {
    const { url } = await startTestApplication();
    const { status, body } = await post(
      url,
      '{"text":4711,"tags":["ok",4712],"tagz":"hunter2","__proto__":{"a":1}}',
      json,
    );
    expect(status).toBe(400);
    expect(body.errors).toEqual(
      expect.arrayContaining([
        { path: 'text', message: 'must be a string' },
        { path: 'tags[1]', message: 'must be a string' },
        { path: 'tagz', message: 'is not a known field' },
        { path: '__proto__', message: 'is not a known field' },
      ]),
    );
    expect(body.errors).toHaveLength(4);
    expect(JSON.stringify(body)).not.toMatch(/471|hunter2/);
  });

  test('the answer to a missing body says that it is missing', async () => {
    const { url } = await startTestApplication();
    const { status, body } = await post(url, undefined);
    expect([status, body.detail]).toEqual([400, 'The body is not valid: is missing.']);
  });

  test.each(['wrong=1', 'name=a&wrong=1', '__proto__=1', 'constructor=1'])(
    'an unknown query parameter is 400 naming it: %s',
    async (query) => {
      const { url } = await startTestApplication();
      const answer = await fetch(`${url}/notes?${query}`, { headers: good });
      expect(answer.status).toBe(400);
      const { errors } = (await answer.json()) as { errors: { path: string }[] };
      expect(errors.map(({ path }) => path)).toEqual([query.replace('name=a&', '').replace('=1', '')]);
    },
  );

  test('an endpoint without query parameters takes none', async () => {
    const { url } = await startTestApplication();
    const answer = await fetch(`${url}/notes/1?name=a`, { headers: good });
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { errors: [{ path: 'name', message: 'is not a known parameter' }] },
    ]);
  });

  test('a parameter that is given twice is 400 where one value is expected', async () => {
    const { url } = await startTestApplication();
    expect((await fetch(`${url}/notes?name=a&name=b`, { headers: good })).status).toBe(400);
  });

  test.each([
    ['/notes/a%00b', 'The path is not valid: id contains a NUL character.'],
    ['/notes?name=%00', 'The query is not valid: name contains a NUL character.'],
  ])('a NUL in %s is 400, since no text in the database can hold one', async (path, detail) => {
    const { url } = await startTestApplication();
    const answer = await fetch(url + path, { headers: good });
    expect([answer.status, ((await answer.json()) as { detail: string }).detail]).toEqual([400, detail]);
  });

  test('a body for an endpoint that takes none is 400; an empty object counts as none', async () => {
    const { url } = await startTestApplication();
    expect((await post(url, '{}', json, '/touch')).status).toBe(200);
    expect((await post(url, '{"force":true}', json, '/touch')).body).toMatchObject({
      status: 400,
      errors: [{ path: 'force', message: 'is not a known field' }],
    });
    const deleted = await fetch(`${url}/notes/1`, { method: 'DELETE', headers: { ...good, ...json }, body: '{}' });
    expect(deleted.status).toBe(400);
  });
});
