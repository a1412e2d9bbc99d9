import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { beforeEach, describe, expect, test } from 'vitest';
import { createBearerCheck } from '#bridge/receive/bearer/bearer-check.ts';
import { testOutgoing } from '../../../harness/test-certificates.ts';
import { giveJson, startTokenServer } from '../../../harness/token-server.ts';
import { type TestClock, testClock } from '../../parts.ts';

interface Signer {
  readonly jwk: JWK;
  sign(claims?: JWTPayload & { omit?: string[] }, header?: { kid?: string }): Promise<string>;
}

/** A fake authorisation server: its keys sign the tokens of the tests. */
async function createSigner(alg: string, kid: string | undefined): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const named = kid === undefined ? {} : { kid };
  const jwk = { ...(await exportJWK(publicKey)), alg, use: 'sig', ...named };
  return {
    jwk,
    sign: ({ omit = [], ...claims } = {}, header = named) => {
      const nowS = Math.floor(clock.nowMs() / 1000);
      const all: JWTPayload = { iss: 'https://auth.example', aud: 'bridge', exp: nowS + 300, iat: nowS, ...claims };
      const payload = Object.fromEntries(Object.entries(all).filter(([name]) => !omit.includes(name)));
      return new SignJWT(payload).setProtectedHeader({ alg, ...header }).sign(privateKey);
    },
  };
}

const server = await startTokenServer();
const { fetch } = testOutgoing();
let clock: TestClock = testClock();
const [rsa, ec, ed] = [
  await createSigner('RS256', 'rsa'),
  await createSigner('ES256', 'ec'),
  await createSigner('EdDSA', 'ed'),
];
let published: JWK[] = [];
beforeEach(() => {
  clock = testClock();
  published = [rsa.jwk, ec.jwk, ed.jwk];
  server.asked.length = 0;
  server.answer = (response) => giveJson(response, 200, { keys: published });
});

const settings = { type: 'jwt', jwks_url: server.url, issuer: 'https://auth.example', audience: 'bridge' } as const;
const newCheck = () => createBearerCheck(settings, { fetch, clock });
const nowS = () => Math.floor(clock.nowMs() / 1000);

test('tokens signed with any of the published keys are valid; the keys are read once', async () => {
  const check = newCheck();
  for (const signer of [rsa, ec, ed, rsa]) expect(await check(await signer.sign())).toBe(true);
  expect(server.asked).toHaveLength(1);
});

test('a token that names no key is tried with all keys that fit', async () => {
  const other = await createSigner('RS256', undefined);
  published = [rsa.jwk, other.jwk];
  const check = newCheck();
  expect(await check(await other.sign({}, {}))).toBe(true);
  expect(await check(await (await createSigner('RS256', undefined)).sign({}, {}))).toBe(false);
});

describe('a token is not valid:', () => {
  test.each<[string, () => Promise<string> | string]>([
    ['of another issuer', () => rsa.sign({ iss: 'https://other.example' })],
    ['for another audience', () => rsa.sign({ aud: 'another' })],
    ['without an audience', () => rsa.sign({ omit: ['aud'] })],
    ['without an issuer', () => rsa.sign({ omit: ['iss'] })],
    ['without an expiry', () => rsa.sign({ omit: ['exp'] })],
    ['that has expired', () => rsa.sign({ exp: nowS() - 31 })],
    ['that is not valid yet', () => rsa.sign({ nbf: nowS() + 31 })],
    [
      'of a key that is not published, under the name of one that is',
      async () => (await createSigner('RS256', 'rsa')).sign(),
    ],
    ['of a key of another kind under that name', async () => (await createSigner('ES256', 'rsa')).sign()],
    [
      'that is not signed',
      () => new UnsecuredJWT({ iss: 'https://auth.example', aud: 'bridge', exp: nowS() + 60 }).encode(),
    ],
    [
      'under a shared secret that is the published key',
      () =>
        new SignJWT({ iss: 'https://auth.example', aud: 'bridge', exp: nowS() + 60 })
          .setProtectedHeader({ alg: 'HS256', kid: 'rsa' })
          .sign(Buffer.from(JSON.stringify(rsa.jwk))),
    ],
    ['that is no JWT', () => 'a.b.c'],
    ['that is none', () => 'opaque-token'],
    [
      'with an altered claim',
      async () => {
        const [head, , signature] = (await rsa.sign()).split('.');
        const claims = { iss: 'https://auth.example', aud: 'bridge', exp: nowS() + 9_999 };
        return [head, Buffer.from(JSON.stringify(claims)).toString('base64url'), signature].join('.');
      },
    ],
  ])('%s', async (_what, make) => {
    const check = newCheck();
    expect(await check(await make())).toBe(false);
    expect(await check(await rsa.sign()), 'and the next one is looked at for itself').toBe(true);
  });

  test('one that has expired, although it was valid before', async () => {
    const check = newCheck();
    const token = await rsa.sign({ exp: nowS() + 20 });
    expect(await check(token)).toBe(true);
    // Clocks may differ by half a minute.
    clock.advance(49_000);
    expect(await check(token)).toBe(true);
    clock.advance(2_000);
    expect(await check(token)).toBe(false);
  });
});

