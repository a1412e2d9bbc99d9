/**
 * An installation: what its programs use (data folder, database, secrets, certificates, outgoing connections). It is
 * opened and closed only here, and each of the two programs is started on it here. The programs and what only they use
 * are loaded when they are started: a command beside them begins in half of the time.
 */
import { chmod, mkdir, mkdtemp, rmdir, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import type { Bridge } from '#bridge/create-bridge.ts';
import type { BridgeRole } from '#bridge/settings/bridge-deps.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { ConsoleDeps } from '#console/api/console-call.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { loadAdminToken, loadMasterKey, loadPreviousKeys } from '#platform/data-dir-secret.ts';
import type { Database } from '#platform/database/database.ts';
import { createDatabaseClock } from '#platform/database/database-clock.ts';
import { type OpenDatabase, openDatabase } from '#platform/database/open-database.ts';
import { readFileIfAny, replaceFile } from '#platform/durable-file.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import type { ConnectionLimits } from '#platform/http/connections.ts';
import { ensureLocalCertificates, type LocalCertificates } from '#platform/local-ca.ts';
import { createLogger, type Logger } from '#platform/log.ts';
import { createRegistry } from '#platform/metrics.ts';
import { addressInNetworks, parseCidrs } from '#platform/network-guard.ts';
import type { Signals } from '#platform/queue.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import type { Service } from '#service/create-service.ts';
import { checkStorage, type FileStorage } from '#service/files/storage/file-storage.ts';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import type { MisbehaveOptions } from '#service/misbehave/misbehave.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import type { Configuration } from './configuration.ts';
import { type CertificateFiles, watchCertificate } from './read-certificate.ts';
import { watchDataFolder } from './watch-data-folder.ts';

export interface Installation {
  readonly configuration: Configuration;
  readonly dataDir: string;
  readonly log: Logger;
  readonly open: OpenDatabase;
  /** The database's time: it decides what is due. */
  readonly clock: Clock;
  readonly secrets: SecretBox;
  /** Of the local authority; undefined with `bridge.tls`: then no authority is made, and no process holds its key. */
  readonly certificates: LocalCertificates | undefined;
  readonly outgoing: ReturnType<typeof createGuardedFetch>;
  /** Aborts when the data folder is deleted or moved; its reason is an AppError that says so. The program must stop. */
  readonly gone: AbortSignal;
  /** Aborts when the installation is closed. */
  readonly closed: AbortSignal;
  /** Opens the storage of files, and proves that it works. */
  storage(): Promise<FileStorage>;
  /** Of the settings, or of the data folder: only the service, and what acts as its operator, asks for it. */
  adminToken(): Promise<string>;
  signals(program: 'service' | 'bridge'): Promise<Signals>;
  /** Opens the connections over which people at the console read. */
  reading(): Promise<Database>;
  /** Closes everything, also the parts that a program has left open because it failed to start. */
  close(): Promise<void>;
}

/**
 * Opens everything. When one part fails, the parts that were opened before are closed. `signal` ends the attempts to
 * reach a database server that does not answer. With `existing` no embedded database is made: a command beside a program
 * would otherwise work on an empty one when its data folder is wrong or was deleted. Throws an AppError that says what to
 * do.
 */
export async function openInstallation(
  configuration: Configuration,
  options: { name: string; logLevel: string; signal?: AbortSignal; existing?: boolean },
): Promise<Installation> {
  await using opened = new AsyncDisposableStack();
  // Before anything is written: by this process, by its connectors, or by the embedded database that it starts.
  process.umask(Number.parseInt(configuration.umask, 8));
  const dataDir = resolve(configuration.data_dir);
  const log = createLogger({ name: options.name, level: configuration.log_level ?? options.logLevel });
  if (options.existing && configuration.database_url === undefined) await requireDatabaseIn(dataDir);
  await makeDataDir(dataDir);
  const masterKey = await loadMasterKey({ fromEnvironment: configuration.master_key, directory: dataDir });
  const previousKeys = await loadPreviousKeys({ configured: configuration.previous_keys, directory: dataDir });
  const hostnames = endpointNames(configuration);
  const certificates = configuration.bridge.tls
    ? undefined
    : await ensureLocalCertificates({ directory: join(dataDir, 'tls'), hostnames, clock: systemClock, log });
  if (certificates && configuration.bridge.ca_file !== undefined)
    await publishAuthority(certificates.caPem, configuration.bridge.ca_file);
  const authority = certificates?.caPem ?? (await publishedAuthority(configuration));
  const open = await openDatabase({
    url: configuration.database_url,
    dataDir,
    log,
    applicationName: `${options.name} ${hostname()} ${process.pid}`,
    ...(options.signal && { signal: options.signal }),
  });
  opened.defer(() => open.close());
  const clock = await createDatabaseClock(open.database);
  opened.defer(() => clock.close());
  const watch = await watchDataFolder(dataDir);
  opened.defer(() => watch.close());
  const closed = new AbortController();
  opened.defer(() => closed.abort());
  const outgoing = createGuardedFetch({
    ...(authority !== undefined && { extraCa: authority, extraCaHosts: hostnames }),
    connectionsPerOrigin: 8,
  });
  opened.defer(() => outgoing.close());
  const closing = opened.move();
  return {
    configuration,
    dataDir,
    log,
    open,
    clock,
    secrets: createSecretBox(masterKey, previousKeys),
    adminToken: () => loadAdminToken({ fromEnvironment: configuration.admin_token, directory: dataDir }),
    certificates,
    outgoing,
    gone: watch.gone,
    closed: closed.signal,
    storage: async () => {
      const storage = await createStorage(configuration, dataDir);
      closing.defer(() => storage.close());
      await checkStorage(storage);
      return storage;
    },
    signals: async (program) => {
      const { createSignals } = await import('#platform/queue.ts');
      const signals = await createSignals({
        redisUrl: configuration.redis_url,
        database: open.database,
        databaseUrl: open.url,
        namespace: `${program}_queue`,
        log,
      });
      // The program that uses them closes them with its own grace time, unless it failed to start.
      closing.defer(() => signals.close(0));
      return signals;
    },
    reading: async () => {
      const { openReading } = await import('#console/reading.ts');
      const reading = openReading({ url: open.url, log, applicationName: `console ${hostname()} ${process.pid}` });
      closing.defer(() => reading.close());
      return reading;
    },
    close: () => closing.disposeAsync(),
  };
}

/** The names that the local authority's certificate is for. */
export function endpointNames({ bridge }: Configuration): string[] {
  return [...new Set(['localhost', '127.0.0.1', '::1', bridge.public_host.toLowerCase()])];
}

/** Writes the authority's certificate for other users to read. Throws an AppError `invalid` that names the setting. */
export async function publishAuthority(caPem: string, file: string): Promise<void> {
  try {
    if ((await readFileIfAny(file)) === caPem) return;
    await replaceFile(file, caPem, 0o644);
    await chmod(file, 0o644);
  } catch (cause) {
    throw new AppError('invalid', `The file ${file} (bridge.ca_file) cannot be written: ${errorText(cause)}.`, {
      cause,
    });
  }
}

/**
 * The certificate of the authority that `certificate` has used; undefined before, and for a certificate of another one.
 * Throws an AppError `invalid` that names the setting.
 */
async function publishedAuthority({ bridge: { ca_file: file } }: Configuration): Promise<string | undefined> {
  if (file === undefined) return undefined;
  try {
    return await readFileIfAny(file);
  } catch (cause) {
    throw new AppError('invalid', `The file ${file} (bridge.ca_file) cannot be read: ${errorText(cause)}.`, { cause });
  }
}

/** Where this installation keeps its data and its queue, in words for people. */
export function storageOf({ open, configuration }: Installation): string {
  const database = open.kind === 'embedded' ? 'embedded PostgreSQL' : 'PostgreSQL server';
  return `${database}, wake-ups over ${configuration.redis_url ? 'Redis' : 'PostgreSQL'}`;
}

async function createStorage({ service: { files } }: Configuration, dataDir: string): Promise<FileStorage> {
  if (files.store === 'local') return createLocalStorage(resolve(files.directory ?? join(dataDir, 'files')));
  const { createS3Storage } = await import('#service/files/storage/s3-storage.ts');
  const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = files;
  return createS3Storage(
    {
      bucket: files.bucket,
      region: files.region,
      endpoint: files.endpoint,
      credentials:
        accessKeyId === undefined || secretAccessKey === undefined ? undefined : { accessKeyId, secretAccessKey },
    },
    join(dataDir, 'spool'),
  );
}

/** Throws an AppError `invalid` when the folder holds no embedded database. */
async function requireDatabaseIn(dataDir: string): Promise<void> {
  if (await stat(join(dataDir, 'postgres')).catch(() => undefined)) return;
  throw new AppError(
    'invalid',
    `There is no database in the data folder ${dataDir}, and this command makes none. Name the folder of the running ` +
      'program with --data or DATA_DIR, or start the program first.',
  );
}

/** Throws an AppError `invalid` for a folder that cannot be made or written. */
async function makeDataDir(dataDir: string): Promise<void> {
  const refuse = (what: string) => (cause: unknown) => {
    const message = `The data folder ${dataDir} cannot be ${what} (${errorText(cause)}). Name another with --data or DATA_DIR.`;
    throw new AppError('invalid', message, { cause });
  };
  await mkdir(dataDir, { recursive: true }).catch(refuse('made'));
  // Tested by making something in it: a folder's permissions are not the only thing that can prevent writing.
  await mkdtemp(join(dataDir, '.writable-'))
    .then((probe) => rmdir(probe))
    .catch(refuse('written'));
}

/**
 * Starts the service; `options` overrides the configuration, and with `misbehave` it misbehaves. Throws as
 * `startService` does.
 */
export async function startInstalledService(
  installation: Installation,
  options: { host?: string | undefined; port?: number | undefined; profile?: ProfileName | undefined } = {},
  misbehave?: MisbehaveOptions,
): Promise<Service> {
  const { startService } = await import('#service/create-service.ts');
  const { configuration, open, clock, secrets, log, outgoing } = installation;
  const { service } = configuration;
  return startService({
    settings: {
      host: options.host ?? service.host,
      port: options.port ?? service.port,
      profile: options.profile,
      publicUrl: service.public_url,
      bodyBytesMax: service.body_bytes_max,
      fileBytesMax: service.file_bytes_max,
      corsOrigins: service.cors_origins,
      tls: service.tls && (await watched(service.tls, 'service.tls', installation)),
      connections: connectionLimitsOf(configuration),
      sweepMs: configuration.sweep_seconds * 1000,
      retention: {
        submissionDays: service.submission_days,
        deliveryLogDays: service.delivery_log_days,
        eventDays: service.event_days,
        fileDays: service.file_days,
      },
      actionDays: configuration.action_days,
    },
    database: open.database,
    signals: await installation.signals('service'),
    fetch: outgoing.fetch,
    secrets,
    storage: await installation.storage(),
    adminToken: await installation.adminToken(),
    clock,
    log: log.child({ program: 'service' }),
    registry: createRegistry(),
    misbehave,
  });
}

/**
 * Starts the bridge with its console. Throws as `startBridge` and `watchCertificate` do.
 */
export async function startInstalledBridge(
  installation: Installation,
  settings: BridgeSettings,
  role: BridgeRole = 'all',
  { doctor }: { doctor?: (clientOf: ConsoleDeps['clientOf']) => NonNullable<ConsoleDeps['doctor']> } = {},
): Promise<Bridge> {
  const { startBridge } = await import('#bridge/create-bridge.ts');
  const { createConsoleAccess } = await import('#console/access/console-access.ts');
  const { configuration, open, clock, outgoing, log, dataDir, secrets } = installation;
  const registry = createRegistry();
  const { database } = open;
  const access = createConsoleAccess({ settings, database, secrets, clock, log, registry });
  return startBridge({
    settings,
    role,
    tls: await certificateFor(installation, settings, role === 'all' || role === 'receive'),
    consoleTls: settings.console_tls && (await watched(settings.console_tls, 'bridge.console_tls', installation)),
    dataDir,
    sweepMs: configuration.sweep_seconds * 1000,
    actionDays: configuration.action_days,
    database,
    signals: await installation.signals('bridge'),
    fetch: outgoing.fetch,
    secrets,
    clock,
    log: log.child({ program: 'bridge' }),
    registry,
    connections: connectionLimitsOf(configuration),
    guardMetrics: (request) => access.guardMetrics(request),
    mountConsole: async (application, clientOf, certificates) => {
      await access.mount(application);
      if (!settings.console_pages) {
        const { mountStatus } = await import('#console/mount-status.ts');
        mountStatus(application, { settings, database, clock, certificates });
        return;
      }
      const { mountConsole } = await import('#console/mount-console.ts');
      mountConsole(application, {
        settings,
        fromEnvironment: configuration.fromEnvironment,
        role,
        database,
        reading: await installation.reading(),
        clock,
        log,
        dataDir,
        fetch: outgoing.fetch,
        secrets,
        clientOf,
        certificates,
        doctor: doctor?.(clientOf),
      });
    },
  });
}

/**
 * The webhook endpoint's certificate, with its key. Only a process that receives reads the key of `bridge.tls`: the others
 * need not have that file. Throws as `watchCertificate` does.
 */
export async function certificateFor(installation: Installation, { tls }: BridgeSettings, receives: boolean) {
  if (!tls) return installation.certificates;
  return receives ? watched(tls, 'bridge.tls', installation) : undefined;
}

/** A certificate that is watched until the installation is closed. */
function watched(files: CertificateFiles, setting: string, { log, closed }: Installation) {
  return watchCertificate(files, setting, { clock: systemClock, log, signal: closed });
}

function connectionLimitsOf({ http }: Configuration): ConnectionLimits {
  const proxies = parseCidrs(http.trusted_proxies);
  return {
    inAll: http.connections_max,
    perAddress: http.connections_per_address_max,
    clientMs: http.client_seconds * 1000,
    isTrustedProxy: (address) => addressInNetworks(address, proxies),
  };
}
