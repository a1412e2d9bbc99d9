/** Webhooks with OAuth client credentials, with a real token server and a real receiver over HTTPS. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { jwtVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import { FetchError } from '#platform/guarded-fetch.ts';
import { deliveryAttempts } from '../../harness/delivery-attempts.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { request } from '../../harness/request.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startRecordedService, startTestService } from '../../harness/test-service.ts';
import { giveJson, startTokenServer, type TokenRequest, type TokenServer } from '../../harness/token-server.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../harness/webhook-receiver.ts';

const second = 1_000;
const clock = createManualClock();
const service = await startRecordedService({ clock, random: () => 0.5 });
const { lines, sent } = service;
const { database } = service.db;

const clientId = 'client:1 ä';
const clientSecret = 'se cret+/=%&"ß';
// Worked out by hand from RFC 6749, 2.3.1: each part form-urlencoded in UTF-8, then Base64 of both with a colon.
const basic = `Basic ${Buffer.from('client%3A1+%C3%A4:se+cret%2B%2F%3D%25%26%22%C3%9F').toString('base64')}`;

const parametersFor = (tokenServer: TokenServer, changes: object = {}) => ({
  access_token_url: tokenServer.url,
  client_id: clientId,
  client_secret: clientSecret,
  scope: 'hooks.write hooks.read',
  ...changes,
});

type KeyPair = { privateKey: KeyObject; publicKey: KeyObject };
const pemOf = ({ privateKey }: Pick<KeyPair, 'privateKey'>) => privateKey.export({ type: 'pkcs8', format: 'pem' });
const shortKey = generateKeyPairSync('rsa', { modulusLength: 1_024 });
const otherKey = generateKeyPairSync('x25519');

interface Setup {
  organisation: TestOrganisation;
  receiver: WebhookReceiver;
  tokenServer: TokenServer;
}

async function setUp(): Promise<Setup> {
  return {
    organisation: await service.organisation(),
    receiver: await startWebhookReceiver(),
    tokenServer: await startTokenServer(),
  };
}

const create = ({ organisation, receiver, tokenServer }: Setup, changes: object = {}, key?: string) =>
  organisation.call(
    'POST',
    '/api/webhooks',
    {
      name: 'hook',
      url: receiver.url,
      triggers: ['TEST'],
      authentication: { type: 'OAUTH_CLIENT_CREDENTIALS', parameters: parametersFor(tokenServer, changes) },
    },
    key === undefined ? undefined : { 'idempotency-key': key },
  );

async function created(setup: Setup, changes: object = {}): Promise<string> {
  const made = await create(setup, changes);
  expect(made.status).toBe(201);
  return made.body.uuid;
}

interface Row {
  state: string;
  attempts: number;
  due: string;
  error: string | null;
  status: number | null;
  response_excerpt: string | null;
}

/** Waits until nothing is being sent or due, and returns the deliveries with their newest attempts. */
const waitUntilIdle = (uuid: string) =>
  eventually('nothing is being sent', async () => {
    const rows = await database.query<Row>(
      `select d.state, d.attempts, d.due, a.error, a.status, a.response_excerpt
       from service.deliveries d
       left join ${deliveryAttempts} a on a.delivery_id = d.id and a.number = d.attempts
       where d.webhook_id = $1 order by d.created, d.id`,
      [uuid],
    );
    const isDue = (row: Row) => row.state === 'pending' && Date.parse(row.due) <= clock.nowMs();
    return !rows.some((row) => row.state === 'sending' || isDue(row)) && rows;
  });

async function testNotification({ organisation }: Setup, uuid: string): Promise<Row[]> {
  expect((await organisation.call('POST', `/api/webhooks/${uuid}/test`)).status).toBe(202);
  return waitUntilIdle(uuid);
}

const tokensAt = ({ receiver }: Setup) => receiver.received.map(({ headers }) => headers.authorization);

