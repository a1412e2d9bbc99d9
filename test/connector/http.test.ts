/** Requests to an ERP. Sources of the expected errors: src/connector/errors.ts, and RFC 9110 for statuses. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  AuthError,
  ConfigError,
  ConflictError,
  type ConnectorError,
  DataError,
  LockedError,
  RateLimited,
  TransientError,
  UnknownOutcome,
} from '#connector/errors.ts';
import { createHttp, errorOfStatus, type HttpSettings, pathSegment } from '#connector/http.ts';
import { basicAuth, bearerAuth, headerAuth, sessionAuth } from '#connector/http-auth.ts';
import type { HttpRequest } from '#connector/http-messages.ts';
import { Secret } from '#connector/settings.ts';
import { failureOf } from '../harness/failure.ts';
import { answerJson, startPlainServer } from './plain-server.ts';

const never = new AbortController().signal;

function http(baseUrl: string, settings: Partial<HttpSettings> = {}) {
  const client = createHttp({ baseUrl, timeoutMs: 10_000, ...settings });
  onTestFinished(() => client.close());
  return {
    ...client,
    send: (request: Partial<HttpRequest> = {}) =>
      client.request({ method: 'POST', path: '/orders', signal: never, ...request }),
  };
}

type ErrorClass = abstract new (...args: never[]) => ConnectorError;
const failure = (run: Promise<unknown>) => failureOf<Error>(Error, run);

const says = (kind: ErrorClass, text: string) => ({ name: kind.name, message: expect.stringContaining(text) });

describe('a request', () => {
  test('is sent below the base URL, with its JSON, its query and all headers', async () => {
    const server = await startPlainServer((response) => answerJson(response, 201, { id: 7 }));
    const { send } = http(`${server.url}/api/`, {
      headers: { 'X-Tenant': 'a' },
      auth: [bearerAuth(new Secret('t-1'))],
    });
    const answer = await send({
      query: { at: 'a b', none: undefined, key: ['1', '2'] },
      json: { price: '12.50' },
      headers: { 'X-A': 'b' },
    });
    expect(answer.json()).toEqual({ id: 7 });
    expect(server.requests).toMatchObject([
      {
        method: 'POST',
        url: '/api/orders?at=a+b&key=1&key=2',
        body: '{"price":"12.50"}',
        headers: { 'x-tenant': 'a', 'x-a': 'b', authorization: 'Bearer t-1', 'content-type': 'application/json' },
      },
    ]);
  });

  test.each(['/../admin', '/a/%2E%2e/b', '/a/.', '/a\\b', '/a#b', 'orders', '@evil.example/', '/a\n'])(
    'to %j, which would leave the base URL, is not sent',
    async (path) => {
      const { send } = http('http://127.0.0.1:1/api');
      expect(await failure(send({ path }))).toMatchObject(says(DataError, 'not a path below the base URL'));
    },
  );

  test('with dots and slashes in its query, or encoded in its path, is sent unchanged', async () => {
    const server = await startPlainServer((response) => response.end());
    const { send } = http(server.url);
    await send({ path: `/a/${pathSegment('x/../y?z')}?to=/../b` });
    expect(server.requests[0]?.url).toBe('/a/x%2F..%2Fy%3Fz?to=/../b');
  });

  test.each(['.', '..', ''])('cannot have %j as one part of its path', (text) => {
    expect(() => pathSegment(text)).toThrow(DataError);
  });

  test.each(['a\r\nX-Evil: 1', 'a\nb', 'Прайс', '\0'])(
    'with %j in a header is not sent, and the error names the header without its value',
    async (value) => {
      const { send } = http('http://127.0.0.1:1');
      const error = await failure(send({ headers: { 'X-Name': value } }));
      expect(error).toMatchObject(says(DataError, 'x-name'));
      expect(error.message).not.toContain(value);
    },
  );

  test('whose login no header can hold is not sent, and the error does not show the login', async () => {
    const { send } = http('http://127.0.0.1:1', { auth: [bearerAuth(new Secret('t0k\ne7n'))] });
    const error = await failure(send());
    expect(error).toMatchObject(says(AuthError, 'authorization'));
    expect(error.message).not.toContain('e7n');
  });
});

describe('settings', () => {
  test.each(['ftp://x', 'x', 'https://u:p-w@x.example', 'https://x.example?a=b', 'https://x.example#a'])(
    'with the base URL %s are refused',
    (baseUrl) => {
      const error = (() => {
        try {
          createHttp({ baseUrl });
        } catch (thrown) {
          return thrown as Error;
        }
        return undefined;
      })();
      expect(error).toBeInstanceOf(ConfigError);
      expect(error?.message).not.toContain('p-w');
    },
  );

  test('with an invalid certificate are refused', () => {
    expect(() =>
      createHttp({ baseUrl: 'https://x.example', clientCertificate: { certPem: 'no', keyPem: 'no' } }),
    ).toThrow(ConfigError);
  });

  test('with a header value that no request can carry are refused', () => {
    expect(() => createHttp({ baseUrl: 'https://x.example', headers: { 'X-A': 'a\nb' } })).toThrow(ConfigError);
  });
});

describe('an answer', () => {
  const answers: [status: number, headers: Record<string, string>, kind: ErrorClass, safeKind?: ErrorClass][] = [
    [301, { location: '/b' }, ConfigError],
    // RFC 9110, 15.4.4: the POST was carried out, and its result is at another URL.
    [303, { location: '/b' }, UnknownOutcome, ConfigError],
    [302, { location: '/b' }, UnknownOutcome, ConfigError],
    [400, {}, DataError],
    [401, {}, AuthError],
    [402, {}, ConfigError],
    [403, {}, AuthError],
    [404, {}, DataError],
    [405, {}, ConfigError],
    [407, {}, AuthError],
    [408, {}, UnknownOutcome, TransientError],
    [409, {}, ConflictError],
    [410, {}, DataError],
    [412, {}, ConflictError],
    [413, {}, DataError],
    [415, {}, ConfigError],
    [422, {}, DataError],
    [423, {}, LockedError],
    [425, {}, TransientError],
    [429, {}, RateLimited],
    [500, {}, UnknownOutcome, TransientError],
    [501, {}, ConfigError],
    [502, {}, UnknownOutcome, TransientError],
    [503, {}, UnknownOutcome, TransientError],
    [503, { 'retry-after': '7' }, RateLimited],
    [504, {}, UnknownOutcome, TransientError],
  ];
  test.each(answers)(
    'with status %i and headers %j is the error that says what has to happen next',
    (status, headers, kind, safeKind = kind) => {
      const response = { status, headers, text: () => ' no\n good ' };
      const of = (method: string) => errorOfStatus(response, { method, path: '/a' }, 0);
      expect([of('POST'), of('GET')].map((error) => error?.constructor.name)).toEqual([kind.name, safeKind.name]);
      expect(of('POST')?.message).toMatch(new RegExp(`^the ERP answered ${status} to POST /a: no good`));
    },
  );

  test.each([
    [500, true],
    [302, true],
    [303, true],
    [408, false],
    [502, false],
    [503, false],
    [504, false],
    [524, false],
  ])(
    'with status %i tells whether the ERP has ended its work, or a gateway before it has answered',
    (status, answered) => {
      const error = errorOfStatus({ status, headers: {}, text: () => '' }, { method: 'POST', path: '' }, 0);
      expect(error).toMatchObject({ type: 'unknown', answered });
    },
  );

  test.each([
    ['7', 7_000],
    ['Tue, 01 Jan 2030 00:00:05 GMT', 5_000],
    [undefined, undefined],
  ])('with 429 and Retry-After %j tells how long to wait', (header, expected) => {
    const headers: Record<string, string> = header === undefined ? {} : { 'retry-after': header };
    const error = errorOfStatus(
      { status: 429, headers, text: () => '' },
      { method: 'POST', path: '' },
      Date.UTC(2030, 0, 1),
    );
    expect(error).toMatchObject({ type: 'rate-limited', retryAfterMs: expected });
  });

  test('with a status that the request accepts is no error', async () => {
    const server = await startPlainServer((response) => answerJson(response, 404, {}));
    expect(await http(server.url).send({ method: 'GET', accept: [404] })).toMatchObject({ status: 404 });
  });

  test('with 200 can be an error, and one with 409 can be fine, by errorOf', async () => {
    const server = await startPlainServer((response, { url }) =>
      url === '/orders'
        ? answerJson(response, 200, { error: 'plant is closed' })
        : answerJson(response, 409, { id: 3 }),
    );
    const { send } = http(server.url, {
      errorOf: ({ status, json }) => {
        if (status === 409) return 'fine';
        const { error } = json() as { error?: string };
        return error === undefined ? undefined : new DataError(error);
      },
    });
    expect(await failure(send())).toMatchObject(says(DataError, 'plant is closed'));
    expect((await send({ path: '/again' })).status).toBe(409);
  });

  test('that is not JSON leaves open what a writing request has done', async () => {
    const server = await startPlainServer((response) => response.end('<html>login</html>'));
    const { send } = http(server.url);
    const written = await send();
    expect(written.jsonIfAny()).toBeUndefined();
    expect(() => written.json()).toThrow(UnknownOutcome);
    const read = await send({ method: 'GET' });
    expect(() => read.json()).toThrow(TransientError);
    const asked = await send({ method: 'POST', safe: true });
    expect(() => asked.json()).toThrow(TransientError);
  });

  test('is read as it was before it was compressed, by its charset, with all its digits', async () => {
    const body = '{"name":"Müller","id":12345678901234567890}';
    const server = await startPlainServer((response, { headers }) => {
      expect(headers['accept-encoding']).toBe('gzip, br, deflate');
      response
        .writeHead(200, { 'content-type': 'application/json; charset=ISO-8859-1', 'content-encoding': 'gzip' })
        .end(gzipSync(Buffer.from(body, 'latin1')));
    });
    const answer = await http(server.url).send();
    expect(answer.json()).toEqual({ name: 'Müller', id: '12345678901234567890' });
    expect(answer.text()).toBe(body);
    expect(Buffer.from(answer.bytes).toString('latin1')).toBe(body);
  });

  type Unreadable = [what: string, headers: Record<string, string>, body: Buffer, safeKind: ErrorClass, words: RegExp];
  test.each<Unreadable>([
    ['bytes of another charset', {}, Buffer.from('"Müller"', 'latin1'), TransientError, /bytes that are not UTF-8/],
    ['an unknown encoding', { 'content-encoding': 'zstd' }, Buffer.from('{}'), TransientError, /not asked for/],
    ['more bytes than allowed', { 'content-encoding': 'gzip' }, gzipSync(' '.repeat(101)), ConfigError, /100 bytes/],
    ['too many levels', { 'content-encoding': 'gzip' }, gzipSync('['.repeat(101)), ConfigError, /100 levels/],
  ])(
    'with %s is refused in words that say why, and its status still counts',
    async (_what, headers, body, kind, words) => {
      const server = await startPlainServer((response, { url }) => {
        response.writeHead(url === '/bad' ? 400 : 200, headers).end(body);
      });
      const bounds = { responseBytesMax: words.source.includes('levels') ? 1_000 : 100 };
      const read = async (request: Partial<HttpRequest>) => (await http(server.url, bounds).send(request)).json();
      expect(await failure(read({}))).toMatchObject({
        name: UnknownOutcome.name,
        message: expect.stringMatching(words),
      });
      expect(await failure(read({ method: 'GET' }))).toMatchObject({
        name: kind.name,
        message: expect.stringMatching(words),
      });
      expect(await failure(read({ path: '/bad' }))).toMatchObject(says(DataError, 'answered 400'));
    },
  );

  test('that is too long fails: a write is UnknownOutcome, and the status of an error still counts', async () => {
    const server = await startPlainServer((response, { url }) => {
      response.writeHead(url === '/bad' ? 400 : 200).end('x'.repeat(100));
    });
    const { send } = http(server.url, { responseBytesMax: 50 });
    expect(await failure(send())).toMatchObject(says(UnknownOutcome, 'more than 50 bytes'));
    expect(await failure(send({ method: 'GET' }))).toMatchObject(says(ConfigError, 'more than 50 bytes'));
    expect(await failure(send({ path: '/bad' }))).toMatchObject(says(DataError, 'answered 400'));
  });
});

describe('a request without an answer', () => {
  /** A TCP server that calls `onData` for the bytes of each connection. */
  async function rawServer(onData: (socket: Socket, connection: number) => void): Promise<string> {
    let connections = 0;
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      connections += 1;
      const number = connections;
      sockets.add(socket);
      socket.on('error', () => undefined).on('data', () => onData(socket, number));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  test('was not sent when nothing listens at the address: TransientError', async () => {
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const free = (closed.address() as AddressInfo).port;
    closed.close();
    await once(closed, 'close');
    expect(await failure(http(`http://127.0.0.1:${free}`).send())).toMatchObject(
      says(TransientError, 'Nothing was sent'),
    );
  });

  test('is UnknownOutcome when the connection breaks, unless the request changes nothing', async () => {
    const url = await rawServer((socket) => socket.resetAndDestroy());
    expect(await failure(http(url).send())).toMatchObject(says(UnknownOutcome, 'closed the connection'));
    expect(await failure(http(url).send({ method: 'GET' }))).toMatchObject(
      says(TransientError, 'closed the connection'),
    );
  });

  test('is UnknownOutcome when a reused connection breaks, and is not sent again', async () => {
    let requests = 0;
    const url = await rawServer((socket) => {
      requests += 1;
      if (requests === 1) socket.write('HTTP/1.1 204 No Content\r\n\r\n');
      else socket.destroy();
    });
    const { send } = http(url, { connections: 1 });
    await send();
    expect(await failure(send())).toMatchObject(says(UnknownOutcome, 'closed the connection'));
    expect(requests).toBe(2);
  });

  test('is UnknownOutcome when the answer breaks off', async () => {
    const url = await rawServer((socket) => socket.end('HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\n{"id"'));
    expect(await failure(http(url).send())).toMatchObject(says(UnknownOutcome, 'closed the connection'));
  });

  test('is UnknownOutcome when the answer is not HTTP', async () => {
    const url = await rawServer((socket) => socket.end('220 smtp.example ESMTP\r\n'));
    expect(await failure(http(url).send())).toMatchObject(says(UnknownOutcome, 'valid HTTP'));
  });

  test('in time is UnknownOutcome, unless the request changes nothing', async () => {
    const server = await startPlainServer(() => undefined);
    const { send } = http(server.url, { timeoutMs: 100 });
    expect(await failure(send())).toMatchObject(says(UnknownOutcome, 'did not answer in time'));
    expect(await failure(send({ method: 'GET' }))).toMatchObject(says(TransientError, 'did not answer in time'));
  });

  test('is UnknownOutcome when it is aborted after it was sent, and TransientError while it waits for a connection', async () => {
    const server = await startPlainServer(() => undefined);
    const client = http(server.url, { connections: 1 });
    const { send } = client;
    const [first, second] = [new AbortController(), new AbortController()];
    const running = failure(send({ signal: first.signal }));
    await server.until(1);
    const waiting = failure(send({ signal: second.signal, path: '/second' }));
    second.abort();
    expect(await waiting).toMatchObject({ name: 'TransientError', message: 'stopped before it was sent' });
    first.abort();
    expect(await running).toMatchObject({ name: 'UnknownOutcome' });
    // The request that waited is not sent after its caller was told that it was not.
    const third = failure(send({ path: '/third' }));
    await server.until(2);
    expect(server.requests.map(({ url }) => url)).toEqual(['/orders', '/third']);
    await client.close();
    await third;
  });

  test('was not sent when the TLS handshake does not end in time: TransientError', async () => {
    const url = await rawServer(() => undefined);
    const { send } = http(url.replace('http:', 'https:'), { timeoutMs: 100 });
    expect(await failure(send())).toMatchObject(says(TransientError, 'did not answer in time. Nothing was sent.'));
  });

  test('is not sent when its signal is aborted already', async () => {
    const server = await startPlainServer((response) => response.end());
    expect(await failure(http(server.url).send({ signal: AbortSignal.abort() }))).toMatchObject(
      says(TransientError, 'stopped before'),
    );
    expect(server.requests).toEqual([]);
  });
});

