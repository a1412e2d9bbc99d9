/** The commands on intakes, from files that an ERP drops to a real service. */
import { writeFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
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

test('plan shows what would be sent, and run reads, submits and exits', { timeout: 60_000 }, async () => {
  drop('V-1,Acme,no,ann@acme.example', 'V-2,Beta,no,');
  const plan = await bridge('intake', 'plan', 'vendors');
  expect([plan.code, plan.stdout]).toEqual([1, expect.stringMatching(/2 to create.*2 suppliers in 1 submission/)]);
  expect(await held()).toEqual([]);
  const run = await json('run');
  expect([run.code, run.value.unfinishedIntakes, await held()]).toEqual([0, [], ['V-1 Acme', 'V-2 Beta']]);
  expect((await json('intake', 'status')).value.intakes).toMatchObject([{ intake: 'vendors', lag: { inStep: true } }]);
});

test('a supplier is found and has a history; status, lag and doctor know the intake', async () => {
  expect((await bridge('find', 'V-1')).stdout).toMatch(/vendors +V-1 +Acme +V-1 +in step/);
  const history = await bridge('history', 'V-1');
  expect([history.code, history.stdout]).toEqual([0, expect.stringMatching(/vendors[\s\S]*taken/)]);
  expect((await bridge('status')).stdout).toMatch(/intake +behind by/);
  expect((await bridge('lag')).stdout).toMatch(/intake vendors/);
  const doctor = await bridge('doctor');
  expect(doctor.stdout).toMatch(/intake vendors: ERP/);
});

test('a refused supplier and a bad line are shown with their words, and replayed', { timeout: 60_000 }, async () => {
  drop('V-3,Gamma,no,not an address', 'V-4,Delta,perhaps,', 'V-5,Epsilon,no,');
  const run = await json('intake', 'run', 'vendors', '--patience', '5');
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

test('pause holds an intake, and resume lets it go on', { timeout: 60_000 }, async () => {
  expect((await bridge('pause', 'vendors', '--reason', 'month end')).code).toBe(0);
  drop('V-1,Acme Ltd,no,ann@acme.example');
  const run = await json('run', '--patience', '2');
  expect([run.code, await held()]).toEqual([1, expect.arrayContaining(['V-1 Acme'])]);
  expect((await bridge('status')).stdout).toMatch(/month end/);
  expect((await bridge('resume', 'vendors')).code).toBe(0);
  expect((await json('run')).code).toBe(0);
  expect(await held()).toContain('V-1 Acme Ltd');
});

test('a settings’ read that is missing is named at the start', async () => {
  const config = join(folder, 'none.yaml');
  const intake = { name: 'vendors', source: 'main', connector: 'file', settings: { directory: 'vendors' } };
  const sources = [{ name: 'main', base_url: service.url, api_key: organisation.key }];
  await writeFile(config, JSON.stringify({ bridge: { port: 0, sources, intakes: [intake] } }));
  const { code, stderr } = await runHere(['bridge', 'intake', 'plan', '--config', config, '--data', folder], {
    DATABASE_URL: db.url,
  });
  expect([code, stderr]).toEqual([2, expect.stringContaining('say in settings.read.supplier what is read')]);
});
