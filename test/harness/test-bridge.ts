/** The real bridge for tests, on its own database and free ports, closed after the test file. */
import { type Bridge, startBridge } from '#bridge/create-bridge.ts';
import type { BridgeRole } from '#bridge/settings/bridge-deps.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSignals } from '#platform/queue.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import { closeAtEnd } from './close-at-end.ts';
import { scratchFolder } from './scratch-folder.ts';
import { testCertificates, testOutgoing } from './test-certificates.ts';
import { createTestDatabase, type TestDatabase } from './test-database.ts';

export interface TestBridge {
  readonly bridge: Bridge;
  readonly db: TestDatabase;
  readonly registry: Registry;
  readonly dataDir: string;
}

/** Starts a bridge with these settings on free ports. */
export async function startTestBridge(
  settings: Partial<Record<keyof BridgeSettings, unknown>>,
  options: { clock?: Clock; db?: TestDatabase; sweepMs?: number; secrets?: SecretBox; role?: BridgeRole } = {},
): Promise<TestBridge> {
  const db = options.db ?? (await createTestDatabase());
  const { certPem, keyPem } = testCertificates();
  const registry = new Registry();
  const dataDir = await scratchFolder();
  const bridge = await startBridge({
    settings: bridgeSettings.parse({ port: 0, console_port: 0, ...settings }),
    tls: { certPem, keyPem },
    dataDir,
    sweepMs: options.sweepMs ?? 600_000,
    actionDays: 730,
    database: db.database,
    signals: await createSignals({
      database: db.database,
      databaseUrl: db.url,
      namespace: 'bridge_queue',
      log: silentLogger,
    }),
    fetch: testOutgoing().fetch,
    secrets: options.secrets ?? createSecretBox(Buffer.alloc(32, 7)),
    role: options.role ?? 'all',
    clock: options.clock ?? systemClock,
    log: silentLogger,
    registry,
  });
  closeAtEnd(() => bridge.close(1_000));
  return { bridge, db, registry, dataDir };
}
