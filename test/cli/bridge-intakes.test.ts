/** The commands on intakes, from files that an ERP drops to a real service. */
import { writeFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { request } from '../harness/request.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { runHere } from './command-line.ts';

const service = await startTestService();
let organisation: TestOrganisation;
let db: TestDatabase;
let folder: string;
let file = 0;
beforeAll(async () => {
  organisation = await service.organisation();
  db = await createTestDatabase();
  folder = await scratchFolder();
  await mkdir(join(folder, 'vendors'));
  const record = { external_id: 'no', name: 'name', archived: 'blocked', contacts: { email: 'mail' }, fields: {} };
  const read = { supplier: { files: 'v*.csv', quiet_seconds: 0, record } };
  const configuration = {
    bridge: {
      port: 0,
      console_port: 0,
      sources: [{ name: 'main', base_url: service.url, api_key: organisation.key, feeds: ['awards'], audit_hours: 0 }],
      intakes: [
        {
          name: 'vendors',
          source: 'main',
          connector: 'file',
          poll_seconds: 1,
          settings: { directory: 'vendors', read },
        },
      ],
    },
  };
  await writeFile(join(folder, 'bridge.yaml'), JSON.stringify(configuration));
});

function bridge(...args: readonly string[]) {
  const config = ['--config', join(folder, 'bridge.yaml'), '--data', folder];
  return runHere(['bridge', ...args, ...config], { DATABASE_URL: db.url });
}

async function json(...args: readonly string[]) {
  const { code, stdout, stderr } = await bridge(...args, '--json');
  if (!stdout) throw new Error(stderr);
  return { code, value: JSON.parse(stdout) };
}

function drop(...rows: readonly string[]): void {
  file += 1;
  writeFileSync(
    join(folder, 'vendors', `v${file}.csv`),
    `no,name,blocked,mail\n${rows.map((row) => `${row}\n`).join('')}`,
  );
}

async function held() {
  const { body } = await organisation.call('GET', '/api/manage/suppliers?page_size=100');
  const { result } = body as { result: { external_id: string; name: string; archived?: boolean }[] };
  return result.map(({ external_id, name }) => `${external_id} ${name}`).sort();
}

test('plan shows what would be sent, and run reads, submits and exits', async () => {
  drop('V-1,Acme,no,ann@acme.example', 'V-2,Beta,no,');
  const plan = await bridge('plan', 'vendors');
  expect([plan.code, plan.stdout]).toEqual([1, expect.stringMatching(/2 to create.*2 suppliers in 1 submission/)]);
  expect(await held()).toEqual([]);
  const run = await json('run');
  expect([run.code, run.value.unfinishedIntakes, await held()]).toEqual([0, [], ['V-1 Acme', 'V-2 Beta']]);
  expect((await json('status')).value.intakes).toMatchObject([{ intake: 'vendors', lag: { inStep: true } }]);
});

test('a supplier is found and has a history; status and doctor know the intake', async () => {
  expect((await bridge('find', 'V-1')).stdout).toMatch(/vendors +V-1 +Acme +V-1 +in step/);
  const history = await bridge('history', 'V-1');
  expect([history.code, history.stdout]).toEqual([0, expect.stringMatching(/vendors[\s\S]*taken/)]);
  expect((await bridge('status')).stdout).toMatch(/intake +behind by/);
  const doctor = await bridge('doctor');
  expect(doctor.stdout).toMatch(/intake vendors: ERP/);
});

test('a refused supplier and a bad line are shown with their words, and replayed', async () => {
  drop('V-3,Gamma,no,not an address', 'V-4,Delta,perhaps,', 'V-5,Epsilon,no,');
  const run = await json('run', '--patience', '5');
  expect([run.code, await held()]).toEqual([1, ['V-1 Acme', 'V-2 Beta', 'V-5 Epsilon']]);
  const letters = await bridge('dead-letters', '--flow', 'vendors');
  expect([letters.code, letters.stdout]).toEqual([1, expect.stringMatching(/V-3[\s\S]*email/)]);
  expect(letters.stdout).toMatch(/v2\.csv, line 3: archived has a value that is neither yes nor no/);
  expect((await json('run')).code).toBe(1);
  expect((await bridge('doctor')).stdout).toMatch(/intake vendors: dead letters/);
  expect((await bridge('replay', '--flow', 'vendors', '--dead', '--yes')).stdout).toMatch(/\d/);
  drop('V-3,Gamma,no,ann@gamma.example', 'V-4,Delta,no,');
  expect((await json('run')).code).toBe(0);
  expect(await held()).toEqual(['V-1 Acme', 'V-2 Beta', 'V-3 Gamma', 'V-4 Delta', 'V-5 Epsilon']);
});

test('a file without its header is refused whole, and status, doctor and alerts name it until it is corrected', async () => {
  const exported = join(folder, 'vendors', 'v-nightly.csv');
  writeFileSync(exported, 'ORA-01017: invalid username/password; logon denied\n');
  drop('V-6,Zeta,no,');
  const run = await json('run', '--patience', '5');
  expect([run.code, await held()]).toEqual([1, expect.arrayContaining(['V-6 Zeta'])]);
  const named = /v-nightly\.csv: the header has no column "no"/;
  expect((await bridge('status')).stdout).toMatch(named);
  expect((await bridge('doctor')).stdout).toMatch(named);
  expect((await json('status')).value.conditions).toContainEqual(
    expect.objectContaining({ kind: 'intake-behind', summary: expect.stringMatching(named) }),
  );
  writeFileSync(exported, 'no,name,blocked,mail\nV-7,Eta,no,\n');
  expect([(await json('run')).code, await held()]).toEqual([0, expect.arrayContaining(['V-7 Eta'])]);
  expect((await json('status')).value.conditions).toEqual([]);
});

test('pause holds an intake, and resume lets it go on', async () => {
  const paused = await bridge('pause', 'vendors', '--reason', 'month end', '--json');
  expect(JSON.parse(paused.stdout)).toEqual({ intake: 'vendors', paused: true, reason: 'month end' });
  drop('V-1,Acme Ltd,no,ann@acme.example');
  const run = await json('run', '--patience', '2');
  expect([run.code, await held()]).toEqual([1, expect.arrayContaining(['V-1 Acme'])]);
  expect((await bridge('status')).stdout).toMatch(/month end/);
  expect((await bridge('resume', 'vendors')).code).toBe(0);
  expect((await json('run')).code).toBe(0);
  expect(await held()).toContain('V-1 Acme Ltd');
});

test('the limits of the service are obeyed; plan and status say when the rest will be through', async () => {
  const config = join(folder, 'limited.yaml');
  const { id, key } = await service.organisation();
  await mkdir(join(folder, 'limited'));
  writeFileSync(join(folder, 'limited', 'v1.csv'), 'no,name\nL-1,One\nL-2,Two\nL-3,Three\nL-4,Four\nL-5,Five\n');
  const intake = {
    name: 'limited',
    source: 'main',
    connector: 'file',
    submission_max: 1,
    settings: {
      directory: 'limited',
      read: {
        supplier: { files: 'v*.csv', quiet_seconds: 0, record: { external_id: 'no', name: 'name', fields: {} } },
      },
    },
  };
  const sources = [{ name: 'main', base_url: service.url, api_key: key, feeds: ['awards'] }];
  const limits = { enabled: true, supplier_changes_write: { burst: 2, sustained: 500 } };
  await service.operator('PUT', `/admin/organisations/${id}/limits`, limits);
  await writeFile(config, JSON.stringify({ bridge: { port: 0, console_port: 0, sources, intakes: [intake] } }));
  const limitedDb = await createTestDatabase();
  const limited = (...args: readonly string[]) =>
    runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: limitedDb.url });
  expect((await limited('run', '--patience', '3')).code).toBe(1);
  const { body } = await request('GET', `${service.url}/api/manage/suppliers`, { key });
  expect((body as { result: unknown[] }).result).toHaveLength(2);
  // The service allows two an hour, and its 429 says when the next is: in an hour.
  const rest = /3 suppliers in 3 submissions, done about (\S+ \S+) UTC/;
  for (const shown of [await limited('plan', 'limited'), await limited('status')]) {
    const done = Date.parse(`${rest.exec(shown.stdout)?.[1]?.replace(' ', 'T')}:00Z`);
    expect(done - Date.now()).toBeGreaterThan(0.9 * 3_600_000);
    expect(done - Date.now()).toBeLessThan(1.1 * 3_600_000);
  }
});

