import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, test } from 'vitest';
import { createBearerCheck } from '#bridge/receive/bearer/bearer-check.ts';
import { testOutgoing } from '../../../harness/test-certificates.ts';
import { giveJson, startTokenServer } from '../../../harness/token-server.ts';
import { testClock } from '../../parts.ts';
import { testSecrets } from '../receiver.ts';

const server = await startTokenServer();
const { fetch } = testOutgoing();
const clock = testClock();
const settings = {
  type: 'introspection',
  introspection_url: server.url,
  client_id: 'the bridge',
  client_secret: 'its secret',
} as const;
const check = createBearerCheck(settings, { fetch, secrets: testSecrets, clock });
let number = 0;
let token = '';
beforeEach(() => {
  number += 1;
  token = `token-${number}`;
  server.asked.length = 0;
  server.answer = (response) => giveJson(response, 200, { active: true });
});
const nowS = () => clock.nowMs() / 1000;

test("an active token is valid; the server is asked as RFC 7662 says, with the bridge's credentials", async () => {
  expect(await check(token)).toBe(true);
  expect(server.asked).toMatchObject([
    {
      form: { token, token_type_hint: 'access_token' },
      headers: { authorization: `Basic ${Buffer.from('the+bridge:its+secret').toString('base64')}` },
    },
  ]);
});

test.each([
  ['that is not active', { active: false }],
  ['that has expired by its own word', { active: true, exp: 1 }],
  ['that is not valid yet', { active: true, nbf: Date.UTC(2040, 0, 1) / 1000 }],
])('a token %s is wrong', async (_what, body) => {
  server.answer = (response) => giveJson(response, 200, body);
  expect(await check(token)).toBe(false);
});

describe('the answer is cached', () => {
  test('for half a minute, for all checks of the token', async () => {
    expect(await Promise.all(Array.from({ length: 20 }, async () => check(token)))).toEqual(Array(20).fill(true));
    clock.advance(29_999);
    expect(await check(token)).toBe(true);
    expect(server.asked).toHaveLength(1);
    server.answer = (response) => giveJson(response, 200, { active: false });
    clock.advance(1);
    expect(await check(token)).toBe(false);
    expect(server.asked).toHaveLength(2);
  });

  test('not for longer when the clock was set back', async () => {
    expect(await check(token)).toBe(true);
    server.answer = (response) => giveJson(response, 200, { active: false });
    clock.advance(-3_600_000);
    expect(await check(token)).toBe(false);
  });

  test('not beyond the expiry of the token', async () => {
    const exp = nowS() + 10;
    server.answer = (response) => giveJson(response, 200, { active: true, exp });
    expect(await check(token)).toBe(true);
    clock.advance(10_000);
    expect(await check(token)).toBe(false);
  });
});

test('a compressed answer is read', async () => {
  server.answer = (response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('{"active":true}'));
  expect(await check(token)).toBe(true);
});

describe('no token is accepted, and the service tries again,', () => {
  test.each([
    ['the server fails', 500, { active: true }],
    ['the server does not know the bridge', 401, { active: true }],
    ['the answer does not say', 200, { exp: 1e12 }],
    ['the answer says it in another way', 200, { active: 'true' }],
    ['the answer is no JSON', 200, undefined],
    ['the answer is nested too deeply', 200, JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`)],
  ])('when %s', async (_what, status, body) => {
    server.answer = (response) =>
      body === undefined ? response.writeHead(status).end('active') : giveJson(response, status, body);
    await expect(check(token)).rejects.toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
    // The failure is not cached: the next check asks again.
    server.answer = (response) => giveJson(response, 200, { active: true });
    expect(await check(token)).toBe(true);
  });

  test('when the server is away; the error does not contain the token', async () => {
    const away = { ...settings, introspection_url: 'https://127.0.0.1:1/introspect' };
    const failing = createBearerCheck(away, { fetch, secrets: testSecrets, clock });
    const error = await Promise.resolve(failing(token)).catch((thrown: unknown) => thrown as Error);
    expect(error).toMatchObject({ code: 'unavailable' });
    expect(JSON.stringify(error) + String(error)).not.toMatch(/token-\d|its secret/);
  });
});
