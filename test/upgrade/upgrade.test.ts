/**
 * The upgrade drill: this version's programs start on the tables that an earlier version has left, with what it has left
 * undelivered, and go on as if nothing had happened. `npm run release:state` keeps the tables of this version, for those
 * to come.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { migrateService } from '#service/create-service.ts';
import { readServiceState, readUnfinished } from '../faults/awards-in-sql.ts';
import { createSource, ledgerConfiguration } from '../faults/ledger-bridge.ts';
import { readLedger, replayLedger } from '../faults/ledger-connector.ts';
import { openClient, startPlayers } from '../faults/players.ts';
import {
  createInstallation,
  expectGracefulEnd,
  type Installation,
  lineOf,
  until,
  useEmbedded,
} from '../faults/program-process.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';
import {
  countRows,
  keptVersions,
  loadTables,
  readReleaseState,
  readTables,
  type Schema,
  writeReleaseState,
} from './release-state.ts';

const startService = async (installation: Installation, env: Record<string, string> = {}) => {
  const program = installation.start(['service', '--port', '0'], env);
  return { program, baseUrl: /http\S+/.exec(await lineOf(program, /ready/))?.[0] ?? '' };
};
const bridgeOf = (source: Parameters<typeof ledgerConfiguration>[0], ledger: string) => {
  const configuration = ledgerConfiguration(source, {
    bridge: { port: 0 },
    source: { quotas: { enabled: false }, poll_seconds: 1 },
  }) as { bridge: { flows: { settings: object }[] } };
  for (const flow of configuration.bridge.flows) flow.settings = { file: ledger };
  return configuration;
};

test.runIf(process.env['RELEASE_STATE'])(
  'keeps what this version leaves behind',
  async () => {
    const service = await createInstallation();
    const { program, baseUrl } = await startService(service);
    const source = await createSource(service, baseUrl, []);
    const ledger = join(await scratchFolder(), 'erp.jsonl');
    const bridge = await createInstallation({ configuration: bridgeOf(source, ledger) });
    const players = startPlayers({ client: await openClient(baseUrl, source.apiKey), seed: 11, pauseMs: 0 });
    const running = bridge.start(['bridge']);
    await until('three awards are delivered', () => readLedger(ledger).length >= 3);
    await expectGracefulEnd(running);
    // What happens now is not delivered before the upgrade.
    const played = players.events;
    await until('an event more is played', () => players.events > played);
    await players.finish();
    await expectGracefulEnd(program);
    await writeReleaseState({
      version: process.env['RELEASE_STATE'] ?? '',
      service: await useEmbedded(service.dataDir, (url) => readTables(url, 'service')),
      bridge: await useEmbedded(bridge.dataDir, (url) => readTables(url, 'bridge')),
      ledger: await readFile(ledger, 'utf8'),
      apiKey: source.apiKey,
      masterKey: (await readFile(join(service.dataDir, 'master-key'), 'utf8')).trim(),
    });
    expect(await keptVersions()).toContain(process.env['RELEASE_STATE']);
  },
  120_000,
);

/** Dropped since. */
const notKept = [
  'alert_messages',
  'alert_notices',
  'console_links',
  'console_sessions',
  'delivery_attempts',
  'erased_organisations',
  'erased_persons',
  'erasure_deliveries',
  'erasures',
  'event_files',
  'event_requests',
  'file_uploads',
  'intake_acknowledgements',
  'intake_attributes',
  'intake_jobs',
  'intake_lots',
  'intake_versions',
  'operators',
  'quota_pauses',
  'quota_uses',
  'reconciliation_feed_findings',
  'reconciliation_feeds',
  'reconciliation_totals',
  'reconciliation_windows',
  'replaced_tokens',
  'report_keys',
  'reports',
  'request_files',
  'rereads',
  'restores',
  'samples',
  'document_notes',
  'replays',
  'replay_documents',
  'scenario_awards',
  'shadow_documents',
  'source_changes',
  'source_forms',
  'supplier_attributes',
  'supplier_marks',
  'suspect_versions',
];

describe.each(await keptVersions())('the tables of %s', (version) => {
  test('are upgraded: every row stays, what was delivered is not sent again, what was not is, and it goes on', async () => {
    const kept = await readReleaseState(version);
    const databases = { service: await createEmptyDatabase(), bridge: await createEmptyDatabase() };
    const schemas: readonly Schema[] = ['service', 'bridge'];
    for (const schema of schemas) await loadTables(databases[schema].database, schema, kept[schema]);
    await migrateService(databases.service.database);
    await migrateBridge(databases.bridge.database);
    for (const schema of schemas) {
      const after = countRows(await readTables(databases[schema].url, schema));
      const before = Object.entries(countRows(kept[schema])).filter(([table]) => !notKept.includes(table));
      expect(after).toMatchObject(Object.fromEntries(before));
    }

    const service = await createInstallation({ databaseUrl: databases.service.url });
    const started = await startService(service, { SOURCING_MASTER_KEY: kept.masterKey });
    const ledger = join(await scratchFolder(), 'erp.jsonl');
    await writeFile(ledger, kept.ledger);
    const source = { baseUrl: started.baseUrl, apiKey: kept.apiKey, signingKeys: [] };
    const bridge = await createInstallation({
      databaseUrl: databases.bridge.url,
      configuration: bridgeOf(source, ledger),
    });
    const before = replayLedger(ledger).held;
    const left = await readServiceState(databases.service.url);
    // Otherwise the version has left nothing to do.
    expect(before).not.toEqual(left.awards);

    const running = bridge.start(['bridge']);
    const expectInStep = async () => {
      const { awards } = await readServiceState(databases.service.url);
      const state = async () => ({
        held: replayLedger(ledger).held,
        unfinished: await readUnfinished(databases.bridge.url),
      });
      await expect.poll(state, { timeout: 30_000, interval: 50 }).toEqual({ held: awards, unfinished: [] });
    };
    await expectInStep();
    const players = startPlayers({ client: await openClient(started.baseUrl, kept.apiKey), seed: 12, pauseMs: 0 });
    await until(
      'an event more is played',
      () => players.events > 0,
      () => players.failure,
    );
    await players.finish();
    await expectInStep();

    expect(Object.keys(replayLedger(ledger).held).length).toBeGreaterThan(Object.keys(left.awards).length);
    expect(replayLedger(ledger).doubled).toEqual([]);
    for (const program of [running, started.program]) await expectGracefulEnd(program);
  }, 120_000);
});
