/** Sources: RFC 6749 (OAuth 2.0) sections 2.3.1, 4.4 and 5, RFC 7617 (Basic), RFC 4231 (test vectors of HMAC-SHA-2). */
import { describe, expect, onTestFinished, test } from 'vitest';
import { AuthError, ConfigError, type ConnectorError, RateLimited, TransientError } from '#connector/errors.ts';
import { createHttp } from '#connector/http.ts';
import {
  basicAuth,
  type ClientCredentials,
  clientCredentials,
  type Hmac,
  type HttpAuth,
  headerAuth,
  hmacAuth,
  sessionAuth,
} from '#connector/http-auth.ts';
import { Secret } from '#connector/settings.ts';
import { failureOf } from '../harness/failure.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { answerJson, type ReceivedRequest, startPlainServer } from './plain-server.ts';

const never = new AbortController().signal;
const text = new Secret('s3cr3t/+ä');

function http(baseUrl: string, auth: readonly HttpAuth[], timeoutMs = 10_000) {
  const client = createHttp({ baseUrl, auth, timeoutMs });
  onTestFinished(() => client.close());
  return { ...client, send: (signal = never) => client.request({ method: 'POST', path: '/orders', signal }) };
}

async function headersOf(auth: HttpAuth, body: string | Uint8Array = ''): Promise<Record<string, string>> {
  return auth.headers({ method: 'POST', path: '/', body, headers: {} }, never, async () => {
    throw new Error('this login must not send a request');
  });
}

test('Basic is user and password in UTF-8 as base64', async () => {
  // RFC 7617, section 2.1: user "test", password "123" and the pound sign.
  expect(await headersOf(basicAuth('test', new Secret('123£')))).toEqual({ authorization: 'Basic dGVzdDoxMjPCow==' });
  expect(() => basicAuth('a:b', text)).toThrow(ConfigError);
});

test('a token can be sent in any header', async () => {
  expect(await headersOf(headerAuth('X-API-Key', new Secret('k'), 'Token '))).toEqual({ 'x-api-key': 'Token k' });
});

describe('a signature', () => {
  const of = (settings: Partial<Hmac>) =>
    hmacAuth(
      { secret: new Secret('Jefe'), header: 'X-Signature', algorithm: 'sha256', encoding: 'hex', ...settings },
      createManualClock(1_700_000_000_999),
    );
  // RFC 4231, section 4.3 (test case 2).
  const data = 'what do ya want for nothing?';

  test('is the HMAC of the body', async () => {
    expect(await headersOf(of({ prefix: 'sha256=' }), data)).toEqual({
      'x-signature': 'sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
    });
    expect(await headersOf(of({ algorithm: 'sha512', encoding: 'base64' }), Buffer.from(data))).toEqual({
      'x-signature': Buffer.from(
        '164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737',
        'hex',
      ).toString('base64'),
    });
  });

  test('covers the time when a header for it is set', async () => {
    // printf '1700000000.{}' | openssl dgst -sha256 -hmac Jefe
    expect(await headersOf(of({ timestampHeader: 'X-Time' }), '{}')).toEqual({
      'x-signature': 'd3793e2b4103edfbd98cc19591832f5fad701d413db9fcae0ae7dab8184ed207',
      'x-time': '1700000000',
    });
  });

  test('is computed over the bytes that are sent', async () => {
    const server = await startPlainServer((response) => response.end());
    const client = createHttp({ baseUrl: server.url, auth: [of({})] });
    onTestFinished(() => client.close());
    await client.request({ method: 'POST', path: '', json: { name: 'Ärmel' }, signal: never });
    const [asked] = server.requests;
    expect((await headersOf(of({}), asked?.body))['x-signature']).toBe(asked?.headers['x-signature']);
  });
});

