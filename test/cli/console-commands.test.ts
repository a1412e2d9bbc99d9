/** `console users`, `console link` and `audit-log`, on one database. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { findConsole } from '#cli/doctor/console-findings.ts';
import { hashPassword, isPassword } from '#console/access/passwords.ts';
import { findUser } from '#console/access/users.ts';
import { machineUser } from '#platform/audit-log.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

let db: TestDatabase;
let folder: string;
let config: string;
beforeAll(async () => {
  db = await createTestDatabase();
  folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  const bridge = {
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'k' }],
    flows: [{ name: 'erp', source: 'main', connector: 'file', settings: { directory: 'erp' } }],
  };
  await writeFile(config, JSON.stringify({ bridge }));
  await db.database.query(
    "insert into bridge.checkpoints (source, feed, next_pull) values ('main', 'awards', '2026-01-01Z')",
  );
  await db.database.query("insert into bridge.flows (name, source, kinds) values ('erp', 'main', '{award}')");
});

function command(args: readonly string[], env: Record<string, string> = {}) {
  return runHere([...args, '--config', config, '--data', folder], { DATABASE_URL: db.url, ...env });
}

async function json(...args: readonly string[]) {
  const { code, stdout, stderr } = await command([...args, '--json']);
  expect(stderr).toBe('');
  return { code, value: JSON.parse(stdout) };
}

const actions = async (...args: readonly string[]) =>
  (await json('audit-log', '--program', 'bridge', ...args)).value.actions as {
    what: string;
    object: string;
    outcome: string;
  }[];

describe('console users', () => {
  test('removes the second factor of an account whose owner has lost it', async () => {
    await json('console', 'users', 'add', 'fay', '--generate');
    await db.database.query(`insert into bridge.second_factors (id, secret, used_step) values ('fay', '\\x00', 1)`);
    expect(await json('console', 'users', 'remove-factor', 'fay')).toMatchObject({ code: 0, value: { name: 'fay' } });
    expect(await db.database.query('select from bridge.second_factors')).toEqual([]);
    const again = await command(['console', 'users', 'remove-factor', 'fay']);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('The account "fay" has no second factor.')]);
    const logged = await actions('--what', 'console.user.remove-factor');
    expect(logged.map(({ object, outcome }) => [object, outcome])).toEqual([
      ['user fay', 'failed'],
      ['user fay', 'allowed'],
      ['user fay', 'allowed'],
    ]);
    await json('console', 'users', 'remove', 'fay', '--yes');
    await db.database.query(
      'alter table bridge.actions disable trigger all; delete from bridge.actions; alter table bridge.actions enable trigger all',
    );
  });

  test('adds, lists, changes and removes accounts, and the audit log says by whom', async () => {
    const added = await json('console', 'users', 'add', 'Anna@Example.com', '--generate', '--flows', 'erp');
    expect(added).toMatchObject({ code: 0, value: { name: 'anna@example.com', role: 'viewer', flows: ['erp'] } });
    const stored = await findUser(db.database, 'anna@example.com');
    expect(await isPassword(added.value.password, stored?.passwordHash, 'here')).toBe(true);
    expect((await json('console', 'users', 'set-role', 'anna@example.com', '--role', 'operator')).code).toBe(0);
    expect((await json('console', 'users', 'list')).value.users).toMatchObject([
      { name: 'anna@example.com', role: 'operator', flows: 'all', lastLogin: null, sessions: 0 },
    ]);
    expect((await json('console', 'users', 'remove', 'anna@example.com', '--yes')).code).toBe(0);
    expect((await json('console', 'users', 'list')).value.users).toEqual([]);
    const logged = await actions('--what', 'console.user');
    expect(logged.map(({ what }) => what)).toEqual([
      'console.user.remove',
      'console.user.set-role',
      'console.user.add',
    ]);
    expect(logged[0]).toMatchObject({
      who: { kind: 'cli', name: machineUser() },
      object: 'user anna@example.com',
      outcome: 'allowed',
    });
    expect(JSON.stringify(logged)).not.toContain(added.value.password);
  });

  test.each<[string[], RegExp]>([
    [['add', 'anna', '--generate', '--flows', 'nowhere'], /no flow "nowhere"/],
    [['add', 'anna smith', '--generate'], /A name has letters/],
    [['set-role', 'no-one', '--role', 'viewer'], /There is no account "no-one"/],
    [['remove', 'no-one', '--yes'], /There is no account "no-one"/],
    [['remove', 'no-one'], /add --yes/],
    [['add', 'anna', '--role', 'boss', '--generate'], /Allowed choices are viewer, viewer-without-prices, operator/],
  ])('%j says what is wrong', async (args, message) => {
    const { code, stderr } = await command(['console', 'users', ...args]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(message);
  });

  test('takes a password from standard input', async () => {
    const root = join(import.meta.dirname, '..', '..');
    const child = spawn(
      join(root, 'node_modules/.bin/node'),
      ['src/cli/main.ts', 'console', 'users', 'add', 'bert', '--config', config, '--data', folder],
      { cwd: root, env: { PATH: process.env['PATH'], DATABASE_URL: db.url }, stdio: ['pipe', 'ignore', 'inherit'] },
    );
    child.stdin.end('correct horse battery\nanother line');
    expect(await once(child, 'close')).toEqual([0, null]);
    const bert = await findUser(db.database, 'bert');
    expect(await isPassword('correct horse battery', bert?.passwordHash, 'here')).toBe(true);
  });

  test('refuses a short password, and a second account of the same name', async () => {
    await expect(hashPassword('too short', 'bert')).rejects.toThrow(
      'A password must have 12 to 512 characters; this one has 9.',
    );
    await command(['console', 'users', 'add', 'dora', '--generate']);
    const again = await command(['console', 'users', 'add', 'Dora', '--generate']);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('There is an account "dora" already')]);
    expect((await actions('--object', 'user dora')).map(({ outcome }) => outcome)).toEqual([
      'failed',
      'allowed',
      'allowed',
    ]);
  });
});

describe('console link', () => {
  test('prints the URL of the console with a path that logs in', async () => {
    const { code, stdout } = await command(['console', 'link']);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^http:\/\/127\.0\.0\.1:8081\/login\/link\/[\w-]{43}\nIt logs in once, within 60 minutes\.\n$/,
    );
    const [link] = await db.database.query('select name, role, flows from bridge.console_tokens');
    expect(link).toEqual({ name: machineUser(), role: 'operator', flows: null });
  });

  test('is refused where the console listens for other machines, too', async () => {
    await writeFile(join(folder, 'open.yaml'), JSON.stringify({ bridge: { console_host: '0.0.0.0' } }));
    const { code, stderr } = await runHere(
      ['console', 'link', '--config', join(folder, 'open.yaml'), '--data', folder],
      {
        DATABASE_URL: db.url,
      },
    );
    expect([code, stderr]).toEqual([2, expect.stringContaining('Add an account: npm run -s cli -- console users add')]);
  });
});

describe('audit-log', () => {
  test('shows what commands have changed', async () => {
    await command(['bridge', 'pause', 'erp', '--reason', 'month end']);
    await command(['bridge', 'resume', 'erp', '--agree']);
    await command(['bridge', 'replay', '--flow', 'erp', '--dead', '--yes']);
    await command(['bridge', 'backfill', 'start', 'main/awards', '--from', '2026-01-01', '--to', '2026-01-02']);
    await command(['bridge', 'audit', 'main/awards']);
    await command(['bridge', 'checkpoint', 'set', 'main/awards', '--yes']);
    await command(['bridge', 'webhooks', 'delete', '--source', 'main']);
    const logged = (await actions('--limit', '8')).map(({ what, object, outcome }) => [what, object, outcome]);
    expect(logged).toEqual([
      // The source does not answer.
      ['webhook.delete', 'source main', 'failed'],
      ['webhook.delete', 'source main', 'allowed'],
      ['checkpoint.set', 'feed main/awards', 'allowed'],
      ['audit.request', 'feed main/awards', 'allowed'],
      ['backfill.start', 'feed main/awards', 'allowed'],
      ['documents.replay', 'flow erp', 'allowed'],
      ['flow.resume', 'flow erp', 'allowed'],
      ['flow.pause', 'flow erp', 'allowed'],
    ]);
    const page = await command(['audit-log', '--what', 'flow', '--limit', '1']);
    expect(page.stdout).toMatch(
      /^when .*\n\S+Z .* flow\.resume {2}flow erp {2}allowed {2}\{"agreeToWithdrawals":true\}\nThere is more: --limit shows it\.\n$/,
    );
    expect(await actions('--what', 'flow')).toMatchObject([
      { what: 'flow.resume' },
      { what: 'flow.pause', details: { reason: 'month end' } },
    ]);
  });
});

describe('the doctor', () => {
  const finding = async (settings: Record<string, unknown>) => {
    const { level, message } = await findConsole(db.database, bridgeSettings.parse(settings));
    return [level, message];
  };

  test('says whether people can log in to the console, and whether that is safe', async () => {
    await db.database.query('delete from bridge.console_users');
    expect(await finding({})).toEqual(['ok', expect.stringContaining('on this machine alone (127.0.0.1)')]);
    const open = { console_host: '0.0.0.0' };
    expect(await finding(open)).toEqual(['fail', 'on 0.0.0.0, and no one could log in: the bridge does not start']);
    expect(await finding({ ...open, console_pages: false })).toEqual(['warn', expect.stringContaining('/metrics')]);
    await command(['console', 'users', 'add', 'carl', '--generate']);
    expect(await finding(open)).toEqual(['warn', expect.stringContaining('without TLS')]);
    expect(await finding({ ...open, console_url: 'https://console.example' })).toEqual([
      'ok',
      'on 0.0.0.0, with a login',
    ]);
  });
});
