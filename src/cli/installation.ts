/**
 * An installation: what its programs use (data folder, database, secrets, certificates, outgoing connections). It is
 * opened and closed only here, and each of the two programs is started on it here.
 */
import { mkdir, mkdtemp, readFile, rmdir, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { BridgeRole } from '#bridge/bridge-deps.ts';
import { type Bridge, startBridge } from '#bridge/create-bridge.ts';
import type { BridgeSettings } from '#bridge/settings.ts';
import { mountConsole } from '#console/console-page.ts';
import { systemClock } from '#platform/clock.ts';
import { loadAdminToken, loadMasterKey } from '#platform/data-dir-secret.ts';
import { type OpenDatabase, openDatabase } from '#platform/database/open-database.ts';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';
import { createLocalStorage } from '#platform/file-storage/local-storage.ts';
import { createS3Storage } from '#platform/file-storage/s3-storage.ts';
import { checkStorage, type FileStorage } from '#platform/file-storage.ts';
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
  /** Opens the storage of files, and proves that it works. */
  storage(): Promise<FileStorage>;
  signals(program: 'service' | 'bridge'): Promise<Signals>;
  /** Closes everything, also the parts that a program has left open because it failed to start. */
  close(): Promise<void>;
}

/** Short, so that work continues soon after a kill. Work that takes longer renews its lock. */
const queueLockMs = 5_000;

/**
 * Opens everything. When one part fails, the parts that were opened before are closed. `signal` ends the attempts to
 * reach a database server that does not answer. Throws an AppError that says what to do.
 */
export async function openInstallation(
  configuration: Configuration,
  options: { name: string; logLevel: string; signal?: AbortSignal },
): Promise<Installation> {
  const dataDir = resolve(configuration.data_dir);
  const log = createLogger({ name: options.name, level: configuration.log_level ?? options.logLevel });
  await makeDataDir(dataDir);
  const masterKey = await loadMasterKey({ fromEnvironment: configuration.master_key, directory: dataDir });
  const adminToken = await loadAdminToken({ fromEnvironment: configuration.admin_token, directory: dataDir });
  const certificates = await ensureLocalCertificates({
    directory: join(dataDir, 'tls'),
    hostnames: [...new Set(['localhost', '127.0.0.1', '::1', configuration.bridge.public_host])],
    clock: systemClock,
    log,
  });
  await using opened = new AsyncDisposableStack();
  const open = await openDatabase({
    url: configuration.database_url,
    dataDir,
    log,
    applicationName: `${options.name} ${hostname()} ${process.pid}`,
    ...(options.signal && { signal: options.signal }),
  });
  opened.defer(() => open.close());
  const outgoing = createGuardedFetch({ extraCa: certificates.caPem, connectionsPerOrigin: 8 });
  opened.defer(() => outgoing.close());
  const closing = opened.move();
  return {
    configuration,
    dataDir,
    log,
    open,
    secrets: createSecretBox(masterKey),
    adminToken,
    certificates,
    outgoing,
    storage: async () => {
      const storage = await createStorage(configuration, dataDir);
      closing.defer(() => storage.close());
      await checkStorage(storage);
      return storage;
    },
    signals: async (program) => {
      const signals = await createSignals({
        redisUrl: configuration.redis_url,
        databaseUrl: open.url,
        namespace: `${program}_queue`,
        log,
        lockMs: queueLockMs,
      });
      // The program that uses them closes them with its own grace time, unless it failed to start.
      closing.defer(() => signals.close(0));
      return signals;
    },
    close: () => closing.disposeAsync(),
  };
}

/** Where this installation keeps its data and its queue, in words for people. */
export function storageOf({ open, configuration }: Installation): string {
  const database = open.kind === 'embedded' ? 'embedded PostgreSQL' : 'PostgreSQL server';
  return `${database}, queue on ${configuration.redis_url ? 'Redis' : 'PostgreSQL'}`;
}

async function createStorage({ service: { files } }: Configuration, dataDir: string): Promise<FileStorage> {
  if (files.store === 'local') return createLocalStorage(resolve(files.directory ?? join(dataDir, 'files')));
  const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = files;
  return createS3Storage(
    {
      bucket: files.bucket,
      region: files.region,
      prefix: files.prefix,
      endpoint: files.endpoint,
      pathStyle: files.path_style ?? files.endpoint !== undefined,
      credentials:
        accessKeyId === undefined || secretAccessKey === undefined ? undefined : { accessKeyId, secretAccessKey },
    },
    join(dataDir, 'spool'),
  );
}

/** Throws an AppError `invalid` for a folder that cannot be made or written. */
async function makeDataDir(dataDir: string): Promise<void> {
  const refuse = (what: string) => (cause: unknown) => {
    const message = `The data folder ${dataDir} cannot be ${what} (${errorText(cause)}). Name another with --data or DATA_DIR.`;
    throw new AppError('invalid', message, { cause });
  };
  await makeFolder(dataDir).catch(refuse('made'));
  // Tested by making something in it: a folder's permissions are not the only thing that can prevent writing.
  await mkdtemp(join(dataDir, '.writable-'))
    .then((probe) => rmdir(probe))
    .catch(refuse('written'));
}

/**
 * Does what `mkdir` with `recursive` does. That never ends where the system answers ENOENT although the parent folder
 * exists, as in /proc.
 */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    const isThere = (path: string) =>
      stat(path)
        .then(() => true)
        .catch(() => false);
    if (hasErrorCode(error, 'EEXIST') && (await stat(folder)).isDirectory()) return;
    if (!hasErrorCode(error, 'ENOENT') || (await isThere(dirname(folder)))) throw error;
    await makeFolder(dirname(folder));
    await makeFolder(folder);
  }
}

/** Starts the service; `listen` overrides the configuration. Throws as `startService` does. */
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
      corsOrigins: service.cors_origins,
      sweepMs: configuration.sweep_seconds * 1000,
      deliveryLogDays: service.delivery_log_days,
    },
    database: open.database,
    signals: await installation.signals('service'),
    fetch: outgoing.fetch,
    secrets,
    storage: await installation.storage(),
    adminToken,
    clock: systemClock,
    log: log.child({ program: 'service' }),
    registry: createRegistry(),
  });
}

/**
 * Starts the bridge with its console. Throws as `startBridge` does, and `invalid` for an unreadable certificate file.
 */
export async function startInstalledBridge(
  installation: Installation,
  settings: BridgeSettings,
  role: BridgeRole = 'all',
): Promise<Bridge> {
  const { configuration, open, outgoing, log, dataDir, secrets } = installation;
  return startBridge({
    settings,
    role,
    tls: await certificateFor(installation, settings),
    dataDir,
    sweepMs: configuration.sweep_seconds * 1000,
    database: open.database,
    signals: await installation.signals('bridge'),
    fetch: outgoing.fetch,
    secrets,
    clock: systemClock,
    log: log.child({ program: 'bridge' }),
    registry: createRegistry(),
    mountConsole: (application) => mountConsole(application, { settings, database: open.database, clock: systemClock }),
  });
}

/** The webhook endpoint's certificate. Throws an AppError `invalid` for a file that cannot be read. */
export async function certificateFor({ certificates }: Installation, { tls }: BridgeSettings) {
  if (!tls) return certificates;
  const read = (setting: string, file: string) =>
    readFile(file, 'utf8').catch((cause: unknown) => {
      throw new AppError('invalid', `The file ${file} (bridge.tls.${setting}) cannot be read.`, { cause });
    });
  return { certPem: await read('cert_file', tls.cert_file), keyPem: await read('key_file', tls.key_file) };
}
