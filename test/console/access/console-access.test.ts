import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createLoginLink } from '#console/access/login-links.ts';
import { beginSession } from '#console/access/sessions.ts';
import { addUser, removeUser, setPassword, setRole } from '#console/access/users.ts';
import { readActions } from '#platform/audit-log.ts';
import { type TestClock, testClock } from '../../bridge/parts.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { type Browser, startConsole, type TestConsole } from './console.ts';

const password = 'correct horse battery';
const minuteMs = 60_000;

let db: TestDatabase;
let clock: TestClock;
let local: TestConsole;
beforeAll(async () => {
  db = await createTestDatabase();
  clock = testClock();
  local = await startConsole(db, clock);
});
beforeEach(async () => {
  await db.database.query(
    `alter table bridge.actions disable trigger all; delete from bridge.actions; alter table bridge.actions enable trigger all`,
  );
  await db.database.query('delete from bridge.console_users');
  await db.database.query('delete from bridge.console_login_failures');
  await addUser(db.database, { name: 'anna', role: 'operator', flows: 'all', password }, clock);
});

const linkFor = (role: 'viewer' | 'operator' = 'operator', flows: 'all' | string[] = 'all') =>
  createLoginLink(db.database, { name: 'me', role, flows }, clock);
const sees = async (browser: Browser) => (await browser.call('GET', '/who')).status === 200;
const logged = async () =>
  (await readActions(db.database, 'bridge', { limit: 100 })).map(
    ({ who, what, outcome, from, details }) => [who.name, what, outcome, from, details['method'] ?? null] as const,
  );
const titleOf = async (response: Response) => /<h1>([^<]*)/.exec(await response.text())?.[1];

