/**
 * `bridge restored`, and the runs after it, with the real service, the ERP of the memory connector and PostgreSQL tables: the bridge's database is
 * an old backup, or gone. The memory ERP makes a second object of each repeated create.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type OpenLoss, readOpenLoss } from '#bridge/ledger/lost-commits/open-loss.ts';
import { superuser } from '#platform/database/create-cluster.ts';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { type MemoryErp, startMemoryErp } from '../../connectors/memory/memory-erp.ts';
import { until, useEmbedded } from '../faults/program-process.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEvent, createSuppliers, desk, eventPayload, readWholeFeed } from '../harness/sourcing.ts';
import { copyTestDatabase, createEmptyDatabase, type TestDatabase } from '../harness/test-database.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { runHere, startCommandLine } from './command-line.ts';

let organisation: TestOrganisation;
let memory: MemoryErp;
let tables: TestDatabase;
let folder: string;
let config: string;
let databaseUrl: string;

const suppliers = ['S1', 'S2', 'S3'];

/** An event of two lots that these suppliers win, closed. */
async function award(id: string, winners: readonly string[]): Promise<void> {
  const lots = ['A', 'B'];
  await desk(organisation, 'PUT', `${id}/scenarios/best`, {
    awards: lots.map((lot, n) => ({ lot, supplier: winners[n] ?? '', share_awarded: '1' })),
  });
  await desk(organisation, 'POST', `${id}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${id}/close`);
}

async function awardedEvent(name: string, winners: readonly string[]): Promise<string> {
  const id = await createEvent(organisation, eventPayload({ name, lots: ['A', 'B'], suppliers }));
  await desk(organisation, 'POST', `${id}/publish`);
  for (const supplier of suppliers)
    await desk(organisation, 'POST', `${id}/bids`, {
      supplier,
      lots: ['A', 'B'].map((lot) => ({ lot, values: { Price: String(suppliers.indexOf(supplier) + 2) } })),
    });
  await award(id, winners);
  return id;
}

beforeAll(async () => {
  const service = await startTestService();
  organisation = await service.organisation();
  await createSuppliers(organisation, suppliers);
  memory = await startMemoryErp({ clientId: 'bridge', clientSecret: 'secret' });
  tables = await createEmptyDatabase();
  folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  const source = {
    name: 'main',
    base_url: service.url,
    api_key: organisation.key,
    audit_hours: 0,
    poll_seconds: 3600,
    lateness_seconds: 1,
  };
  const login = { base_url: memory.address, client_id: 'bridge', client_secret: 'secret' };
  const withdrawals = { most: 100 };
  const flows = [
    { name: 'memory', source: 'main', connector: 'memory', settings: login, withdrawals },
    { name: 'tables', source: 'main', connector: 'postgres', settings: { url: tables.url }, withdrawals },
  ];
  await writeFile(config, JSON.stringify({ bridge: { port: 0, console_port: 0, sources: [source], flows } }));
  databaseUrl = await emptyDatabase();
}, 120_000);

/** A database to which this test holds no connection, so that it can be copied. */
async function emptyDatabase(): Promise<string> {
  const { url, database } = await createEmptyDatabase();
  await database.close();
  return url;
}

const args = (command: readonly string[], data = folder) => ['bridge', ...command, '--config', config, '--data', data];
const bridge = (...command: readonly string[]) => runHere(args(command), { DATABASE_URL: databaseUrl });

