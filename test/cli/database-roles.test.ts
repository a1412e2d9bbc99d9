/**
 * Service and bridge on one database, each under a role of its own that is no superuser and owns nothing; their tables
 * belong to a third role, which migrates.
 */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createDatabase } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { createInstallation, lineOf } from '../faults/program-process.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';
import { runCommandLine, runHere } from './command-line.ts';

type Role = 'owner' | 'service' | 'bridge';

/**
 * An empty database of the owner's, with the three roles, made by the statements of the composition. The names of the
 * roles are a test's own: other tests share the server.
 */
async function prepare() {
  const suffix = randomBytes(4).toString('hex');
  const nameOf = (role: Role) => `${role}_${suffix}`;
  const names = (['owner', 'service', 'bridge'] as const).map(nameOf);
  const empty = await createEmptyDatabase();
  const { url, database } = empty;
  closeAtEnd(async () => {
    const admin = await createEmptyDatabase();
    await empty.drop();
    for (const name of names) await admin.database.query(`drop role if exists ${name}`);
  });
  const script = await readFile(join(import.meta.dirname, '../../docker/postgres/roles.sh'), 'utf8');
  const [, statements = ''] = /<<'SQL'\n([\s\S]*)\nSQL\n$/.exec(script) ?? [];
  const own = statements
    .replaceAll(/sourcing_(owner|service|bridge)/g, (_, role: Role) => nameOf(role))
    .replaceAll(/:'(owner|service|bridge)'/g, (_, role: Role) => `'of-${nameOf(role)}'`)
    .replaceAll(':"database"', `"${new URL(url).pathname.slice(1)}"`);
  for (const statement of own.split(';').filter((text) => text.trim() !== '')) await database.query(statement);
  const made = await database.query<{ special: boolean }>(
    'select rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls as special from pg_roles where rolname = any($1)',
    [names],
  );
  expect(made).toEqual([{ special: false }, { special: false }, { special: false }]);
  const urlOf = (role: Role) => {
    const of = new URL(url);
    of.username = nameOf(role);
    of.password = `of-${nameOf(role)}`;
    return of.href;
  };
  return { database, nameOf, urlOf };
}

/** The SQLSTATE with which the database refuses a statement of the role at this address; `ok` when it does not. */
async function attempt(url: string, statement: string): Promise<unknown> {
  const database = createDatabase({ url, log: silentLogger, applicationName: 'test', poolMax: 1 });
  try {
    await database.query(statement);
    return 'ok';
  } catch (error) {
    return (error as { code?: unknown }).code;
  } finally {
    await database.close();
  }
}

const adminToken = randomBytes(24).toString('hex');

test('a program whose role may not make its tables says which command does', async () => {
  const { urlOf } = await prepare();
  const installation = await createInstallation({ databaseUrl: urlOf('service') });
  const program = installation.start(['service', '--port', '0'], { LOG_LEVEL: 'fatal' });
  expect(await program.end).toMatchObject({ code: 1 });
  expect(program.errors.join('\n')).toContain('npm run -s cli -- migrate service');
  expect(program.errors.join('\n')).not.toMatch(/^\s+at /m);
});