describe('creation', () => {
  test('obtains a token by client credentials, never shows the parameters, and stores them sealed', async () => {
    const setup = await setUp();
    const made = await create(setup);
    expect(made.status).toBe(201);
    expect(setup.tokenServer.asked).toMatchObject([
      {
        headers: { authorization: basic, 'content-type': 'application/x-www-form-urlencoded' },
        form: { grant_type: 'client_credentials', scope: 'hooks.write hooks.read' },
      },
    ]);
    // The secret is sent in one way only: RFC 6749, 2.3.
    expect(Object.keys(setup.tokenServer.asked[0]?.form ?? {})).toEqual(['grant_type', 'scope']);
    expect(made.body.authentication).toBeUndefined();
    for (const path of [`/api/webhooks/${made.body.uuid}`, '/api/webhooks'])
      expect(JSON.stringify((await setup.organisation.call('GET', path)).body)).not.toMatch(
        /authentication|client_id|token/,
      );
    const [row] = await database.query<{ authentication: Buffer }>(
      'select authentication from service.webhooks where id = $1',
      [made.body.uuid],
    );
    expect(row?.authentication.length).toBeGreaterThan(100);
    expect(row?.authentication.toString('utf8')).not.toMatch(/client|token|scope/);
  });

  test('without a scope sends no scope', async () => {
    const setup = await setUp();
    await created(setup, { scope: undefined });
    await created(setup, { scope: '' });
    expect(setup.tokenServer.asked.map(({ form }) => form)).toEqual([
      { grant_type: 'client_credentials' },
      { grant_type: 'client_credentials' },
    ]);
  });

  test('sends the secret in the body to a server that does not accept HTTP Basic, and remembers that', async () => {
    const setup = await setUp();
    setup.tokenServer.answer = (response, { form }: TokenRequest) =>
      form['client_secret'] === clientSecret && form['client_id'] === clientId
        ? giveJson(response, 200, { access_token: 'from-the-body', token_type: 'bearer', expires_in: 1 })
        : giveJson(response, 401, { error: 'invalid_client' });
    const uuid = await created(setup);
    expect(setup.tokenServer.asked.map(({ headers }) => headers.authorization)).toEqual([basic, undefined]);
    clock.advance(second);
    await testNotification(setup, uuid);
    expect(setup.tokenServer.asked.map(({ headers }) => headers.authorization)).toEqual([basic, undefined, undefined]);
    expect(tokensAt(setup)).toEqual(['Bearer from-the-body']);
  });

  test.each<[string, number, object]>([
    ['400 with invalid_request', 400, { error: 'invalid_request' }],
    ['400 with invalid_client', 400, { error: 'invalid_client' }],
    ['403 without an error code', 403, {}],
    ['200 with invalid_client', 200, { error: 'invalid_client' }],
  ])('sends the secret in the body after %s', async (_what, status, body) => {
    const setup = await setUp();
    setup.tokenServer.answer = (response, { headers }) =>
      headers.authorization === undefined
        ? giveJson(response, 200, { access_token: 'x', token_type: 'bearer' })
        : giveJson(response, status, body);
    expect((await create(setup)).status).toBe(201);
  });

  test.each(['bearer', 'BEARER', 'BearerToken', undefined])('accepts the token type %s', async (type) => {
    const setup = await setUp();
    setup.tokenServer.answer = (response) => giveJson(response, 200, { access_token: 'x', token_type: type });
    expect((await create(setup)).status).toBe(201);
  });

  test('reads an answer with a byte order mark, and one that is compressed without being asked', async () => {
    const answers = [Buffer.from('\ufeff{"access_token":"a"}'), gzipSync('{"access_token":"b"}')];
    for (const [index, body] of answers.entries()) {
      const setup = await setUp();
      setup.tokenServer.answer = (response) =>
        response.writeHead(200, index === 1 ? { 'content-encoding': 'gzip' } : {}).end(body);
      await testNotification(setup, await created(setup));
      expect(tokensAt(setup)).toEqual([`Bearer ${'ab'[index]}`]);
    }
  });

  test('sends audience and resource as they are', async () => {
    const setup = await setUp();
    await created(setup, { audience: 'https://erp.example/', resource: 'https://erp.example/hooks' });
    expect(setup.tokenServer.asked[0]?.form).toEqual({
      grant_type: 'client_credentials',
      scope: 'hooks.write hooks.read',
      audience: 'https://erp.example/',
      resource: 'https://erp.example/hooks',
    });
  });

  test.each<[string, string | undefined]>([
    ['client_secret_basic', basic],
    ['client_secret_post', undefined],
  ])('with %s the secret is sent in this way and in no other', async (method, authorization) => {
    const setup = await setUp();
    setup.tokenServer.answer = (response) => giveJson(response, 401, { error: 'invalid_client' });
    expect((await create(setup, { token_endpoint_auth_method: method })).status).toBe(400);
    expect(setup.tokenServer.asked.map(({ headers }) => headers.authorization)).toEqual([authorization]);
  });

  test.each<[string, KeyPair]>([
    ['RS256', generateKeyPairSync('rsa', { modulusLength: 2_048 })],
    ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
    ['ES384', generateKeyPairSync('ec', { namedCurve: 'P-384' })],
    ['ES512', generateKeyPairSync('ec', { namedCurve: 'P-521' })],
    ['EdDSA', generateKeyPairSync('ed25519')],
  ])('with a private key a JWT (%s) proves the client, another one for each request', async (alg, pair) => {
    const setup = await setUp();
    const uuid = await created(setup, { client_secret: undefined, private_key: pemOf(pair), key_id: 'key 1' });
    clock.advance(3_600 * second);
    await testNotification(setup, uuid);
    const ids = new Set<unknown>();
    for (const { headers, form } of setup.tokenServer.asked) {
      expect(headers.authorization).toBeUndefined();
      expect(form).toMatchObject({
        client_id: clientId,
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      });
      const { payload, protectedHeader } = await jwtVerify(form['client_assertion'] ?? '', pair.publicKey, {
        issuer: clientId,
        subject: clientId,
        audience: setup.tokenServer.url,
        maxTokenAge: 3_600 * 2,
        currentDate: new Date(clock.nowMs() - 3_600 * second),
        clockTolerance: 3_700,
      });
      expect(protectedHeader).toEqual({ alg, typ: 'JWT', kid: 'key 1' });
      ids.add(payload.jti);
    }
    expect(ids.size).toBe(2);
    expect(tokensAt(setup)).toEqual(['Bearer token-2']);
  });

  const json = (status: number, body: unknown) => (response: ServerResponse) => giveJson(response, status, body);
  const path = 'authentication.parameters.access_token_url';
  test.each<[string, (response: ServerResponse) => void, string, RegExp]>([
    ['refuses the client', json(401, { error: 'invalid_client' }), path, /401 with the error invalid_client/],
    ['refuses the scope', json(400, { error: 'invalid_scope' }), 'authentication.parameters.scope', /invalid_scope/],
    ['refuses the grant', json(400, { error: 'unauthorized_client' }), path, /unauthorized_client/],
    ['answers an error with 200', json(200, { error: 'invalid_grant' }), path, /invalid_grant/],
    ['answers an error and a token', json(200, { error: 'server_error', access_token: 'x' }), path, /server_error/],
    ['repeats the secret as its error', json(400, { error: clientSecret }), path, /answered 400\.?$/],
    ['breaks', json(500, { message: `boom ${clientSecret}` }), path, /answered 500\.?$/],
    ['redirects', (response) => response.writeHead(302, { location: '/elsewhere' }).end(), path, /answered 302/],
    ['answers HTML', (response) => response.end('<html>sign in</html>'), path, /is not JSON/],
    ['answers with brackets', (response) => response.end('['.repeat(60_000)), path, /nested deeper than 100 levels/],
    ['answers a list', json(200, ['x']), path, /no JSON object/],
    ['returns no token', json(200, { token_type: 'bearer' }), path, /without an access_token/],
    ['returns an empty token', json(200, { access_token: '', token_type: 'bearer' }), path, /without an access_token/],
    [
      'returns a number as the token',
      json(200, { access_token: 1, token_type: 'bearer' }),
      path,
      /without an access_token/,
    ],
    [
      'returns a token with a line break',
      json(200, { access_token: 'a\r\nx-injected: 1', token_type: 'bearer' }),
      path,
      /without an access_token/,
    ],
    ['returns a token with a space', json(200, { access_token: 'a b', token_type: 'bearer' }), path, /without/],
    ['returns a token too long for a header', json(200, { access_token: 'x'.repeat(8_193) }), path, /without/],
    ['returns another token type', json(200, { access_token: 'x', token_type: 'mac' }), path, /type bearer/],
    [
      'answers more than 64 KiB',
      json(200, { access_token: 'x', padding: 'x'.repeat(70_000) }),
      path,
      /too large|larger/,
    ],
    ['hangs up', (response) => response.destroy(), path, /closed the connection/],
  ])('is 400 when the token server %s, and creates no webhook', async (_what, answer, where, message) => {
    const setup = await setUp();
    setup.tokenServer.answer = answer;
    const made = await create(setup);
    expect([made.status, made.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [where]]);
    expect(made.body.errors[0].message).toMatch(message);
    for (const secret of [clientSecret, clientId, basic.slice(6), 'boom', 'sign in'])
      expect(JSON.stringify(made.body)).not.toContain(secret);
    expect((await setup.organisation.call('GET', '/api/webhooks')).body.count).toBe(0);
  });

  test.each<[string, object, string]>([
    ['plain HTTP', { access_token_url: 'http://localhost/token' }, 'access_token_url'],
    ['no URL', { access_token_url: 'localhost' }, 'access_token_url'],
    ['credentials in the URL', { access_token_url: 'https://u:p@localhost/token' }, 'access_token_url'],
    ['a port without a server', { access_token_url: 'https://localhost:1/token' }, 'access_token_url'],
    ['an unknown host', { access_token_url: 'https://no-such-host.invalid/token' }, 'access_token_url'],
    ['no client id', { client_id: undefined }, 'client_id'],
    ['an empty client id', { client_id: '' }, 'client_id'],
    ['no secret', { client_secret: undefined }, 'client_secret'],
    ['a scope that is a list', { scope: ['a'] }, 'scope'],
    ['a scope with a quote', { scope: 'a"b' }, 'scope'],
    ['an unknown parameter', { realm: 'x' }, 'realm'],
    ['an empty audience', { audience: '' }, 'audience'],
    ['a secret and a key', { private_key: 'x' }, 'private_key'],
    ['a key id without a key', { key_id: 'x' }, 'key_id'],
    ['an unknown way', { token_endpoint_auth_method: 'none' }, 'token_endpoint_auth_method'],
    ['a key that is none', { client_secret: undefined, private_key: 'x' }, 'private_key'],
    ['a short RSA key', { client_secret: undefined, private_key: pemOf(shortKey) }, 'private_key'],
    ['a key of another kind', { client_secret: undefined, private_key: pemOf(otherKey) }, 'private_key'],
  ])('%s is 400 with the parameter in the path', async (_what, changes, parameter) => {
    const made = await create(await setUp(), changes);
    expect([made.status, made.body.errors[0].path]).toEqual([400, `authentication.parameters.${parameter}`]);
    expect(JSON.stringify(made.body)).not.toContain(clientSecret);
  });

  test('another type of authentication is 400', async () => {
    const { organisation, receiver } = await setUp();
    const hook = {
      name: 'h',
      url: receiver.url,
      triggers: ['TEST'],
      authentication: { type: 'BASIC', parameters: {} },
    };
    const made = await organisation.call('POST', '/api/webhooks', hook);
    expect([made.status, made.body.errors[0].path]).toEqual([400, 'authentication.type']);
  });

  test('a host that is not whitelisted is refused before the secret is sent', async () => {
    const setup = await setUp();
    await service.operator('PUT', `/admin/organisations/${setup.organisation.id}/webhook-domains`, { domains: [] });
    const made = await create(setup);
    expect([made.status, made.body.errors[0].path]).toEqual([400, 'url']);
    expect(setup.tokenServer.asked).toEqual([]);
  });

  test('no transaction is open while the token server is slow', async () => {
    const setup = await setUp();
    let release: () => void = () => undefined;
    setup.tokenServer.answer = (response) => {
      release = () => giveJson(response, 200, { access_token: 'late', token_type: 'bearer' });
    };
    const making = create(setup, {}, 'slow');
    await eventually('the token server is asked', async () => setup.tokenServer.asked.length === 1);
    const open = await database.query(
      `select query from pg_stat_activity where datname = current_database() and xact_start is not null
         and pid <> pg_backend_pid() and state like 'idle in transaction%'`,
    );
    expect(open).toEqual([]);
    release();
    expect((await making).status).toBe(201);
  });

  test('a repeated creation requests no second token, and is answered also when the token server is down', async () => {
    const setup = await setUp();
    const first = await create(setup, {}, 'k');
    setup.tokenServer.answer = (response) => response.destroy();
    const again = await create(setup, {}, 'k');
    expect([first.status, again.status, again.body.uuid]).toEqual([201, 201, first.body.uuid]);
    expect(again.body.signing_key).toBeUndefined();
    expect(setup.tokenServer.asked).toHaveLength(1);
    expect((await create(setup, { client_id: 'other' }, 'k')).status).toBe(409);
    expect(setup.tokenServer.asked).toHaveLength(1);
  });

  test('two creations at once with one key create one webhook', async () => {
    const setup = await setUp();
    const both = await Promise.all([create(setup, {}, 'twice'), create(setup, {}, 'twice')]);
    expect(both.map(({ status }) => status)).toEqual([201, 201]);
    expect(new Set(both.map(({ body }) => body.uuid)).size).toBe(1);
    expect((await setup.organisation.call('GET', '/api/webhooks')).body.count).toBe(1);
  });

  test('of two creations at once with one key, one without a token returns the webhook of the other', async () => {
    const setup = await setUp();
    const held: ServerResponse[] = [];
    setup.tokenServer.answer = (response) => void held.push(response);
    const both = [create(setup, {}, 'half'), create(setup, {}, 'half')];
    await eventually('the token server is asked twice', async () => held.length === 2);
    const [good, bad] = held as [ServerResponse, ServerResponse];
    giveJson(good, 200, { access_token: 'a', token_type: 'Bearer' });
    const first = await Promise.race(both);
    giveJson(bad, 503, {});
    const answers = await Promise.all(both);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(answers.map(({ body }) => body.uuid)).toEqual([first.body.uuid, first.body.uuid]);
    expect((await setup.organisation.call('GET', '/api/webhooks')).body.count).toBe(1);
  });

  test('a creation that failed does not use up its idempotency key', async () => {
    const setup = await setUp();
    const { answer } = setup.tokenServer;
    setup.tokenServer.answer = json(503, {});
    expect((await create(setup, {}, 'retry')).status).toBe(400);
    setup.tokenServer.answer = answer;
    expect((await create(setup, {}, 'retry')).status).toBe(201);
  });
});

