/** Login at a real OpenID provider (the package oidc-provider), with the browser's part played over HTTP. */
import { createServer } from 'node:http';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { readActions } from '#platform/audit-log.ts';
import { type TestClock, testClock } from '../../bridge/parts.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { freePort } from '../../harness/free-port.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { type Browser, startConsole, type TestConsole } from './console.ts';
import { openIdClient, startOpenIdProvider } from './openid-provider.ts';

let db: TestDatabase;
let clock: TestClock;
let issuer: string;
let console: TestConsole;
beforeAll(async () => {
  db = await createTestDatabase();
  clock = testClock();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  issuer = await startOpenIdProvider(url);
  console = await startConsole(db, clock, settingsOf(url), port);
});
beforeEach(async () => {
  await db.database.query('delete from bridge.console_tokens');
});

const settingsOf = (console_url: string, openid: Record<string, unknown> = {}) => ({
  console_url,
  console_login: {
    openid: {
      issuer,
      ...openIdClient,
      roles: [
        { claim: 'groups', value: 'bridge-operators', role: 'operator' },
        { claim: 'groups', value: 'bridge-readers', role: 'viewer-without-prices', flows: ['inbox'] },
      ],
      ...openid,
    },
  },
});

/** What a person does at the provider: names the account, and agrees. Returns the URL to which the provider leads back. */
async function passProvider(start: string, person: string): Promise<string> {
  const cookies = new Map<string, string>();
  const ask = async (url: string, form?: Record<string, string>): Promise<Response> => {
    const response = await fetch(url, {
      redirect: 'manual',
      method: form ? 'POST' : 'GET',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form && { body: new URLSearchParams(form) }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
    return response;
  };
  let url = start;
  for (let step = 0; step < 20; step += 1) {
    if (new URL(url).origin !== issuer) return url;
    const response = await ask(url);
    const location = response.headers.get('location');
    if (location !== null) url = new URL(location, url).href;
    else {
      const page = await response.text();
      const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1] ?? '';
      const action = /action="([^"]+)"/.exec(page)?.[1] ?? '';
      const next = await ask(action, { prompt, login: person, password: 'any' });
      url = new URL(next.headers.get('location') ?? '', action).href;
    }
  }
  throw new Error('the provider does not lead back');
}

const pathOf = (url: string) => `${new URL(url).pathname}${new URL(url).search}`;

async function logIn(browser: Browser, person: string, next = '/'): Promise<Response> {
  const away = await browser.open(`/login/openid?next=${encodeURIComponent(next)}`);
  expect(away.status).toBe(303);
  const back = await passProvider(away.headers.get('location') ?? '', person);
  return browser.open(pathOf(back), { 'sec-fetch-site': 'cross-site' });
}

const messageOf = async (response: Response) => /role="alert">([^<]*)/.exec(await response.text())?.[1];

test('a person is led to the provider and back, and has the role of the first group that fits', async () => {
  const browser = console.browser();
  expect(await (await browser.open('/login')).text()).toContain('Single sign-on');
  const response = await logIn(browser, 'anna', '/who?x=1');
  expect([response.status, response.headers.get('location')]).toEqual([303, '/who?x=1']);
  expect(await (await browser.open('/who')).json()).toEqual({
    name: `anna@example.com (anna at ${new URL(issuer).host})`,
    role: 'operator',
    flows: 'all',
  });
  const [last] = await readActions(db.database, 'bridge', { limit: 1 });
  expect(last).toMatchObject({
    who: { kind: 'user', name: `anna@example.com (anna at ${new URL(issuer).host})` },
    what: 'console.login',
    outcome: 'allowed',
    details: { method: 'openid', subject: 'anna', issuer },
  });
});

test('an address that the provider has not verified is no name, and flows are those of the group', async () => {
  const browser = console.browser();
  await logIn(browser, 'bert');
  expect(await (await browser.open('/who')).json()).toEqual({
    name: `bert at ${new URL(issuer).host}`,
    role: 'viewer-without-prices',
    flows: ['inbox'],
  });
});

test('a person whom no role fits is refused, and the audit log names that person', async () => {
  const browser = console.browser();
  const response = await logIn(browser, 'carl');
  expect([response.status, await messageOf(response)]).toEqual([
    403,
    `No role at this console is set for carl@example.com (carl at ${new URL(issuer).host}). Ask its operator for one.`,
  ]);
  expect((await browser.open('/who')).status).toBe(303);
  const [last] = await readActions(db.database, 'bridge', { limit: 1 });
  expect(last).toMatchObject({
    who: { name: `carl@example.com (carl at ${new URL(issuer).host})` },
    outcome: 'refused',
  });
});

test('an answer for another browser, a second time, or too late is refused', async () => {
  const first = console.browser();
  const away = await first.open('/login/openid');
  const back = pathOf(await passProvider(away.headers.get('location') ?? '', 'anna'));
  const stranger = await console.browser().open(back);
  expect([stranger.status, await messageOf(stranger)]).toEqual([
    401,
    'This login was not begun in this browser, or too long ago. Begin it again.',
  ]);
  const cookie = new Map(first.cookies);
  expect((await first.open(back)).status).toBe(303);
  for (const [name, value] of cookie) first.cookies.set(name, value);
  expect((await first.open(back)).status).toBe(401);

  const late = console.browser();
  const begun = await late.open('/login/openid');
  const lateBack = pathOf(await passProvider(begun.headers.get('location') ?? '', 'anna'));
  clock.advance(15 * 60_000);
  expect((await late.open(lateBack)).status).toBe(401);
});

test('an answer with another state, or with the refusal of the provider, logs no one in', async () => {
  const browser = console.browser();
  const away = await browser.open('/login/openid');
  const back = new URL(await passProvider(away.headers.get('location') ?? '', 'anna'));
  back.searchParams.set('state', 'another');
  expect((await browser.open(pathOf(back.href))).status).toBe(401);
  const again = await browser.open('/login/openid');
  const state = new URL(again.headers.get('location') ?? '').searchParams.get('state') ?? '';
  const query = new URLSearchParams({ error: 'access_denied', state, iss: issuer });
  const refused = await browser.open(`/login/openid/callback?${query.toString()}`);
  expect([refused.status, await messageOf(refused)]).toEqual([
    401,
    'The provider has not logged you in (access_denied).',
  ]);
});

test('a provider that is away is said to be, and is asked again with the next login', async () => {
  const port = await freePort();
  const other = await startConsole(db, clock, settingsOf(console.url, { issuer: `http://127.0.0.1:${port}` }));
  const browser = other.browser();
  const response = await browser.open('/login/openid');
  expect([response.status, await messageOf(response)]).toEqual([
    503,
    'The OpenID provider does not answer as it should. Try again in a while.',
  ]);
  const late = createServer((request, answer) => {
    answer.setHeader('content-type', 'application/json');
    const metadata = { issuer: `http://127.0.0.1:${port}`, authorization_endpoint: `http://127.0.0.1:${port}/auth` };
    answer.end(request.url === '/.well-known/openid-configuration' ? JSON.stringify(metadata) : '{}');
  });
  await new Promise<void>((resolve) => late.listen(port, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    late.closeAllConnections();
    late.close();
  });
  expect((await browser.open('/login/openid')).status).toBe(303);
});
