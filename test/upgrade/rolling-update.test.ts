/**
 * Two versions on one database while one replaces the other, under load, with real processes. The newer one is this one
 * with migrations added, as a release may have them.
 */
import { cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readRows, readServiceState, readUnfinished } from '../faults/awards-in-sql.ts';
import { createSource, ledgerConfiguration, type Source } from '../faults/ledger-bridge.ts';
import { readLedger, replayLedger } from '../faults/ledger-connector.ts';
import { openClient, startPlayers } from '../faults/players.ts';
import { createInstallation, expectGracefulEnd, lineOf, until } from '../faults/program-process.ts';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';

const root = join(import.meta.dirname, '..', '..');

/** A copy of the programs with one more migration for either. */
async function newerVersion(migration: { service: string; bridge: string }): Promise<string> {
  const folder = join(await scratchFolder(), 'newer');
  await mkdir(folder);
  for (const part of ['src', 'connectors', 'package.json'])
    await cp(join(root, part), join(folder, part), { recursive: true });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const program of ['service', 'bridge'] as const) {
    const migrations = join(folder, 'src', program, 'migrations');
    const number = String((await readdir(migrations)).length + 1).padStart(3, '0');
    await writeFile(join(migrations, `${number}_newer.sql`), migration[program]);
  }
  return folder;
}

const additive = {
  service: 'alter table service.sourcing_events add column newer text; create table service.newer (x int);',
  bridge: 'alter table bridge.flow_documents add column newer int default 1; create table bridge.newer (x int);',
};

/** How many notifications were answered with 200, and how many of them the inbox holds. */
const acknowledgedNotifications = `
  select count(*)::int as all, count(*) filter (where exists (
    select from bridge.inbox i where i.trigger = d.trigger and d.payload in (i.body::jsonb, i.body::jsonb -> 'payload'))
  )::int as stored
  from service.deliveries d where d.state = 'delivered'`;

/** A bridge of one version: it receives at a port of its own, and reads from `baseUrl`. */
async function bridgeOn(
  { databaseUrl, dataDir }: { databaseUrl: string; dataDir: string },
  options: { source: Source; port: number; ledger: string; code?: string },
) {
  const configuration = ledgerConfiguration(options.source, {
    bridge: { port: options.port },
    source: { quotas: { enabled: false }, poll_seconds: 5 },
  }) as { bridge: { flows: { settings: object }[] } };
  for (const flow of configuration.bridge.flows) flow.settings = { file: options.ledger };
  return createInstallation({ databaseUrl, dataDir, configuration, ...(options.code && { code: options.code }) });
}

test('two versions work beside each other under load: no award is lost or made twice, and no notification is lost', {
  timeout: 240_000,
}, async () => {
  const { url } = await createTestDatabase();
  const newer = await newerVersion(additive);
  const ledger = join(await scratchFolder(), 'erp.jsonl');
  const ports = [await freePort(), await freePort()] as const;

  const serviceOf = await createInstallation({ databaseUrl: url });
  const oldService = serviceOf.start(['service', '--port', '0']);
  const oldUrl = /http\S+/.exec(await lineOf(oldService, /ready/))?.[0] ?? '';
  const source = await createSource(
    serviceOf,
    oldUrl,
    ports.map((port) => `https://localhost:${port}/webhooks/main`),
  );
  // The service trusts the authority of its own data folder.
  const at = { databaseUrl: url, dataDir: serviceOf.dataDir };
  const oldBridge = (await bridgeOn(at, { source, port: ports[0], ledger })).start(['bridge']);
  await lineOf(oldBridge, /ready/);
  const before = startPlayers({ client: await openClient(oldUrl, source.apiKey), seed: 3, pauseMs: 20 });
  await until(
    'the old version delivers',
    () => readLedger(ledger).length >= 2,
    () => before.failure,
  );

  const newService = (await createInstallation({ ...at, code: newer })).start(['service', '--port', '0']);
  const newUrl = /http\S+/.exec(await lineOf(newService, /ready/))?.[0] ?? '';
  const newSource = { ...source, baseUrl: newUrl };
  const newBridge = (await bridgeOn(at, { source: newSource, port: ports[1], ledger, code: newer })).start(['bridge']);
  await lineOf(newBridge, /ready/);
  const seen = readLedger(ledger).length;
  await until(
    'both work',
    () => readLedger(ledger).length >= seen + 3,
    () => before.failure,
  );
  await before.finish();

  const after = startPlayers({ client: await openClient(newUrl, source.apiKey), seed: 300, pauseMs: 20 });
  await Promise.all([expectGracefulEnd(oldBridge), expectGracefulEnd(oldService)]);
  const held = readLedger(ledger).length;
  await until(
    'the new version goes on',
    () => readLedger(ledger).length >= held + 3,
    () => after.failure,
  );
  await after.finish();

  const { awards, reopened } = await readServiceState(url);
  expect(reopened).toEqual([]);
  await expect
    .poll(async () => ({ held: replayLedger(ledger).held, unfinished: await readUnfinished(url) }), {
      timeout: 60_000,
      interval: 100,
    })
    .toEqual({ held: awards, unfinished: [] });
  expect(replayLedger(ledger).doubled).toEqual([]);
  const [acknowledged] = await readRows<{ all: number; stored: number }>(url, acknowledgedNotifications);
  expect(acknowledged?.all).toBeGreaterThan(10);
  expect(acknowledged?.stored).toBe(acknowledged?.all);
  await Promise.all([newBridge, newService].map(expectGracefulEnd));

  // The way back: what the newer version has added is no obstacle.
  const again = (await bridgeOn(at, { source, port: ports[0], ledger })).start(['bridge']);
  await lineOf(again, /ready/);
  await expectGracefulEnd(again);
});

test('a version with which the one before cannot work waits for its end, and does not let it start again', async () => {
  const { url } = await createTestDatabase();
  const breaking = await newerVersion({
    ...additive,
    bridge: '-- breaking: the trace of a notification is gone\nalter table bridge.inbox drop column trace;',
  });
  const start = async (code?: string) => {
    const configuration = { bridge: { port: await freePort(), console_port: await freePort() } };
    const installation = await createInstallation({ databaseUrl: url, configuration, ...(code && { code }) });
    return installation.start(['bridge']);
  };
  const old = await start();
  await lineOf(old, /ready/);
  const refused = await start(breaking);
  expect(await refused.end).toMatchObject({ code: 1 });
  expect(refused.errors.join('\n')).toMatch(new RegExp(`Stop them first: bridge \\S+ ${old.pid}`));

  await expectGracefulEnd(old);
  const newer = await start(breaking);
  await lineOf(newer, /ready/);
  await expectGracefulEnd(newer);
  const back = await start();
  expect(await back.end).toMatchObject({ code: 1 });
  expect(back.errors.join('\n')).toContain('with which this version cannot work');
});
