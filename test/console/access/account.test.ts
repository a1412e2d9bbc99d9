/** What is a person's own, with the real access check and API: the password and the sessions, for every role. */
import { Secret, TOTP } from 'otpauth';
import { beforeAll, expect, test } from 'vitest';
import { isPassword } from '#console/access/passwords.ts';
import { consoleHeader } from '#console/access/refuse-forgery.ts';
import type { NewFactor } from '#console/access/second-factor.ts';
import { beginSession } from '#console/access/sessions.ts';
import { addUser, findUser } from '#console/access/users.ts';
import type { ViewerRole } from '#console/access/viewer.ts';
import type { AccountAnswer } from '#console/api/account.ts';
import { readActions } from '#platform/audit-log.ts';
import { systemClock } from '#platform/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { startWholeConsole } from './whole-console.ts';

const limits = { idleMs: 3_600_000, lifeMs: 3_600_000 };
const firstPassword = 'correct horse battery';
let db: TestDatabase;
let url: string;

beforeAll(async () => {
  db = await createTestDatabase();
  url = await startWholeConsole(db.database);
});

/** A new account with so many sessions; returns how each of them asks. */
async function account(name: string, sessions: number) {
  await addUser(db.database, { name, role: 'viewer', flows: 'all', password: firstPassword }, systemClock);
  return sessionsOf(name, sessions, { name, version: 1 });
}

async function sessionsOf(
  name: string,
  count: number,
  of?: { name: string; version: number },
  role: ViewerRole = 'viewer',
) {
  const viewer = { name, role, flows: 'all' } as const;
  const asking: ((
    path: string,
    body?: object,
  ) => Promise<{ status: number; body: AccountAnswer & NewFactor & { detail: string } }>)[] = [];
  for (let number = 0; number < count; number += 1) {
    const by = of ? ({ method: 'password', account: of } as const) : ({ method: 'link' } as const);
    const token = await beginSession(db.database, viewer, by, { clock: systemClock, limits });
    const cookie = `bridge-session-${new URL(url).port}=${token}`;
    asking.push(async (path, body) => {
      const sent = body && { method: 'POST', body: JSON.stringify(body) };
      const headers = { cookie, [consoleHeader]: '1', 'content-type': 'application/json' };
      const response = await fetch(`${url}/api/account${path}`, { ...sent, headers });
      return {
        status: response.status,
        body: (await response.json()) as AccountAnswer & NewFactor & { detail: string },
      };
    });
  }
  return asking;
}

test('a viewer changes the own password with the current one, and every session of the account ends', async () => {
  const [one, two] = await account('anna', 2);
  const next = 'another horse battery';
  const wrong = await one?.('/password', { current: 'wrong horse battery', next });
  expect([wrong?.status, wrong?.body.detail]).toEqual([400, 'The current password is wrong.']);
  expect((await one?.('/password', { current: firstPassword, next }))?.status).toBe(200);
  const user = await findUser(db.database, 'anna');
  expect(await isPassword(next, user?.passwordHash, '')).toBe(true);
  expect([(await one?.(''))?.status, (await two?.(''))?.status]).toEqual([401, 401]);
  const [logged] = await readActions(db.database, 'bridge', { what: 'console.user', limit: 1 });
  expect(logged).toMatchObject({ who: { name: 'anna' }, what: 'console.user.set-password', object: 'user anna' });
  expect(JSON.stringify(logged)).not.toContain('horse');
});

test('wrong current passwords are slowed down as logins are', async () => {
  const [one] = await account('emma', 1);
  const statuses: (number | undefined)[] = [];
  for (let number = 0; number < 7; number += 1)
    statuses.push((await one?.('/password', { current: 'wrong horse battery', next: firstPassword }))?.status);
  expect(statuses).toContain(429);
});

test('a person sees the own sessions, and ends one of them or all others', async () => {
  const [one, two, three] = await account('bert', 3);
  await sessionsOf('bert', 1);
  const listed = (await one?.(''))?.body;
  expect(listed?.hasPassword).toBe(true);
  expect(listed?.sessions.map(({ isThis }) => isThis).filter(Boolean)).toHaveLength(1);
  expect(listed?.sessions).toHaveLength(3);
  const second = (await two?.(''))?.body.sessions.find(({ isThis }) => isThis)?.id ?? '';
  expect((await one?.('/end-sessions', { id: second }))?.status).toBe(200);
  expect([(await two?.(''))?.status, (await three?.(''))?.status]).toEqual([401, 200]);
  expect((await one?.('/end-sessions', {}))?.status).toBe(200);
  expect([(await one?.(''))?.status, (await three?.(''))?.status]).toEqual([200, 401]);
});

test('the role without prices sees its sessions as the others do', async () => {
  const [one] = await sessionsOf('gwen', 1, undefined, 'viewer-without-prices');
  expect((await one?.(''))?.body).toMatchObject({ hasPassword: false, sessions: [{ method: 'link', isThis: true }] });
});

test('nobody ends the sessions of another, nor has a link a password', async () => {
  const [carl] = await account('carl', 1);
  const [dora] = await account('dora', 1);
  const own = (await carl?.(''))?.body.sessions[0]?.id ?? '';
  expect((await dora?.('/end-sessions', { id: own }))?.status).toBe(200);
  expect((await carl?.(''))?.status).toBe(200);
  // The same name, by a link of the machine.
  const [linked] = await sessionsOf('carl', 1);
  await linked?.('/end-sessions', {});
  expect((await carl?.(''))?.status).toBe(200);
  expect((await linked?.('/password', { current: firstPassword, next: 'another horse battery' }))?.status).toBe(400);
});

test.each(['viewer', 'viewer-without-prices', 'operator'] as const)(
  'a %s sets a second factor up with the password and a code, and removes it with both; the audit log has no secret',
  async (role) => {
    const name = `fay-${role}`;
    await addUser(db.database, { name, role, flows: 'all', password: firstPassword }, systemClock);
    const [one] = await sessionsOf(name, 1, { name, version: 1 }, role);
    const made = (await one?.('/new-factor', {}))?.body;
    const code = () => TOTP.generate({ secret: Secret.fromBase32(made?.secret ?? ''), timestamp: Date.now() });
    const given = { secret: made?.secret, code: code() };
    expect((await one?.('/set-factor', { ...given, current: 'wrong horse battery' }))?.status).toBe(400);
    expect((await one?.('/set-factor', { ...given, code: 'abcdef', current: firstPassword }))?.status).toBe(400);
    expect((await one?.('/set-factor', { ...given, current: firstPassword }))?.status).toBe(200);
    expect((await one?.(''))?.status, 'all sessions have ended').toBe(401);
    const [two] = await sessionsOf(name, 1, { name, version: 2 }, role);
    expect((await two?.(''))?.body.hasFactor).toBe(true);
    expect((await two?.('/remove-factor', { current: firstPassword, code: given.code }))?.status, 'used').toBe(400);
    await db.database.query('update bridge.second_factors set used_step = used_step - 1 where id = $1', [name]);
    expect((await two?.('/remove-factor', { current: firstPassword, code: given.code }))?.status).toBe(200);
    const logged = await readActions(db.database, 'bridge', { what: 'console.user', limit: 10 });
    const own = logged.filter(({ who }) => who.name === name).map(({ what, outcome }) => `${what} ${outcome}`);
    expect(own.filter((line) => line.endsWith('allowed')).slice(0, 1)).toEqual(['console.user.remove-factor allowed']);
    expect(JSON.stringify(logged)).not.toContain(made?.secret);
  },
);
