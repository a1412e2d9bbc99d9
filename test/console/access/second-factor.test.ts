/** The second factor, with the real login: who has one needs a code, and each code counts once. */
import { Secret, TOTP } from 'otpauth';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { secondFactorColumn } from '#bridge/sealed-bridge-columns.ts';
import { hasFactor, newFactor, passesFactor, removeFactor, setFactor } from '#console/access/second-factor.ts';
import { addUser } from '#console/access/users.ts';
import { rotateSealedColumns } from '#platform/sealed-columns.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { type TestClock, testClock } from '../../bridge/parts.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { startConsole, type TestConsole } from './console.ts';

/** The secret of RFC 6238, appendix B: "12345678901234567890". */
const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';
const password = 'correct horse battery';
const secrets = createSecretBox(Buffer.alloc(32, 7));
const stepMs = 30_000;
let db: TestDatabase;
let clock: TestClock;
let local: TestConsole;

beforeAll(async () => {
  db = await createTestDatabase();
  clock = testClock();
  local = await startConsole(db, clock);
});
beforeEach(async () => {
  await db.database.query('delete from bridge.console_users');
  await db.database.query('delete from bridge.console_login_failures');
  await addUser(db.database, { name: 'anna', role: 'operator', flows: 'all', password }, clock);
  await addUser(db.database, { name: 'bert', role: 'viewer', flows: 'all', password }, clock);
});

const codeAt = (ms: number) => TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: ms });
const setUp = () =>
  setFactor(db.database, { account: 'anna', secret, code: codeAt(clock.nowMs()) }, { secrets, clock });
const logIn = async (name: string, code?: string) =>
  (await local.browser().logIn(name, password, '/', code)).headers.get('location') ?? 'refused';

test('a code is the one of RFC 6238', async () => {
  // Of its table: at 59 s 94287082, of which an app shows six digits.
  const at = { nowMs: () => 59_000, sleep: async () => undefined };
  await setFactor(db.database, { account: 'anna', secret, code: '287082' }, { secrets, clock: at });
  expect(await hasFactor(db.database, 'anna')).toBe(true);
});

test('who has a factor logs in with the code of now, once, and others as before', async () => {
  await setUp();
  const used = codeAt(clock.nowMs());
  clock.advance(stepMs);
  expect(await logIn('anna')).toBe('refused');
  expect(await logIn('anna', '000000')).toBe('refused');
  expect(await logIn('anna', used), 'it has set the factor up').toBe('refused');
  expect(await logIn('anna', codeAt(clock.nowMs()))).toBe('/');
  expect(await logIn('anna', codeAt(clock.nowMs())), 'it was used').toBe('refused');
  expect(await logIn('bert')).toBe('/');
});

test('two logins at once with one code are one', async () => {
  await setUp();
  clock.advance(stepMs);
  const code = codeAt(clock.nowMs());
  const both = await Promise.all(['x', 'y'].map(() => passesFactor(db.database, 'anna', code, { secrets, clock })));
  expect(both.filter(Boolean)).toEqual([true]);
});

test('a code of the step before or after counts, and none further away', async () => {
  await setUp();
  clock.advance(10 * stepMs);
  const passes = (steps: number) =>
    passesFactor(db.database, 'anna', codeAt(clock.nowMs() + steps * stepMs), { secrets, clock });
  expect(await passes(-2)).toBe(false);
  expect(await passes(2)).toBe(false);
  expect(await passes(-1)).toBe(true);
  expect(await passes(1)).toBe(true);
  expect(await passes(0), 'a later one was used').toBe(false);
});

test('a wrong password does not use a code up, and wrong codes are slowed down as wrong passwords are', async () => {
  await setUp();
  clock.advance(stepMs);
  const code = codeAt(clock.nowMs());
  expect((await local.browser().logIn('anna', 'wrong password', '/', code)).status).toBe(401);
  expect(await logIn('anna', code)).toBe('/');
  const statuses: number[] = [];
  for (let guess = 0; guess < 7; guess += 1)
    statuses.push((await local.browser().logIn('anna', password, '/', '000000')).status);
  expect(statuses.slice(-2)).toEqual([429, 429]);
});

test('setting one up needs a code of it, and ends the sessions; an operator of the machine removes it', async () => {
  const browser = local.browser();
  await browser.logIn('anna', password);
  const wrong = setFactor(db.database, { account: 'anna', secret, code: '000000' }, { secrets, clock });
  await expect(wrong).rejects.toThrow('This code is not the one of the secret.');
  const weak = setFactor(db.database, { account: 'anna', secret: 'AAAA', code: '000000' }, { secrets, clock });
  await expect(weak).rejects.toThrow('This code is not the one of the secret.');
  expect((await browser.call('GET', '/who')).status).toBe(200);
  await setUp();
  expect((await browser.call('GET', '/who')).status).toBe(401);
  await expect(setUp()).rejects.toThrow('The account has a second factor already');
  await removeFactor(db.database, 'anna', clock);
  expect(await logIn('anna')).toBe('/');
});

test('each new secret is another, of 160 bits, and named for the account in an app', () => {
  const [one, two] = [newFactor('anna'), newFactor('anna')];
  expect(one.secret).toMatch(/^[A-Z2-7]{32}$/);
  expect(one.secret).not.toBe(two.secret);
  expect(one.uri).toMatch(/^otpauth:\/\/totp\/sourcing-bridge:anna\?/);
});

test('the secret is sealed in the database, and still opens after the master key was replaced', async () => {
  await setUp();
  const [row] = await db.database.query<{ secret: Buffer }>('select secret from bridge.second_factors');
  expect(row?.secret.toString('latin1')).not.toContain(secret);
  const renewed = createSecretBox(Buffer.alloc(32, 9), [Buffer.alloc(32, 7)]);
  expect(await rotateSealedColumns(db.database, renewed, [secondFactorColumn])).toBe(1);
  clock.advance(stepMs);
  const alone = { secrets: createSecretBox(Buffer.alloc(32, 9)), clock };
  expect(await passesFactor(db.database, 'anna', codeAt(clock.nowMs()), alone)).toBe(true);
});