describe('without a session', () => {
  test('security.txt names the contact that the operator has set, and its end lies in the future', async () => {
    const contact = 'mailto:security@example.com';
    const console = await startConsole(db, clock, { console_security_contact: contact });
    const response = await console.browser().open('/.well-known/security.txt');
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8']);
    const [, named, expires] = /^Contact: (.+)\nExpires: (.+)\n$/.exec(await response.text()) ?? [];
    expect(named).toBe(contact);
    const days = (Date.parse(expires ?? '') - clock.nowMs()) / 86_400_000;
    expect(days).toBeGreaterThan(30);
    expect(days).toBeLessThan(365);
    expect((await local.browser().open('/.well-known/security.txt')).status).toBe(303);
  });

  test('a person is led to the login and back, and a script is refused', async () => {
    const browser = local.browser();
    const page = await browser.open('/who?a=1');
    expect([page.status, page.headers.get('location')]).toEqual([303, `/login?next=${encodeURIComponent('/who?a=1')}`]);
    expect((await browser.call('GET', '/who')).status).toBe(401);
    expect((await browser.call('POST', '/change')).status).toBe(401);
    const back = await browser.logIn('anna', password, '/who?a=1');
    expect([back.status, back.headers.get('location')]).toEqual([303, '/who?a=1']);
    expect(await (await browser.open('/who')).json()).toEqual({ name: 'anna', role: 'operator', flows: 'all' });
  });

  test.each([
    '//evil.example/',
    'https://evil.example/',
    '/\\evil.example',
    '/.//evil.example',
    'javascript:alert(1)',
    '/logout',
  ])('the login leads to no other place than this console: %s', async (next) => {
    const back = await local.browser().logIn('anna', password, next);
    expect([back.status, back.headers.get('location')]).toEqual([303, '/']);
  });

  test('the login page needs no script and no style of its own, and nothing from elsewhere', async () => {
    const response = await local.browser().open('/login');
    expect(response.headers.get('content-security-policy')).toBe(
      "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    );
    const page = await response.text();
    expect(page).not.toMatch(/<script|<style|style=|https?:/);
    expect((await local.browser().open('/login/style.css')).headers.get('content-type')).toMatch(/^text\/css/);
  });

  test('a name full of markup is shown as text', async () => {
    const page = await (await local.browser().logIn('"><script>alert(1)</script>', 'wrong password')).text();
    expect(page).not.toContain('<script');
    expect(page).toContain('value="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"');
  });
});

describe('a link of the command line', () => {
  test('logs in once', async () => {
    const path = await linkFor('viewer', ['inbox']);
    const browser = local.browser();
    const used = await browser.open(path);
    expect([used.status, used.headers.get('location')]).toEqual([303, '/']);
    expect(await (await browser.open('/who')).json()).toEqual({ name: 'me (link)', role: 'viewer', flows: ['inbox'] });
    expect((await browser.call('POST', '/change')).status).toBe(403);
    const operator = local.browser({ address: '192.0.2.7' });
    await operator.open(await linkFor());
    expect(await (await operator.call('POST', '/change')).json()).toMatchObject({ name: 'me (link)' });
    const again = await local.browser().open(path);
    expect([again.status, await titleOf(again)]).toEqual([403, 'This link does not log in']);
    expect(await logged()).toEqual([
      ['unknown', 'console.login', 'refused', '127.0.0.1', 'link'],
      ['me (link)', 'console.login', 'allowed', '192.0.2.7', 'link'],
      ['me (link)', 'console.request', 'refused', '127.0.0.1', null],
      ['me (link)', 'console.login', 'allowed', '127.0.0.1', 'link'],
    ]);
  });

  test('logs in one of many who use it at the same instant', async () => {
    const path = await linkFor();
    const statuses = await Promise.all(
      Array.from({ length: 5 }, async () => (await local.browser().open(path)).status),
    );
    expect(statuses.toSorted((a, b) => a - b)).toEqual([303, 403, 403, 403, 403]);
  });

  test('is no session, and a session is no link: the token of one does not serve as the other', async () => {
    const path = await linkFor();
    const browser = local.browser();
    browser.cookies.set(`bridge-session-${local.port}`, path.split('/').at(-1) ?? '');
    expect(await sees(browser)).toBe(false);
    await browser.open(path);
    const session = browser.cookies.get(`bridge-session-${local.port}`) ?? '';
    expect((await local.browser().open(`/login/link/${session}`)).status).toBe(403);
    expect(await sees(browser)).toBe(true);
  });

  test('is not used up by a program that only looks ahead', async () => {
    const path = await linkFor();
    expect((await local.browser().open(path, { 'sec-purpose': 'prefetch' })).status).toBe(503);
    expect((await local.browser().call('HEAD', path)).status).toBe(503);
    expect((await local.browser().open(path)).status).toBe(303);
  });

  test('expires after an hour', async () => {
    const path = await linkFor();
    clock.advance(60 * minuteMs);
    expect((await local.browser().open(path)).status).toBe(403);
  });

  test('does not log in where the console listens for other machines, too', async () => {
    const open = await startConsole(db, clock, { console_host: '0.0.0.0' });
    expect((await open.browser().open(await linkFor())).status).toBe(403);
    expect(await (await open.browser().open('/login')).text()).not.toContain('console link');
  });
});

describe('a session', () => {
  async function session(console = local): Promise<Browser> {
    const browser = console.browser();
    await browser.logIn('anna', password);
    return browser;
  }

  test('is in the database as a hash only, and in a cookie that no script reads', async () => {
    const browser = local.browser();
    const response = await browser.logIn('anna', password);
    const [cookie = ''] = response.headers.getSetCookie().filter((line) => line.includes('-session-'));
    expect(cookie).toMatch(/; Path=\/; .*HttpOnly; SameSite=Lax$/);
    const token = browser.cookies.get(`bridge-session-${local.port}`) ?? '';
    expect(token).toHaveLength(43);
    const rows = await db.database.query<{ row: string }>('select s::text as row from bridge.console_tokens s');
    expect(rows.some(({ row }) => row.includes(token) || row.includes(Buffer.from(token).toString('hex')))).toBe(false);
  });

  test('over TLS has a cookie that only this host can set', async () => {
    const response = await local.browser().open(await linkFor(), { 'x-forwarded-proto': 'https' });
    expect(response.headers.getSetCookie()[0]).toMatch(
      /^__Host-bridge-session-\d+=.*; Path=\/; .*HttpOnly; Secure; SameSite=Lax$/,
    );
    expect(response.headers.getSetCookie()[0]).not.toContain('Domain');
  });

  test('ends by logout, and its cookie is of no more use', async () => {
    const browser = await session();
    const cookie = new Map(browser.cookies);
    const out = await browser.call('POST', '/logout');
    expect([out.status, out.headers.get('location')]).toEqual([303, '/login']);
    for (const [name, value] of cookie) browser.cookies.set(name, value);
    expect(await sees(browser)).toBe(false);
    expect((await logged())[0]).toEqual(['anna', 'console.logout', 'allowed', '127.0.0.1', null]);
  });

  test('ends when it is not used, and lasts while it is, but not for ever', async () => {
    const short = await startConsole(db, clock, { console_login: { idle_minutes: 1 } });
    const shortly = await session(short);
    for (let seconds = 0; seconds < 200; seconds += 50) {
      clock.advance(50_000);
      expect(await sees(shortly)).toBe(true);
    }
    const console = await startConsole(db, clock, { console_login: { idle_minutes: 10, hours: 1 } });
    const idle = await session(console);
    const busy = await session(console);
    for (let minutes = 0; minutes < 54; minutes += 9) {
      clock.advance(9 * minuteMs);
      expect(await sees(busy)).toBe(true);
    }
    expect(await sees(idle)).toBe(false);
    clock.advance(6 * minuteMs);
    expect(await sees(busy)).toBe(false);
  });

  test.each<[string, () => Promise<void>]>([
    ['is removed', () => removeUser(db.database, 'anna')],
    ['gets another role', () => setRole(db.database, 'anna', { role: 'viewer', flows: 'all' }, clock)],
    ['gets another password', () => setPassword(db.database, 'anna', 'another horse battery', clock)],
  ])('ends when its account %s', async (_what, change) => {
    const browser = await session();
    await change();
    expect(await sees(browser)).toBe(false);
  });

  test('does not begin for an account that was changed or removed since its password was checked', async () => {
    const viewer = { name: 'anna', role: 'operator', flows: 'all' } as const;
    const begin = (version: number) =>
      beginSession(
        db.database,
        viewer,
        { method: 'password', account: { name: 'anna', version } },
        { clock, limits: { idleMs: minuteMs, lifeMs: minuteMs } },
      );
    await setRole(db.database, 'anna', { role: 'viewer', flows: 'all' }, clock);
    expect(await begin(1)).toBeUndefined();
    expect(await begin(2)).toBeDefined();
    await removeUser(db.database, 'anna');
    expect(await begin(2)).toBeUndefined();
  });

  test('begins anew with each login: one that was there before has ended', async () => {
    const browser = await session();
    const before = browser.cookies.get(`bridge-session-${local.port}`) ?? '';
    await browser.open(await linkFor('viewer'));
    browser.cookies.set(`bridge-session-${local.port}`, before);
    expect(await sees(browser)).toBe(false);
  });
});

describe('a password that is wrong', () => {
  test('is answered like a name that does not exist, and both are in the audit log', async () => {
    const browser = local.browser({ address: '192.0.2.7' });
    const answers = [await browser.logIn('anna', 'wrong password'), await browser.logIn('nina', 'wrong password')];
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(answers.map(({ status }) => status)).toEqual([401, 401]);
    const bare = texts.map((text) => text.replaceAll(/value="[^"]*"/g, ''));
    expect(bare[0]).toBe(bare[1]);
    expect(await logged()).toEqual([
      ['nina', 'console.login', 'refused', '192.0.2.7', 'password'],
      ['anna', 'console.login', 'refused', '192.0.2.7', 'password'],
    ]);
  });

  test.each(['anna', 'nina'])('slows the guessing for %s down, from whatever address', async (name) => {
    for (let guess = 1; guess <= 5; guess += 1)
      expect((await local.browser({ address: `192.0.2.${guess}` }).logIn(name, 'wrong password')).status).toBe(401);
    const wait = await local.browser({ address: '192.0.2.99' }).logIn(name, password);
    expect([wait.status, wait.headers.get('retry-after')]).toEqual([429, '1']);
    clock.advance(1_000);
    expect((await local.browser({ address: '192.0.2.98' }).logIn(name, 'wrong password')).status).toBe(401);
    expect(
      (await local.browser({ address: '192.0.2.97' }).logIn(name, 'wrong password')).headers.get('retry-after'),
    ).toBe('2');
  });

  test('of an attacker locks the right person out neither of a session nor of a known browser', async () => {
    const own = local.browser({ address: '192.0.2.1' });
    await own.logIn('anna', password);
    const session = own.cookies.get(`bridge-session-${local.port}`) ?? '';
    // From the same address, as behind one router.
    for (let guess = 1; guess <= 6; guess += 1)
      await local.browser({ address: '192.0.2.1' }).logIn('anna', 'wrong password');
    expect((await local.browser({ address: '192.0.2.2' }).logIn('anna', password)).status).toBe(429);
    expect(await sees(own)).toBe(true);
    own.cookies.delete(`bridge-session-${local.port}`);
    expect((await own.logIn('anna', password)).status).toBe(303);
    expect(own.cookies.get(`bridge-session-${local.port}`)).not.toBe(session);
  });

  test('in a known browser is slowed down, too; and a cookie of one account helps no other', async () => {
    await addUser(db.database, { name: 'bert', role: 'viewer', flows: 'all', password }, clock);
    const own = local.browser();
    await own.logIn('anna', password);
    own.cookies.delete(`bridge-session-${local.port}`);
    for (let guess = 1; guess <= 5; guess += 1) await own.logIn('anna', 'wrong password');
    expect((await own.logIn('anna', password)).status).toBe(429);
    for (let guess = 1; guess <= 5; guess += 1) await local.browser().logIn('bert', 'wrong password');
    expect((await own.logIn('bert', password)).status).toBe(429);
  });

  test('tried many times at once is counted as often', async () => {
    const statuses = await Promise.all(
      Array.from(
        { length: 12 },
        async (_, index) =>
          (await local.browser({ address: `198.51.100.${index}` }).logIn('anna', 'wrong password')).status,
      ),
    );
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(7);
  });

  test('of names without an account makes a bounded number of rows', async () => {
    await db.database.query(
      `insert into bridge.console_login_failures select 'account #' || n, 1, '2030-01-01Z', '2029-01-01Z' from generate_series(0, 4095) n`,
    );
    for (const name of ['a', 'b', 'c', 'd'])
      await local.browser({ address: '203.0.113.1' }).logIn(name, 'wrong password');
    const [rows] = await db.database.query<{ count: number }>(
      "select count(*)::int as count from bridge.console_login_failures where bucket like 'account%'",
    );
    expect(rows?.count).toBe(4_096);
  });
});

test('a flood of refusals is bounded in the audit log, and the next entry says how many are missing', async () => {
  clock.advance(minuteMs);
  const viewer = local.browser();
  await viewer.open(await linkFor('viewer'));
  for (let tries = 1; tries <= 65; tries += 1) await viewer.call('POST', '/change');
  const refused = async () => readActions(db.database, 'bridge', { outcome: 'refused', limit: 100 });
  expect(await refused()).toHaveLength(60);
  clock.advance(minuteMs);
  await viewer.call('POST', '/change');
  const [last] = await refused();
  expect(last).toMatchObject({
    what: 'console.request',
    object: 'POST /change',
    details: { unwritten: 5 },
  });
});

describe('a request of another site', () => {
  let browser: Browser;
  beforeEach(async () => {
    browser = local.browser();
    await browser.open(await linkFor());
  });

  test.each([
    ['with its own token, from another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['from another port of this machine', { 'sec-fetch-site': 'same-site' }, 403],
    ['of an old browser, from another origin', { 'sec-fetch-site': '', origin: 'http://evil.example' }, 403],
    ['of the console itself', {}, 200],
  ])(
    'that changes something is refused, and one of the console is not: %s',
    async (_what, headers: Record<string, string>, status) => {
      expect((await browser.call('POST', '/change', headers)).status).toBe(status);
    },
  );

  test('without the header of the console changes nothing, as a form sends it', async () => {
    expect((await browser.submit('/change', {})).status).toBe(403);
    expect((await browser.submit('/logout', {})).status).toBe(403);
    expect(await sees(browser)).toBe(true);
  });

  test('cannot log a browser in as another person', async () => {
    const own = await (await local.browser().open('/login')).text();
    const form_token = /name="form_token" value="([^"]*)"/.exec(own)?.[1] ?? '';
    const victim = local.browser();
    await victim.open('/login');
    expect((await victim.submit('/login', { name: 'anna', password, form_token, next: '/' })).status).toBe(403);
  });

  test('may not lead to a call, which the audit log would have under the name of the person', async () => {
    expect((await browser.open('/api/awards', { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await browser.open('/api/awards')).status).toBe(404);
  });

  test('may lead to the console as a link, and may read nothing', async () => {
    expect((await browser.open('/who', { 'sec-fetch-site': 'cross-site' })).status).toBe(200);
    expect((await browser.call('GET', '/who', { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await browser.open('/who', { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'iframe' })).status).toBe(
      403,
    );
  });
});

describe('a console that other machines reach', () => {
  test('does not start while no one could log in, and says what to do', async () => {
    await db.database.query('delete from bridge.console_users');
    await expect(startConsole(db, clock, { console_host: '0.0.0.0' })).rejects.toThrow(
      expect.objectContaining({
        code: 'invalid',
        message: expect.stringMatching(/console users add.*console_pages: false/s),
      }),
    );
  });

  test('starts with an account, with an OpenID provider, or without its pages', async () => {
    const openid = {
      issuer: 'https://id.example',
      client_id: 'c',
      roles: [{ claim: 'g', value: 'v', role: 'viewer' }],
    };
    await startConsole(db, clock, { console_host: '0.0.0.0' });
    await db.database.query('delete from bridge.console_users');
    await startConsole(db, clock, {
      console_host: '0.0.0.0',
      console_url: 'https://console.example',
      console_login: { openid },
    });
    const none = await startConsole(db, clock, { console_host: '0.0.0.0', console_pages: false });
    expect((await none.browser().open('/')).status).toBe(404);
    expect((await none.browser().open('/login')).status).toBe(404);
    expect((await none.browser().open('/healthz')).status).toBe(200);
  });
});

test('over HTTPS browsers are told to come by HTTPS alone, but for the name localhost, which other programs have', async () => {
  const over = async (scheme: string, host: string) =>
    (await local.browser().open('/login', { 'x-forwarded-proto': scheme, host })).headers.get(
      'strict-transport-security',
    );
  expect(await over('https', 'console.example')).toBe('max-age=31536000');
  expect(await over('http', 'console.example')).toBeNull();
  expect(await over('https', 'localhost')).toBeNull();
});

describe('metrics and status.json', () => {
  const console_token = 'a-token-of-more-than-32-characters';
  const get = (console: TestConsole, path: string, headers: Record<string, string> = {}) =>
    fetch(`${console.url}${path}`, { headers }).then(({ status }) => status);

  test('answer without a token to this machine, by its own name, and not through a proxy', async () => {
    for (const path of ['/metrics', '/status.json']) {
      expect(await get(local, path)).toBe(200);
      expect(await get(local, path, { 'x-forwarded-for': '192.0.2.1' })).toBe(401);
    }
    const rebound = (await local.browser().open('/metrics', { host: 'console.example' })).status;
    expect(rebound).toBe(401);
  });

  test('of this machine without a token has the role that sees no words of an ERP', async () => {
    const withToken = await startConsole(db, clock, { console_token });
    const seenBy = async (console: TestConsole, headers: Record<string, string> = {}) =>
      (await (await fetch(`${console.url}/status.json`, { headers })).json()) as { role: string };
    expect((await seenBy(local)).role).toBe('viewer-without-prices');
    expect((await seenBy(withToken, { authorization: `Bearer ${console_token}` })).role).toBe('viewer');
  });

  test('need the token where one is set, and where other machines reach the console', async () => {
    const withToken = await startConsole(db, clock, { console_token });
    const open = await startConsole(db, clock, { console_host: '0.0.0.0' });
    for (const path of ['/metrics', '/status.json']) {
      expect(await get(withToken, path)).toBe(401);
      expect(await get(withToken, path, { authorization: 'Bearer wrong' })).toBe(401);
      expect(await get(withToken, path, { authorization: `Bearer ${console_token}` })).toBe(200);
      expect(await get(open, path)).toBe(401);
    }
    expect(await get(withToken, '/who', { authorization: `Bearer ${console_token}` })).toBe(401);
    for (const path of ['/healthz', '/readyz']) expect(await get(withToken, path)).toBe(200);
  });

  test('of a session need no token', async () => {
    const withToken = await startConsole(db, clock, { console_token });
    const browser = withToken.browser();
    await browser.open(await linkFor());
    expect((await browser.open('/status.json')).status).toBe(200);
  });
});