describe('when the server rotates its keys', () => {
  test('a token of a new key is valid at once, and that of a withdrawn key for ten minutes at most', async () => {
    const check = newCheck();
    expect(await check(await rsa.sign())).toBe(true);
    const fresh = await createSigner('RS256', 'fresh');
    published = [fresh.jwk];
    clock.advance(10_000);
    expect(await check(await fresh.sign())).toBe(true);
    expect(server.asked).toHaveLength(2);
    expect(await check(await rsa.sign())).toBe(false);
  });

  test('keys are requested at most every ten seconds, whatever keys the tokens name', async () => {
    const check = newCheck();
    const unknown = await createSigner('RS256', 'unknown');
    expect(await check(await rsa.sign())).toBe(true);
    for (let count = 0; count < 20; count += 1)
      expect(await check(await unknown.sign({ jti: String(count) }))).toBe(false);
    expect(server.asked).toHaveLength(1);
    clock.advance(10_000);
    expect(await check(await unknown.sign({ jti: 'later' }))).toBe(false);
    expect(server.asked).toHaveLength(2);
  });
});

test('the keys are read again although the clock was set back', async () => {
  const check = newCheck();
  expect(await check(await rsa.sign())).toBe(true);
  const fresh = await createSigner('RS256', 'fresh');
  published = [fresh.jwk];
  clock.advance(-7_200_000);
  expect(await check(await rsa.sign()), 'of a withdrawn key').toBe(false);
  expect(await check(await fresh.sign())).toBe(true);
  expect(server.asked).toHaveLength(2);
  clock.advance(-60_000);
  const fresher = await createSigner('RS256', 'fresher');
  published = [fresher.jwk];
  expect(await check(await fresher.sign()), 'a key that is not known').toBe(true);
});

describe('when the keys cannot be read', () => {
  const fail = () => {
    server.answer = (response) => giveJson(response, 500, {});
  };

  test.each([
    ['the server fails', fail],
    [
      'it answers with something else',
      () => void (server.answer = (response) => giveJson(response, 200, { keys: 'x' })),
    ],
    ['it answers no JSON', () => void (server.answer = (response) => response.writeHead(200).end('<html>'))],
  ])('and none are known, the service is to try again: %s', async (_what, spoil) => {
    spoil();
    const check = newCheck();
    await expect(check(await rsa.sign())).rejects.toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
    server.answer = (response) => giveJson(response, 200, { keys: published });
    expect(await check(await rsa.sign())).toBe(true);
  });

  test('known keys are used for an hour, and no longer', async () => {
    const check = newCheck();
    expect(await check(await rsa.sign())).toBe(true);
    fail();
    clock.advance(3_600_000);
    expect(await check(await rsa.sign())).toBe(true);
    clock.advance(60_001);
    await expect(check(await rsa.sign())).rejects.toMatchObject({ code: 'unavailable' });
  });
});