describe('a session', () => {
  const countLogins = (clock = createManualClock(), expiresInMs?: number) => {
    const sessions: string[] = [];
    const auth = sessionAuth(async (send, signal) => {
      await send('/login', { method: 'POST', path: '', signal });
      sessions.push(`Session ${sessions.length + 1}`);
      return { headers: { Authorization: `Session ${sessions.length}` }, expiresInMs };
    }, clock);
    return { auth, sessions };
  };

  test('that is refused while several requests run is renewed once, and each request is repeated once', async () => {
    const { auth, sessions } = countLogins();
    const refused: (() => void)[] = [];
    const server = await startPlainServer(async (response, { url, headers }) => {
      if (url === '/login') return answerJson(response, 200, {});
      if (headers.authorization !== 'Session 1') return answerJson(response, 200, {});
      // Four requests run before the first is refused; the last is refused when there is a new session already.
      await new Promise<void>((resolve) => refused.push(resolve));
      return answerJson(response, 401, {});
    });
    const { send } = http(server.url, [auth], 10_000);
    const sent = Promise.all(Array.from({ length: 4 }, () => send()));
    await server.until(5);
    for (const refuse of refused.slice(0, 3)) refuse();
    // Three requests are repeated with the new session.
    await server.until(9);
    refused[3]?.();
    expect((await sent).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(sessions).toEqual(['Session 1', 'Session 2']);
    expect(server.requests.filter(({ url }) => url === '/orders')).toHaveLength(8);
  });

  test('that is refused although it is new is not renewed a second time', async () => {
    const { auth, sessions } = countLogins();
    const server = await startPlainServer((response, { url }) =>
      answerJson(response, url === '/login' ? 200 : 401, {}),
    );
    await failureOf(AuthError, http(server.url, [auth]).send());
    expect(sessions).toHaveLength(2);
  });

  test('is renewed before it expires, counted from the start of the login', async () => {
    const clock = createManualClock();
    const { auth, sessions } = countLogins(clock, 100_000);
    const server = await startPlainServer((response, { url }) => {
      if (url === '/login') clock.advance(5_000);
      answerJson(response, 200, {});
    });
    const { send } = http(server.url, [auth]);
    await send();
    clock.advance(84_999);
    await send();
    expect(sessions).toHaveLength(1);
    clock.advance(1);
    await send();
    expect(sessions).toHaveLength(2);
  });

  test('is renewed where the ERP refuses it with another answer than 401', async () => {
    const { auth, sessions } = countLogins();
    const server = await startPlainServer((response, { url, headers }) =>
      answerJson(
        response,
        200,
        url === '/login' || headers.authorization === 'Session 2' ? {} : { error: 'session expired' },
      ),
    );
    const isLoginRefused = ({ text }: { text: () => string }) => text().includes('session expired');
    const client = createHttp({ baseUrl: server.url, auth: [auth], isLoginRefused });
    onTestFinished(() => client.close());
    expect((await client.request({ method: 'POST', path: '/orders', signal: never })).json()).toEqual({});
    expect(sessions).toHaveLength(2);
  });

  test('is made for the request that still waits, although the one that started the login was aborted', async () => {
    const { auth } = countLogins();
    let release = () => undefined as unknown;
    const server = await startPlainServer((response, { url }) => {
      if (url === '/orders') return answerJson(response, 200, {});
      release = () => answerJson(response, 200, {});
      return undefined;
    });
    const { send } = http(server.url, [auth]);
    const stop = new AbortController();
    const first = failureOf(TransientError, send(stop.signal));
    const second = send();
    await server.until(1);
    stop.abort();
    expect((await first).message).toBe('stopped before it was sent');
    release();
    expect((await second).status).toBe(200);
    expect(server.requests.map(({ url }) => url)).toEqual(['/login', '/orders']);
  });

  test('that no request waits for any more is aborted, and the next request starts a new login', async () => {
    const { auth } = countLogins();
    const server = await startPlainServer((response, { url }, number) =>
      number === 1 && url === '/login' ? undefined : answerJson(response, 200, {}),
    );
    const { send } = http(server.url, [auth]);
    const stop = new AbortController();
    const first = failureOf(TransientError, send(stop.signal));
    await server.until(1);
    stop.abort();
    await first;
    expect((await send()).status).toBe(200);
    expect(server.requests.map(({ url }) => url)).toEqual(['/login', '/login', '/orders']);
  });
});

describe('OAuth client credentials', () => {
  const settings: ClientCredentials = { tokenUrl: '/token', clientId: 'bridge: 1', clientSecret: text, scope: 'a b' };
  const form = ({ body }: ReceivedRequest) => Object.fromEntries(new URLSearchParams(body));
  const startTokenServer = (token: (number: number) => object) => {
    let made = 0;
    return startPlainServer((response, { url }) => {
      made += url === '/token' ? 1 : 0;
      answerJson(response, 200, url === '/token' ? token(made) : {});
    });
  };

  test('request a token with the client in the header, and use it until it expires', async () => {
    const clock = createManualClock();
    const server = await startTokenServer((number) => ({
      access_token: `t-${number}`,
      token_type: 'Bearer',
      expires_in: 3600,
    }));
    const { send } = http(server.url, [clientCredentials(settings, clock)]);
    await send();
    await send();
    // 30 s before the token expires.
    clock.advance(3_570_000);
    await send();
    expect(server.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      // Id and secret are form-encoded, then joined: bridge%3A%201:s3cr3t%2F%2B%C3%A4
      ['/token', 'Basic YnJpZGdlJTNBJTIwMTpzM2NyM3QlMkYlMkIlQzMlQTQ='],
      ['/orders', 'Bearer t-1'],
      ['/orders', 'Bearer t-1'],
      ['/token', 'Basic YnJpZGdlJTNBJTIwMTpzM2NyM3QlMkYlMkIlQzMlQTQ='],
      ['/orders', 'Bearer t-2'],
    ]);
    const [asked] = server.requests;
    expect(asked && form(asked)).toEqual({ grant_type: 'client_credentials', scope: 'a b' });
    expect(asked?.headers['content-type']).toBe('application/x-www-form-urlencoded');
  });

  test('can be sent in the body, with further fields', async () => {
    const server = await startTokenServer(() => ({ access_token: 't' }));
    await http(server.url, [clientCredentials({ ...settings, inBody: true, fields: { audience: 'erp' } })]).send();
    const [asked] = server.requests;
    expect(asked && form(asked)).toEqual({
      grant_type: 'client_credentials',
      scope: 'a b',
      audience: 'erp',
      client_id: 'bridge: 1',
      client_secret: 's3cr3t/+ä',
    });
    expect(asked?.headers).not.toHaveProperty('authorization');
  });

  test.each([
    [{ access_token: 't', expires_in: '60' }, 54_000],
    [{ access_token: 't', expires_in: null }, 270_000],
    [{ access_token: 't', expires_in: 'soon' }, 270_000],
    [{ access_token: 't' }, 270_000],
  ])('with %j are requested again after %i ms', async (token, ms) => {
    const clock = createManualClock();
    const server = await startTokenServer(() => token);
    const { send } = http(server.url, [clientCredentials(settings, clock)]);
    const tokens = () => server.requests.filter(({ url }) => url === '/token').length;
    await send();
    clock.advance(ms - 1);
    await send();
    expect(tokens()).toBe(1);
    clock.advance(1);
    await send();
    expect(tokens()).toBe(2);
  });

  type ErrorClass = abstract new (...args: never[]) => ConnectorError;
  const refusals: [status: number, body: string, headers: Record<string, string>, kind: ErrorClass, text: string][] = [
    [401, '{"error":"invalid_client","error_description":"s3cr3t"}', {}, AuthError, '401 (invalid_client)'],
    [400, '{"error":"invalid_scope"}', {}, AuthError, '400 (invalid_scope)'],
    [400, '{"error":"s3cr3t"}', {}, AuthError, 'it answered 400'],
    [403, '<html>', {}, AuthError, 'it answered 403'],
    [200, '{"token":"s3cr3t"}', {}, AuthError, 'without an access_token'],
    [200, '<html>s3cr3t', {}, TransientError, 'a body that is not JSON'],
    [302, '', { location: 'https://sso.example' }, ConfigError, 'a redirection'],
    [404, '', {}, ConfigError, 'no token endpoint'],
    [429, 's3cr3t', { 'retry-after': '3' }, RateLimited, 'answered 429 to the login'],
    [503, 's3cr3t', { 'retry-after': '3' }, RateLimited, 'answered 503 to the login'],
    [503, 's3cr3t', {}, TransientError, 'answered 503 to the login'],
    [500, 's3cr3t', {}, TransientError, 'answered 500 to the login'],
  ];
  test.each(refusals)(
    'that are answered %i %s: the request is not sent, and the error does not show the answer',
    async (status, body, headers, kind, message) => {
      const server = await startPlainServer((response) => response.writeHead(status, headers).end(body));
      const error = await failureOf(kind, http(server.url, [clientCredentials(settings)]).send());
      expect(error.constructor.name).toBe(kind.name);
      expect(error.message).toContain(message);
      expect(error.message).not.toContain('s3cr3t');
      expect(error instanceof RateLimited ? error.retryAfterMs : 3_000).toBe(3_000);
      expect(server.requests.map(({ url }) => url)).toEqual(['/token']);
    },
  );

  test('whose endpoint does not answer are a TransientError: the request was not sent', async () => {
    const server = await startPlainServer(() => undefined);
    await failureOf(TransientError, http(server.url, [clientCredentials(settings)], 100).send());
    expect(server.requests.map(({ url }) => url)).toEqual(['/token']);
  });
});
