/**
 * What every program of an installation stands on: database, secrets, certificates, outgoing connections. Opened and
 * closed here, and nowhere else.
 */
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { systemClock } from '#platform/clock.ts';
import { loadAdminToken, loadMasterKey } from '#platform/data-dir-secret.ts';
import { type OpenDatabase, openDatabase } from '#platform/database/open-database.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { ensureLocalCertificates, type LocalCertificates } from '#platform/local-ca.ts';
import { createLogger, type Logger } from '#platform/log.ts';
import { createRegistry } from '#platform/metrics.ts';
import { createSignals, type Signals } from '#platform/queue.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import { type Service, startService } from '#service/create-service.ts';
import type { Configuration } from './configuration.ts';

export interface Installation {
  readonly configuration: Configuration;
  readonly dataDir: string;
  readonly log: Logger;
  readonly open: OpenDatabase;
  readonly secrets: SecretBox;
  readonly adminToken: string;
  readonly certificates: LocalCertificates;
  readonly outgoing: ReturnType<typeof createGuardedFetch>;
  signals(program: 'service' | 'bridge'): Promise<Signals>;
  close(): Promise<void>;
}

/** Opens everything; what was opened is closed again when a later part fails. */
export async function openInstallation(
  configuration: Configuration,
  options: { name: string; logLevel: string },
): Promise<Installation> {
  const dataDir = resolve(configuration.data_dir);
  const log = createLogger({ name: options.name, level: configuration.log_level ?? options.logLevel });
  await mkdir(dataDir, { recursive: true });
  const masterKey = await loadMasterKey({ fromEnvironment: configuration.master_key, directory: dataDir });
  const adminToken = await loadAdminToken({ fromEnvironment: configuration.admin_token, directory: dataDir });
  const certificates = await ensureLocalCertificates({
    directory: join(dataDir, 'tls'),
    hostnames: [...new Set(['localhost', '127.0.0.1', '::1', configuration.bridge.public_host])],
    clock: systemClock,
    log,
  });
  const open = await openDatabase({ url: configuration.database_url, dataDir, log, applicationName: options.name });
  const outgoing = createGuardedFetch({ extraCa: certificates.caPem, connectionsPerOrigin: 8 });
  return {
    configuration,
    dataDir,
    log,
    open,
    secrets: createSecretBox(masterKey),
    adminToken,
    certificates,
    outgoing,
    signals: (program) =>
      createSignals({
        redisUrl: configuration.redis_url,
        databaseUrl: open.url,
        namespace: `${program}_queue`,
        log,
        lockMs: queueLockMs,
      }),
    close: async () => {
      await outgoing.close();
      await open.close();
    },
  };
}

/** Short, so that after a kill work goes on soon; what runs longer renews its lock. */
const queueLockMs = 10_000;

/** Starts the service of this installation. */
export async function startInstalledService(
  installation: Installation,
  listen: { host?: string | undefined; port?: number | undefined } = {},
): Promise<Service> {
  const { configuration, open, secrets, adminToken, log, outgoing } = installation;
  const { service } = configuration;
  return startService({
    settings: {
      host: listen.host ?? service.host,
      port: listen.port ?? service.port,
      publicUrl: service.public_url,
      bodyBytesMax: service.body_bytes_max,
      sweepMs: configuration.sweep_seconds * 1000,
    },
    database: open.database,
    signals: await installation.signals('service'),
    fetch: outgoing.fetch,
    secrets,
    adminToken,
    clock: systemClock,
    log: log.child({ program: 'service' }),
    registry: createRegistry(),
  });
}