/** What the service has awarded: the cost of each award, by its key. */
async function awarded(): Promise<[string, number][]> {
  const costs = new Map<string, number>();
  for (const record of await readWholeFeed(organisation, 'awards'))
    for (const { supplier, cost } of record.awards) {
      const key = `${record.sourcing_event}/${supplier}`;
      costs.set(key, (costs.get(key) ?? 0) + Number(cost));
    }
  return [...costs].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

async function inTables(): Promise<[string, number][]> {
  const rows = await tables.database.query<{ key: string; cost: string }>(
    "select key, total_cost::text as cost from sourcing.award where state = 'current' order by key",
  );
  return rows.map(({ key, cost }) => [key, Number(cost)]);
}

/** The number of the memory ERP's object of each award. Of a key that stands here twice there are two objects. */
const numbers = () =>
  memory
    .allOf('award')
    .map(({ key, number }): [string, string] => [key, number])
    .toSorted(([a], [b]) => (a < b ? -1 : 1));

/** Every award that was there before and still is has the object that it had. */
function expectNoneTwice(before: [string, string][]): void {
  const after = numbers();
  const keys = new Set(after.map(([key]) => key));
  expect(after).toHaveLength(keys.size);
  const own = new Map(before);
  expect(after.filter(([key]) => own.has(key))).toEqual(before.filter(([key]) => keys.has(key)));
}

async function expectEqual(): Promise<void> {
  const wanted = await awarded();
  expect(await inTables()).toEqual(wanted);
  // One object for each award: a second one would stand here, too.
  expect(numbers().map(([key]) => key)).toEqual(wanted.map(([key]) => key));
}

/** Starts a run as a process and kills it with -9 when this is true of the restore that was noted. */
async function killedRun(
  when: (restore: OpenLoss) => boolean,
  {
    data = folder,
    env = { DATABASE_URL: databaseUrl },
  }: { data?: string; env?: Readonly<Record<string, string>> } = {},
): Promise<void> {
  const run = startCommandLine(args(['run'], data), env);
  await until('the run has come so far', async () => {
    const url = data === folder ? databaseUrl : await urlOfEmbedded(data);
    const restore = await withDatabase(url, readOpenLoss).catch(() => undefined);
    return restore !== undefined && when(restore);
  });
  run.signal('SIGKILL');
  expect(await run.ended).toBe('SIGKILL');
}

/** Of the server that runs; `useEmbedded` might own it before the process does, and end it. */
async function urlOfEmbedded(data: string): Promise<string> {
  const [password, pidFile] = await Promise.all(
    ['postgres.secret', 'postgres/postmaster.pid'].map((name) => readFile(join(data, name), 'utf8').catch(() => '')),
  );
  const port = pidFile?.split('\n')[3] || '1';
  return `postgres://${superuser}:${encodeURIComponent(password?.trim() ?? '')}@127.0.0.1:${port}/postgres`;
}

async function withDatabase<T>(url: string, use: (database: Database) => Promise<T>): Promise<T> {
  const database = createDatabase({ url, log: silentLogger, applicationName: 'test', poolMax: 1 });
  try {
    return await use(database);
  } finally {
    await database.close();
  }
}

/** Each run exits with 1 until everything was looked up. */
const runUntilCaughtUp = () => until('the loss is caught up with', async () => (await bridge('run')).code === 0);

/** As if the restore was noted long ago: calls of the lost bridge can take effect no longer, and are not waited for. */
const ageRestore = (url: string) =>
  withDatabase(url, async (database) => {
    const ago = "interval '10 minutes'";
    await database.query(`update bridge.lost_commits set lost = lost - ${ago}`);
    await database.query(`update bridge.flows set commits_lost = commits_lost - ${ago}`);
    await database.query(`update bridge.flow_documents set uncertain_since = uncertain_since - ${ago}`);
  });

const isNoted = () => true;
const isAsking = ({ flows }: OpenLoss) => flows.some(({ isSourceRead }) => isSourceRead);

test('from a backup: equal, nothing twice, and killed on the way it goes on where it was', async () => {
  const first = await awardedEvent('Chairs', ['S1', 'S2']);
  await awardedEvent('Desks', ['S1', 'S1']);
  expect(await bridge('run')).toMatchObject({ code: 0 });
  await expectEqual();
  const backup = await copyTestDatabase(databaseUrl);
  await backup.database.close();

  // Delivered after the backup: a new award, another winner, and an award that is taken back.
  await awardedEvent('Lamps', ['S2', 'S3']);
  await desk(organisation, 'POST', `${first}/reopen`);
  await award(first, ['S3', 'S2']);
  expect(await bridge('run')).toMatchObject({ code: 0 });
  await expectEqual();
  const before = numbers();

  // The bridge is lost; the source goes on, and its database is that of the backup.
  await awardedEvent('Shelves', ['S1', 'S3']);
  databaseUrl = backup.url;
  expect(await bridge('restored')).toMatchObject({ code: 0 });
  for (const when of [isNoted, isAsking]) await killedRun(when);
  await ageRestore(databaseUrl);
  await runUntilCaughtUp();
  await expectEqual();
  expectNoneTwice(before);
  expect((await bridge('status')).stdout).not.toContain('estored');
});

test('from nothing: the ledger is that of the ERP, and only what nobody has delivered is written', async () => {
  const before = numbers();
  const events = await readWholeFeed(organisation, 'sourcing-events');
  const chairs = events.find(({ name }: { name: string }) => name === 'Chairs').id;
  databaseUrl = await emptyDatabase();
  // Taken back while there is no bridge: the award of S3 for the chairs, which no record names any more.
  await desk(organisation, 'POST', `${chairs}/reopen`);
  await award(chairs, ['S2', 'S2']);
  expect(await bridge('restored')).toMatchObject({ code: 0 });
  await killedRun(isAsking);
  await ageRestore(databaseUrl);
  await runUntilCaughtUp();
  await expectEqual();
  expectNoneTwice(before);
  // The ledger is whole: a comparison finds each object as it was delivered.
  expect(await bridge('reconcile')).toMatchObject({ code: 0 });
  expect(await bridge('run')).toMatchObject({ code: 0 });
  expectNoneTwice(before);
});

// By `npm run test:kills`: it differs from the test above in the database alone.
test.runIf(process.env['FAULTS'])(
  'after an embedded folder was lost, and killed with -9 meanwhile',
  { timeout: 240_000 },
  async () => {
    const before = numbers();
    const data = join(await scratchFolder(), 'data');
    closeAtEnd(() => useEmbedded(data, async () => undefined));
    expect(await startCommandLine(args(['restored'], data)).ended).toBe(0);
    await killedRun(isNoted, { data, env: {} });
    await killedRun(isAsking, { data, env: {} });
    await useEmbedded(data, ageRestore);
    await until('the loss is caught up with', async () => (await startCommandLine(args(['run'], data)).ended) === 0);
    await expectEqual();
    expectNoneTwice(before);
  },
);