test('both programs work from the first event to the delivered award, and neither may do what it does not need', async () => {
  const { database, nameOf, urlOf } = await prepare();
  for (const program of ['service', 'bridge'] as const) {
    // The role's password is no secret of the one who migrates.
    const workUrl = new URL(urlOf(program));
    workUrl.password = '';
    const env = { DATABASE_URL: workUrl.href, MIGRATION_DATABASE_URL: urlOf('owner') };
    // Twice: an upgrade repeats it.
    for (let time = 1; time <= 2; time += 1) {
      const { code, stdout, stderr } = await migrated(program, env);
      expect([code, stdout, stderr]).toEqual([
        0,
        `The tables of the ${program} are up to date, and ${nameOf(program)} may work with them.\n`,
        '',
      ]);
    }
  }
  const service = await createInstallation({ databaseUrl: urlOf('service') });
  const running = service.start(['service', '--port', '0'], { SOURCING_ADMIN_TOKEN: adminToken });
  const url = (await lineOf(running, /ready/)).split(' ').at(-1) ?? '';
  const call = async (path: string, body: object, method: 'POST' | 'PUT' = 'POST') => {
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
    const answer = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
    expect(answer.ok).toBe(true);
    return (await answer.json()) as Record<string, string>;
  };
  const { id } = await call('/admin/organisations', { name: 'Roles' });
  await call(`/admin/organisations/${id}/limits`, { enabled: false }, 'PUT');
  const keyOf = async (scopes: string[]) =>
    (await call(`/admin/organisations/${id}/api-keys`, { name: 'k', scopes }))['key'] ?? '';
  const story = await runCommandLine(
    ['simulate', '--base-url', url, '--events', '2', '--suppliers', '3', '--lots', '2', '--speed', '1000'],
    { SOURCING_API_KEY: await keyOf(['manage', 'jobs', 'desk', 'feeds']) },
  );
  expect([story.code, story.stderr]).toEqual([0, '']);
  const bridge = await createInstallation({
    databaseUrl: urlOf('bridge'),
    configuration: {
      bridge: {
        sources: [{ name: 'main', base_url: url, api_key: await keyOf(['feeds']), quotas: { enabled: false } }],
        flows: [
          {
            name: 'erp',
            source: 'main',
            connector: 'file',
            documents: ['supplier', 'sourcing-event', 'quotation', 'award'],
            withdrawals: { share: 1 },
            settings: { directory: 'erp' },
          },
        ],
      },
    },
  });
  const run = bridge.start(['bridge', 'run', '--json']);
  expect([await run.end, run.errors.filter((line) => line.includes('permission'))]).toMatchObject([{ code: 0 }, []]);
  expect(JSON.parse(run.lines.join('\n'))).toMatchObject({ ok: true, failedFeeds: [] });
  const [delivered] = await database.query<{ count: number }>(
    'select count(*)::int as count from bridge.flow_documents where delivered is not null',
  );
  expect(delivered?.count).toBeGreaterThan(4);

  const insufficient = '42501';
  expect(await attempt(urlOf('service'), 'select from bridge.mirror')).toBe(insufficient);
  expect(await attempt(urlOf('bridge'), 'select from service.webhooks')).toBe(insufficient);
  for (const role of ['service', 'bridge'] as const) {
    expect(await attempt(urlOf(role), `select from ${role}.migrations`)).toBe('ok');
    expect(await attempt(urlOf(role), `drop table ${role}.webhooks cascade`)).toBe(insufficient);
    expect(await attempt(urlOf(role), `create table ${role}.mine (id int)`)).toBe(insufficient);
    expect(await attempt(urlOf(role), `create schema mine`)).toBe(insufficient);
    expect(await attempt(urlOf(role), `create table public.mine (id int)`)).toBe(insufficient);
    // The audit log: each program appends to its own, and takes nothing back.
    expect(await attempt(urlOf(role), `truncate ${role}.actions`)).toBe(insufficient);
    expect(await attempt(urlOf(role), `alter table ${role}.actions disable trigger all`)).toBe(insufficient);
    expect(await attempt(urlOf(role), `copy ${role}.webhooks to program 'true'`)).toBe(insufficient);
  }
  for (const statement of ["update service.actions set name = 'x'", 'delete from service.actions'])
    expect(await attempt(urlOf('service'), statement)).toBe(insufficient);
  // Nor does it write to it but by the function, which sets the time; nor does a setting of the session help.
  const entry = (at: string) =>
    `'01a00000-0000-7000-8000-000000000000', ${at}, 'user', 'planted', 'x', null, null, 'allowed', '{}'`;
  const planting = `insert into service.actions (id, at, actor, name, what, object, origin, outcome, details) values (${entry('now()')})`;
  expect(await attempt(urlOf('service'), planting)).toBe(insufficient);
  const pseudonym = `select set_config('sourcing.erased_address', 'a@b.example', false),
      set_config('sourcing.erased_mark', 'erased-00112233aabb@erased.invalid', false);
    update service.actions set name = service.without_address(name, 'a@b.example', 'erased-00112233aabb@erased.invalid')`;
  expect(await attempt(urlOf('service'), pseudonym)).toBe(insufficient);
  const backdated = `select service.append_action(${entry("'2020-01-01'")})`;
  expect(await attempt(urlOf('service'), backdated)).toBe('ok');
  const [planted] = await database.query<{ isNow: boolean }>(
    `select at > now() - interval '1 minute' as "isNow" from service.actions where name = 'planted'`,
  );
  expect(planted?.isNow).toBe(true);
  // And what the owner keeps, here for 730 days, it does not delete: neither directly nor by the function.
  await database.query(
    `select service.append_action(${entry("now() - interval '100 days'").replace('planted', 'kept')})`,
  );
  expect(await attempt(urlOf('service'), "delete from service.actions where name = 'kept'")).toBe(insufficient);
  expect(await attempt(urlOf('service'), "select service.prune_actions(now() + interval '9 years', 0, 1000)")).toBe(
    'ok',
  );
  const kept = await database.query("select from service.actions where name in ('kept', 'planted')");
  expect(kept).toHaveLength(2);
  // But it may erase a person there.
  const erasing = "select service.erase_in_actions('a@b.example', 'erased-00112233aabb@erased.invalid')";
  expect(await attempt(urlOf('service'), erasing)).toBe('ok');
  // The service's role reads its own log, and is not told of the other.
  const log = await runHere(['audit-log', '--jsonl', '--what', 'organisation'], { DATABASE_URL: urlOf('service') });
  const entries = log.stdout.trim().split('\n');
  expect(entries.map((line) => (JSON.parse(line) as { program: string; what: string }).what)).toEqual([
    'organisation.limits',
    'organisation.create',
  ]);
  await running.terminate();
});

/** Runs `migrate` within this process, without a configuration file. */
async function migrated(program: string, env: Record<string, string>) {
  const config = join(await scratchFolder(), 'empty.yaml');
  await writeFile(config, `migration_database_url: ${JSON.stringify(env['MIGRATION_DATABASE_URL'])}\n`);
  return runHere(['migrate', program, '--config', config], { DATABASE_URL: env['DATABASE_URL'] ?? '' });
}
