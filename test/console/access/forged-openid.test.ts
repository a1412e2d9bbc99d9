/**
 * What somebody between the console and its OpenID provider, or a person of the provider, may try: a provider of our own
 * answers with whatever a test wants.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { readActions } from '#platform/audit-log.ts';
import { type TestClock, testClock } from '../../bridge/parts.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { freePort } from '../../harness/free-port.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { type Browser, startConsole, type TestConsole } from './console.ts';

const clientId = 'bridge';
let db: TestDatabase;
let clock: TestClock;
let console: TestConsole;
let issuer: string;
let keys: { own: CryptoKey; foreign: CryptoKey };
/** What the provider puts into its next ID token, and with which key it signs. */
let claims: JWTPayload;
let signedBy: 'own' | 'foreign';

beforeAll(async () => {
  const [own, foreign] = [await generateKeyPair('RS256'), await generateKeyPair('RS256')];
  keys = { own: own.privateKey, foreign: foreign.privateKey };
  const published = { keys: [{ ...(await exportJWK(own.publicKey)), kid: 'own', alg: 'RS256', use: 'sig' }] };
  const server = createServer((request, response) => {
    void (async () => {
      const { pathname } = new URL(request.url ?? '', issuer);
      const answer =
        pathname === '/keys'
          ? published
          : pathname === '/token'
            ? { access_token: 'access', token_type: 'Bearer', id_token: await signed(claims) }
            : {
                issuer,
                authorization_endpoint: `${issuer}/auth`,
                token_endpoint: `${issuer}/token`,
                jwks_uri: `${issuer}/keys`,
                response_types_supported: ['code'],
                id_token_signing_alg_values_supported: ['RS256'],
              };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  db = await createTestDatabase();
  clock = testClock();
  const port = await freePort();
  console = await startConsole(
    db,
    clock,
    {
      console_url: `http://127.0.0.1:${port}`,
      console_login: {
        openid: {
          issuer,
          client_id: clientId,
          client_secret: 'a-secret-of-the-bridge',
          roles: [
            { claim: 'email', value: 'boss@example.com', role: 'operator' },
            { claim: 'groups', value: 'readers', role: 'viewer' },
          ],
        },
      },
    },
    port,
  );
});

beforeEach(async () => {
  await db.database.query('delete from bridge.console_tokens');
  await db.database.query('delete from bridge.console_login_failures');
  signedBy = 'own';
  claims = { sub: 'subject-1', email: 'anna@example.com', email_verified: true, groups: ['readers'] };
});

/** By the time of the machine, or by that of the console for a logout token. */
function signed(payload: JWTPayload, nowMs = Date.now(), key = signedBy): Promise<string> {
  const seconds = Math.floor(nowMs / 1_000);
  return new SignJWT(payload)
    .setProtectedHeader({ alg: 'RS256', kid: 'own' })
    .setIssuer(issuer)
    .setAudience(clientId)
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + 300)
    .sign(keys[key]);
}

/** Goes to the provider and comes back with its answer. */
async function logIn(browser: Browser): Promise<{ status: number; back: string }> {
  const away = new URL((await browser.open('/login/openid')).headers.get('location') ?? '');
  claims = { ...claims, nonce: away.searchParams.get('nonce') ?? '' };
  const query = new URLSearchParams({ code: 'code', state: away.searchParams.get('state') ?? '' });
  const back = `/login/openid/callback?${query.toString()}`;
  return { status: (await browser.open(back, { 'sec-fetch-site': 'cross-site' })).status, back };
}

async function nameOf(browser: Browser): Promise<string> {
  return ((await (await browser.open('/who')).json()) as { name: string }).name;
}

test('an ID token that another key has signed logs no one in', async () => {
  const browser = console.browser();
  expect((await logIn(browser)).status).toBe(303);
  signedBy = 'foreign';
  expect((await logIn(console.browser())).status).toBe(401);
});

test('a person whom the provider calls as an account is called has another name in the audit log', async () => {
  const browser = console.browser();
  claims = { ...claims, email: 'anna' };
  await logIn(browser);
  const name = `anna (subject-1 at ${new URL(issuer).host})`;
  expect(await nameOf(browser)).toBe(name);
  const [last] = await readActions(db.database, 'bridge', { limit: 1 });
  expect(last).toMatchObject({
    who: { kind: 'user', name },
    details: { method: 'openid', subject: 'subject-1', issuer },
  });
});

test('an address of which the provider says nothing is no name, and gives no role', async () => {
  const browser = console.browser();
  claims = { sub: 'subject-2', email: 'boss@example.com', groups: ['readers'] };
  await logIn(browser);
  expect(await (await browser.open('/who')).json()).toMatchObject({
    name: `subject-2 at ${new URL(issuer).host}`,
    role: 'viewer',
  });
});

test('an answer logs in once, also at a provider that takes its code again', async () => {
  const browser = console.browser();
  const away = await browser.open('/login/openid');
  const cookies = new Map(browser.cookies);
  const started = new URL(away.headers.get('location') ?? '');
  claims = { ...claims, nonce: started.searchParams.get('nonce') ?? '' };
  const query = new URLSearchParams({ code: 'code', state: started.searchParams.get('state') ?? '' });
  const open = async () => {
    for (const [name, value] of cookies) browser.cookies.set(name, value);
    return (await browser.open(`/login/openid/callback?${query.toString()}`)).status;
  };
  expect([await open(), await open()]).toEqual([303, 401]);
});

test('answers that log nobody in are slowed down as wrong passwords are', async () => {
  signedBy = 'foreign';
  const statuses: number[] = [];
  for (let number = 0; number < 32; number += 1) statuses.push((await logIn(console.browser())).status);
  expect(statuses.filter((status) => status === 401).length).toBeLessThan(32);
  expect(statuses.at(-1)).toBe(429);
});

test('a session lasts an hour, so that a role that was taken away is used no longer', async () => {
  const browser = console.browser();
  await logIn(browser);
  clock.advance(59 * 60_000);
  expect((await browser.open('/who')).status).toBe(200);
  clock.advance(2 * 60_000);
  expect((await browser.open('/who')).status).toBe(303);
});

const logout = 'http://schemas.openid.net/event/backchannel-logout';
const endAt = async (token: string) =>
  (
    await fetch(`${console.url}/login/openid/logout`, {
      method: 'POST',
      body: new URLSearchParams({ logout_token: token }),
    })
  ).status;

test('the provider ends the sessions of a person, or one of them by its id', async () => {
  const [one, two, three] = [console.browser(), console.browser(), console.browser()];
  claims = { ...claims, sid: 'session-1' };
  await logIn(one);
  claims = { ...claims, sid: 'session-2' };
  await logIn(two);
  claims = { sub: 'subject-3', groups: ['readers'] };
  await logIn(three);
  const statuses = () => Promise.all([one, two, three].map(async (each) => (await each.open('/who')).status));
  expect(await endAt(await signed({ events: { [logout]: {} }, sid: 'session-1' }, clock.nowMs()))).toBe(200);
  expect(await statuses()).toEqual([303, 200, 200]);
  expect(await endAt(await signed({ events: { [logout]: {} }, sub: 'subject-1' }, clock.nowMs()))).toBe(200);
  expect(await statuses()).toEqual([303, 303, 200]);
});

test('a logout token that is not genuine, is old, or is another kind of token ends nothing', async () => {
  const browser = console.browser();
  await logIn(browser);
  const event = { events: { [logout]: {} }, sub: 'subject-1' };
  const tokens = [
    await signed(event, clock.nowMs(), 'foreign'),
    await signed(event, clock.nowMs() - 10 * 60_000),
    await signed({ sub: 'subject-1' }, clock.nowMs()),
    await signed({ ...event, nonce: 'n' }, clock.nowMs()),
    await signed({ events: { [logout]: {} } }, clock.nowMs()),
    'no token',
  ];
  for (const token of tokens) expect(await endAt(token)).toBe(400);
  expect((await browser.open('/who')).status).toBe(200);
});