describe('delivery', () => {
  test('carries the bearer token beside the signature, and uses it until shortly before it expires', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    for (let round = 0; round < 3; round += 1) await testNotification(setup, uuid);
    expect(tokensAt(setup)).toEqual(['Bearer token-1', 'Bearer token-1', 'Bearer token-1']);
    expect(setup.receiver.received[0]?.headers['x-signature']).toMatch(/^hmac-sha256=[0-9a-f]{64}$/);
    // It expires after 3,600 s, and is not used in its last 30 s.
    clock.advance(3_569 * second);
    await testNotification(setup, uuid);
    clock.advance(second);
    await testNotification(setup, uuid);
    expect(tokensAt(setup).slice(3)).toEqual(['Bearer token-1', 'Bearer token-2']);
    expect(setup.tokenServer.asked).toHaveLength(2);
  });

  test.each<[string, unknown, number]>([
    ['nothing', undefined, 270],
    ['a word', 'soon', 270],
    ['a negative number', -5, 270],
    ['a number as text', '100', 90],
    ['a huge number', 1e300, 24 * 3_600 - 30],
  ])('uses a token whose expires_in is %s (%j) for %i seconds', async (_w, given, s) => {
    const setup = await setUp();
    setup.tokenServer.answer = (response) =>
      giveJson(response, 200, {
        access_token: `t${setup.tokenServer.asked.length}`,
        token_type: 'bearer',
        expires_in: given,
      });
    const uuid = await created(setup);
    clock.advance(s * second - 1);
    await testNotification(setup, uuid);
    clock.advance(1);
    await testNotification(setup, uuid);
    expect(tokensAt(setup)).toEqual(['Bearer t1', 'Bearer t2']);
  });

  test('of many notifications at once requests one token', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    setup.receiver.answer = 500;
    for (let round = 0; round < 4; round += 1) await testNotification(setup, uuid);
    setup.receiver.answer = 204;
    // All four are due, and the token has expired: they are sent together.
    clock.advance(3_600 * second);
    setup.receiver.received.length = 0;
    await service.service.sweep();
    expect((await waitUntilIdle(uuid)).map(({ state }) => state)).toEqual(Array(4).fill('delivered'));
    expect(tokensAt(setup)).toEqual(Array(4).fill('Bearer token-2'));
    expect(setup.tokenServer.asked).toHaveLength(2);
  });

  test('renews the token once when many notifications are refused at once', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    setup.receiver.answer = 500;
    for (let round = 0; round < 4; round += 1) await testNotification(setup, uuid);
    setup.receiver.answer = (response, { headers }) =>
      response.writeHead(headers.authorization === 'Bearer token-1' ? 401 : 204).end();
    clock.advance(5 * second);
    await service.service.sweep();
    expect((await waitUntilIdle(uuid)).map(({ state }) => state)).toEqual(Array(4).fill('delivered'));
    expect(setup.tokenServer.asked).toHaveLength(2);
  });

  test('renews a token that the receiver refuses, and sends at once within the same attempt', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    setup.receiver.answer = (response, { headers }) =>
      response.writeHead(headers.authorization === 'Bearer token-1' ? 401 : 204).end();
    expect(await testNotification(setup, uuid)).toMatchObject([{ state: 'delivered', attempts: 1 }]);
    expect(tokensAt(setup)).toEqual(['Bearer token-1', 'Bearer token-2']);
    const [first, again] = setup.receiver.received;
    expect(again?.body.equals(first?.body ?? Buffer.of())).toBe(true);
    expect([again?.headers['webhook-id'], again?.headers['webhook-attempt']]).toEqual([
      first?.headers['webhook-id'],
      '1',
    ]);
    // The new token is kept.
    await testNotification(setup, uuid);
    expect(tokensAt(setup).at(-1)).toBe('Bearer token-2');
  });

  test('renews a token that is refused with 403 and invalid_token; another 403 is not about the token', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    setup.receiver.answer = (response, { headers }) =>
      headers.authorization === 'Bearer token-1'
        ? response.writeHead(403, { 'www-authenticate': 'Bearer realm="hooks", error="invalid_token"' }).end()
        : response.writeHead(204).end();
    expect(await testNotification(setup, uuid)).toMatchObject([{ state: 'delivered', attempts: 1 }]);
    setup.receiver.received.length = 0;
    setup.receiver.answer = 403;
    await testNotification(setup, uuid);
    expect(tokensAt(setup)).toEqual(['Bearer token-2']);
  });

  test('renews once: a second refusal is a failed attempt, and the next attempt starts with a new token', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    setup.receiver.answer = 401;
    expect(await testNotification(setup, uuid)).toMatchObject([{ state: 'pending', attempts: 1, status: 401 }]);
    expect(tokensAt(setup)).toEqual(['Bearer token-1', 'Bearer token-2']);
    setup.receiver.answer = 204;
    clock.advance(5 * second);
    await service.service.sweep();
    expect(await waitUntilIdle(uuid)).toMatchObject([{ state: 'delivered', attempts: 2 }]);
    expect(tokensAt(setup).at(-1)).toBe('Bearer token-3');
  });

  test('is not repeated when the token server returns the refused token again', async () => {
    const setup = await setUp();
    setup.tokenServer.answer = (response) => giveJson(response, 200, { access_token: 'same', token_type: 'bearer' });
    const uuid = await created(setup);
    setup.receiver.answer = 401;
    expect(await testNotification(setup, uuid)).toMatchObject([{ state: 'pending', status: 401 }]);
    expect(setup.receiver.received).toHaveLength(1);
    expect(setup.tokenServer.asked).toHaveLength(2);
  });

  test('without authentication treats a 401 as any other failure', async () => {
    const setup = await setUp();
    const hook = { name: 'h', url: setup.receiver.url, triggers: ['TEST'] };
    const { uuid } = (await setup.organisation.call('POST', '/api/webhooks', hook)).body;
    setup.receiver.answer = 401;
    expect(await testNotification(setup, uuid)).toMatchObject([{ state: 'pending', status: 401 }]);
    expect(tokensAt(setup)).toEqual([undefined]);
  });

  test('without a token is a failed attempt with the reason, retried by the schedule', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    const { answer } = setup.tokenServer;
    clock.advance(3_600 * second);
    setup.tokenServer.answer = (response) => giveJson(response, 401, { error: 'invalid_client' });
    const [row] = await testNotification(setup, uuid);
    expect(row).toMatchObject({
      state: 'pending',
      attempts: 1,
      status: null,
      error: 'No access token could be obtained: localhost answered 401 with the error invalid_client.',
    });
    expect(Date.parse(row?.due ?? '') - clock.nowMs()).toBe(5 * second);
    expect(setup.receiver.received).toEqual([]);
    setup.tokenServer.answer = answer;
    clock.advance(5 * second);
    await service.service.sweep();
    expect(await waitUntilIdle(uuid)).toMatchObject([{ state: 'delivered', attempts: 2 }]);
    expect(setup.receiver.received[0]?.headers['webhook-attempt']).toBe('2');
  });

  test("waits as long as the token server's Retry-After", async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    clock.advance(3_600 * second);
    setup.tokenServer.answer = (response) => response.writeHead(429, { 'retry-after': '90' }).end('{}');
    const [row] = await testNotification(setup, uuid);
    expect(Date.parse(row?.due ?? '') - clock.nowMs()).toBe(90 * second);
  });

  test('has 15 s for the token and the notification together', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    clock.advance(3_600 * second);
    const { answer } = setup.tokenServer;
    setup.tokenServer.answer = (response, request) => {
      clock.advance(9 * second);
      answer(response, request);
    };
    sent.length = 0;
    expect(await testNotification(setup, uuid)).toMatchObject([{ state: 'delivered' }]);
    // Retries of other tests may have become due as the clock moved.
    const own = sent.filter(({ url }) => url === setup.tokenServer.url || url === setup.receiver.url);
    expect(own.map(({ timeoutMs }) => timeoutMs)).toEqual([15_000, 6_000]);
    clock.advance(3_600 * second);
    setup.tokenServer.answer = (response, request) => {
      clock.advance(15 * second);
      answer(response, request);
    };
    const rows = await testNotification(setup, uuid);
    expect(rows[1]).toMatchObject({ state: 'pending', error: expect.stringContaining('no time was left') });
    expect(setup.receiver.received).toHaveLength(1);
    // Its retries must not move the clock of the tests that follow.
    setup.tokenServer.answer = answer;
  });

  test('requests the token through the network guard, too', async () => {
    const setup = await setUp();
    const uuid = await created(setup);
    clock.advance(3_600 * second);
    await service.operator('PUT', `/admin/organisations/${setup.organisation.id}/allowed-networks`, { cidrs: [] });
    const [row] = await testNotification(setup, uuid);
    expect(row).toMatchObject({
      state: 'pending',
      status: null,
      error: expect.stringMatching(/its address is not allowed/),
    });
    expect(setup.tokenServer.asked).toHaveLength(1);
  });

  test('requests a new token with the stored parameters after a restart', async () => {
    const before = await startTestService({ clock });
    const setup = { ...(await setUp()), organisation: await before.organisation() };
    const uuid = await created(setup);
    await before.service.close(0);
    const after = await startTestService({ clock, db: before.db });
    const path = `${after.url}/api/webhooks/${uuid}/test`;
    expect((await request('POST', path, { key: setup.organisation.key })).status).toBe(202);
    await eventually('the notification arrives', async () => setup.receiver.received.length === 1);
    expect(tokensAt(setup)).toEqual(['Bearer token-2']);
    expect(setup.tokenServer.asked[1]).toMatchObject({
      headers: { authorization: basic },
      form: { scope: 'hooks.write hooks.read' },
    });
  });
});