test('doctor says that the key lacks the scope that an intake needs, and plan why nothing is compared', async () => {
  const scoped = { name: 'feeds only', scopes: ['feeds', 'webhooks'] };
  const { body } = await service.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, scoped);
  const config = join(folder, 'scope.yaml');
  await mkdir(join(folder, 'scope'));
  const read = { supplier: { files: 'v*.csv', record: { external_id: 'no', name: 'name', fields: {} } } };
  const intake = { name: 'scope', source: 'main', connector: 'file', settings: { directory: 'scope', read } };
  const withKey = async (key: string) => {
    const sources = [{ name: 'main', base_url: service.url, api_key: key, feeds: ['awards'], audit_hours: 0 }];
    await writeFile(config, JSON.stringify({ bridge: { port: 0, console_port: 0, sources, intakes: [intake] } }));
  };
  const scopeDb = await createTestDatabase();
  const run = (...args: readonly string[]) =>
    runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: scopeDb.url });
  await withKey((body as { key: string }).key);
  expect((await run('doctor')).stdout).toMatch(/^fail +intake scope: source +.*403.*scope "manage"/m);
  expect((await run('plan')).stdout).toMatch(/supplier list cannot be read: .*403.*scope "manage"/);
  await withKey(organisation.key);
  expect((await run('doctor')).stdout).toMatch(/^ok +intake scope: source +the source "main" shows its suppliers/m);
});

test('a settings’ read that is missing is named at the start', async () => {
  const config = join(folder, 'none.yaml');
  const intake = { name: 'vendors', source: 'main', connector: 'file', settings: { directory: 'vendors' } };
  const sources = [{ name: 'main', base_url: service.url, api_key: organisation.key }];
  await writeFile(config, JSON.stringify({ bridge: { port: 0, sources, intakes: [intake] } }));
  const { code, stderr } = await runHere(['bridge', 'plan', '--config', config, '--data', folder], {
    DATABASE_URL: db.url,
  });
  expect([code, stderr]).toEqual([2, expect.stringContaining('say in settings.read.supplier what is read')]);
});