describe('concurrent requests', () => {
  test('are as many as the limit allows, logins included, and never more', async () => {
    const held: (() => void)[] = [];
    let running = 0;
    let runningMax = 0;
    const server = await startPlainServer(async (response, { url }, number) => {
      running += 1;
      runningMax = Math.max(runningMax, running);
      // The first three wait for each other; later requests go through.
      if (url !== '/login' && number <= 4) await new Promise<void>((resolve) => held.push(resolve));
      running -= 1;
      answerJson(response, 200, {});
    });
    const login = sessionAuth(async (send, signal) => {
      await send('/login', { method: 'POST', path: '', signal });
      return { headers: { authorization: 'Session 1' } };
    });
    const { send } = http(server.url, { connections: 3, auth: [login] });
    const sent = Promise.all(Array.from({ length: 12 }, () => send()));
    await server.until(4);
    for (const release of held) release();
    await sent;
    expect(runningMax).toBe(3);
    // Nor was a fourth connection ever opened.
    expect(server.connections()).toBe(3);
    expect(server.requests.map(({ url }) => url).filter((url) => url === '/login')).toHaveLength(1);
  });
});

describe('what was sent to log in', () => {
  const echo = async () =>
    startPlainServer((response, { headers }) => {
      const encoded = headers.authorization?.split(' ').at(-1) ?? '';
      answerJson(response, 400, { sent: headers, decoded: Buffer.from(encoded, 'base64').toString() });
    });
  const token = 'tok-9f8e7d6c5b4a';

  test.each([
    ['a bearer token', bearerAuth(new Secret(token)), [token]],
    ['a key in a header', headerAuth('X-API-Key', new Secret('k"1/2\\3+4')), ['k"1/2\\3+4', 'k\\"1/2\\\\3+4']],
    ['user and password', basicAuth('anna', new Secret('pässword')), ['pässword', 'YW5uYTpww6Rzc3dvcmQ=']],
    [
      "a session's key",
      sessionAuth(async () => ({
        headers: { Authorization: `Session ${btoa(`anna:5:${token}`)}`, Cookie: 'sid=4711abcd; a=b' },
      })),
      [token, btoa(`anna:5:${token}`), '4711abcd'],
    ],
  ])('is removed from every error text that repeats it: %s', async (_name, auth, secrets) => {
    const server = await echo();
    const plain = await failure(http(server.url, { auth: [auth] }).send());
    const own = http(server.url, { auth: [auth], errorOf: ({ text }) => new DataError(`refused: ${text()}`) });
    const ownError = await failure(own.send());
    for (const { message } of [plain, ownError]) {
      expect(message).toContain('[secret]');
      for (const secret of secrets) expect(message).not.toContain(secret);
    }
  });

  test('is not sent to the URL of another login, and an error of a login does not show its answer', async () => {
    const elsewhere = await startPlainServer((response) => answerJson(response, 503, { access_token: token }));
    const login = sessionAuth(async (send, signal) => {
      await send(`${elsewhere.url}/token`, { method: 'POST', path: '', signal });
      return { headers: {} };
    });
    const { send } = http('http://127.0.0.1:1', {
      headers: { 'X-Tenant': 'a' },
      auth: [bearerAuth(new Secret(token)), login],
    });
    const error = await failure(send());
    expect(error).toMatchObject(says(TransientError, 'answered 503 to the login'));
    expect(error.message).not.toContain(token);
    expect(elsewhere.requests[0]?.headers).not.toHaveProperty('authorization');
    expect(elsewhere.requests[0]?.headers).not.toHaveProperty('x-tenant');
  });
});