test('no token and no client secret is in a log line, an error, a URL, the delivery log or an excerpt', async () => {
  const setup = await setUp();
  const uuid = await created(setup);
  // The receiver repeats all secrets, also with NULs between their characters. The token server repeats them in its
  // error.
  setup.receiver.answer = (response, { headers }) =>
    response
      .writeHead(401)
      .end(`${headers.authorization} ${headers.authorization?.split('').join('\0')} ${clientSecret}`);
  await testNotification(setup, uuid);
  setup.tokenServer.answer = (response) =>
    response.writeHead(500, { 'x-echo': 'Zm9v' }).end(`${clientSecret} ${basic} token-1`);
  clock.advance(5 * second);
  await service.service.sweep();
  await waitUntilIdle(uuid);
  const attempts = await database.query(
    `select a.* from ${deliveryAttempts} a join service.deliveries d on d.id = a.delivery_id
     where d.webhook_id = $1 order by a.number`,
    [uuid],
  );
  expect(attempts).toMatchObject([
    { status: 401, response_excerpt: 'Bearer [secret] Bearer [secret] [secret]' },
    { status: null, error: 'No access token could be obtained: localhost answered 500.' },
  ]);
  const written = [
    ...lines,
    JSON.stringify(attempts),
    JSON.stringify(await service.operator('GET', `/admin/organisations/${setup.organisation.id}/deliveries`)),
    ...sent.map(({ url }) => url),
  ].join('\n');
  expect(written).toContain('answered 500');
  for (const secret of ['token-1', 'token-2', clientSecret, JSON.stringify(clientSecret).slice(1, -1), basic.slice(6)])
    expect(written).not.toContain(secret);
});

test('a shutdown during the token request is 503, not a fault of the parameters', async () => {
  const other = await startTestService({
    fetch: () => Promise.reject(new FetchError('unavailable', 'aborted', 'The request was ended.', {})),
  });
  const organisation = await other.organisation();
  const made = await organisation.call('POST', '/api/webhooks', {
    name: 'h',
    url: 'https://localhost/hook',
    triggers: ['TEST'],
    authentication: {
      type: 'OAUTH_CLIENT_CREDENTIALS',
      parameters: { access_token_url: 'https://localhost/token', client_id: 'a', client_secret: 'b' },
    },
  });
  expect(made.status).toBe(503);
});
