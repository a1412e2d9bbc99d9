import { beforeAll, describe, expect, test } from 'vitest';
import { checkIssuedToken, type IssuedClient } from '#bridge/receive/bearer/issued-token.ts';
import { mountTokenEndpoint } from '#bridge/receive/bearer/token-endpoint.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { createTokenGuard } from '#platform/http/token-guard.ts';
import { createLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { closeAtEnd } from '../../../harness/close-at-end.ts';
import { createManualClock } from '../../../harness/manual-clock.ts';
import { testClock } from '../../parts.ts';
import { roomyBounds, testSecrets } from '../receiver.ts';

const clients = [
  { client_id: 'cloud', client_secret: 'the-secret-of-cloud' },
  { client_id: 'zażółć: a+b', client_secret: 'p%20s:s w+rd & more' },
];
const [cloud, odd] = clients as [IssuedClient, IssuedClient];
const clock = testClock();
const lines: string[] = [];
const registry = new Registry();
const guardClock = createManualClock();
let url = '';
beforeAll(async () => {
  const log = createLogger({ level: 'trace', name: 'test', destination: { write: (line) => lines.push(line) } });
  const application = createApplication({ log, registry, readiness: {} });
  const guarded = {
    metric: 'bridge_tokens_refused_total',
    wrongPerSecond: 60,
    clock: guardClock,
    log,
    registry,
  } as const;
  const tokenGuard = createTokenGuard(guarded);
  mountTokenEndpoint(application.express, { clients, secrets: testSecrets, clock, bodies: roomyBounds(), tokenGuard });
  application.finish();
  const server = await listen(application.listener, { host: '127.0.0.1', port: 0 });
  closeAtEnd(async () => {
    await server.close(0);
    await tokenGuard.close();
  });
  url = `${server.url}/oauth/token`;
});

const basic = (id: string, secret: string) => `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
const encoded = (text: string) => new URLSearchParams([['', text]]).toString().slice(1);

async function ask(form: object | string, authorization?: string) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      ...(authorization === undefined ? {} : { authorization }),
    },
    body: typeof form === 'string' ? form : new URLSearchParams({ ...form }).toString(),
  });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, unknown> };
}

const grant = { grant_type: 'client_credentials' };

describe('a token is issued', () => {
  test.each([
    ['by HTTP Basic', grant, basic('cloud', 'the-secret-of-cloud'), cloud],
    ['in the body', { ...grant, client_id: 'cloud', client_secret: 'the-secret-of-cloud' }, undefined, cloud],
    ['with a scope', { ...grant, scope: 'a b' }, basic('cloud', 'the-secret-of-cloud'), cloud],
    ['by Basic, form-encoded as RFC 6749 asks', grant, basic(encoded(odd.client_id), encoded(odd.client_secret)), odd],
    ['by Basic, by a client that does not encode', grant, basic('cloud', 'the-secret-of-cloud'), cloud],
    ['in the body, with odd characters', { ...grant, ...odd }, undefined, odd],
  ])('to a client that shows its secret %s', async (_how, form, authorization, client) => {
    const { status, headers, body } = await ask(form, authorization);
    expect([status, headers.get('cache-control'), headers.get('pragma')]).toEqual([200, 'no-store', 'no-cache']);
    expect(body).toEqual({ access_token: expect.any(String), token_type: 'Bearer', expires_in: 600 });
    expect(checkIssuedToken(testSecrets, client, String(body['access_token']), clock.nowMs())).toBe(true);
  });
});

describe('refused by RFC 6749, 5.2', () => {
  test.each([
    ['a wrong secret by Basic', grant, basic('cloud', 'guessed'), 401, 'invalid_client'],
    [
      'a wrong secret in the body',
      { ...grant, client_id: 'cloud', client_secret: 'guessed' },
      undefined,
      401,
      'invalid_client',
    ],
    ["another client's secret", grant, basic('cloud', odd.client_secret), 401, 'invalid_client'],
    ['an unknown client', grant, basic('nobody', 'the-secret-of-cloud'), 401, 'invalid_client'],
    ['no credentials', grant, undefined, 401, 'invalid_client'],
    ['half of them', { ...grant, client_id: 'cloud' }, undefined, 401, 'invalid_client'],
    ['another scheme', grant, 'Bearer the-secret-of-cloud', 401, 'invalid_client'],
    ['empty ones', grant, basic('', ''), 401, 'invalid_client'],
    ['credentials in two ways', { ...grant, ...cloud }, basic('cloud', 'the-secret-of-cloud'), 400, 'invalid_request'],
    ['no grant type', cloud, undefined, 400, 'invalid_request'],
    ['a parameter twice', 'grant_type=client_credentials&grant_type=password', undefined, 400, 'invalid_request'],
    ['another grant type', { grant_type: 'password', ...cloud }, undefined, 400, 'unsupported_grant_type'],
  ])('%s', async (_what, form, authorization, status, error) => {
    const answer = await ask(form, authorization);
    expect([answer.status, answer.body['error']]).toEqual([status, error]);
    const challenge = status === 401 && authorization !== undefined ? 'Basic realm="webhooks"' : null;
    expect(answer.headers.get('www-authenticate')).toBe(challenge);
    expect(answer.headers.get('cache-control')).toBe('no-store');
  });

  test('another media type with 415, another method with 405, a body that is too long with 413', async () => {
    const json = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
    expect(json.status).toBe(415);
    const got = await fetch(url);
    expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST']);
    expect((await ask(`grant_type=${'x'.repeat(20_000)}`)).status).toBe(413);
  });
});

test('no secret and no token is in the log', () => {
  const said = lines.join('');
  expect(said).toContain('/oauth/token');
  expect(said).not.toMatch(/the-secret-of-cloud|guessed|access_token/);
});

test('wrong secrets of one address are answered 401 sixty times a second, then 429; the right one always passes', async () => {
  guardClock.advance(1_000);
  const answers = await Promise.all(Array.from({ length: 100 }, (_, at) => ask(grant, basic('cloud', `guess-${at}`))));
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(60);
  const late = answers.filter(({ status }) => status === 429);
  expect(late.map(({ headers }) => headers.get('retry-after'))).toEqual(Array.from({ length: 40 }, () => '1'));
  expect((await ask(grant, basic(cloud.client_id, cloud.client_secret))).status).toBe(200);
  expect(await registry.metrics()).toContain('bridge_tokens_refused_total{by="client",answer="too_many"} 40');
});
