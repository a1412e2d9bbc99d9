/**
 * The real programs for tests: a service and a bridge on a database of the test's own, on free ports, closed after the
 * test file. Requests go over HTTP, as everybody's do.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { BridgeRole } from '#bridge/bridge-deps.ts';
import { type Bridge, startBridge } from '#bridge/create-bridge.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { createLocalStorage } from '#platform/file-storage/local-storage.ts';
import type { FileStorage } from '#platform/file-storage.ts';
import { createGuardedFetch, type GuardedFetch, type GuardedRequest } from '#platform/guarded-fetch.ts';
import { ensureLocalCertificates, type LocalCertificates } from '#platform/local-ca.ts';
import { createLogger, type Logger, silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSignals, type Signals } from '#platform/queue.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import { type Service, startService } from '#service/create-service.ts';
import { answerCheckOfService } from './documented-answers.ts';
import { createTestDatabase, type TestDatabase } from './test-database.ts';

const closers: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closers.reverse()) await close();
});

/** Closes something after the file, before everything that was registered earlier. */
export function closeAfterFile(close: () => Promise<unknown>): void {
  closers.push(close);
}

/** A scratch folder, removed after the file. */
export async function scratchFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sourcing-test-'));
  closeAfterFile(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

let certificates: Promise<LocalCertificates> | undefined;

/** Certificates for localhost from an authority that the test programs trust. */
export function testCertificates(): Promise<LocalCertificates> {
  certificates ??= scratchFolder().then((directory) =>
    ensureLocalCertificates({
      directory,
      hostnames: ['localhost', '127.0.0.1', '::1'],
      clock: systemClock,
      log: silentLogger,
    }),
  );
  return certificates;
}

/** Outgoing connections that trust the test certificates. */
export async function testOutgoing(): Promise<ReturnType<typeof createGuardedFetch>> {
  const outgoing = createGuardedFetch({ extraCa: (await testCertificates()).caPem });
  closeAfterFile(() => outgoing.close());
  return outgoing;
}

export interface HttpAnswer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any;
}

/** The services whose answers are held against the OpenAPI documents. */
const documented = new Set<string>();

/**
 * One request; the body is sent as JSON unless it is text or bytes already, and the answer's is read as JSON if it is.
 * Fails when a test service answers what its OpenAPI document does not say.
 */
export async function request(
  method: string,
  url: string,
  options: { key?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<HttpAnswer> {
  const raw = typeof options.body === 'string' || options.body instanceof Uint8Array;
  const answer = await fetch(url, {
    method,
    headers: {
      ...(options.key === undefined ? {} : { authorization: `Bearer ${options.key}` }),
      ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(options.body === undefined ? {} : { body: raw ? (options.body as string) : JSON.stringify(options.body) }),
    redirect: 'manual',
  });
  const text = await answer.text();
  const isJson = answer.headers.get('content-type')?.includes('json') === true;
  const seen = {
    status: answer.status,
    headers: answer.headers,
    body: isJson && text !== '' ? JSON.parse(text) : text,
  };
  if (documented.has(new URL(url).origin)) answerCheckOfService().check(method, url, seen);
  return seen;
}

export interface TestOrganisation {
  readonly id: string;
  /** An API key with all scopes. */
  readonly key: string;
  /** A call with that key. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<HttpAnswer>;
}

export interface TestService {
  readonly url: string;
  readonly service: Service;
  readonly db: TestDatabase;
  readonly registry: Registry;
  readonly adminToken: string;
  operator(method: string, path: string, body?: unknown): Promise<HttpAnswer>;
  /** A new organisation that may send webhooks to localhost; its rate limits are off. */
  organisation(): Promise<TestOrganisation>;
}

interface StartOptions {
  clock?: Clock;
  db?: TestDatabase;
  random?: () => number;
  sweepMs?: number;
  log?: Logger;
  bodyBytesMax?: number;
  corsOrigins?: readonly string[];
  /** Instead of `testOutgoing`. */
  fetch?: GuardedFetch;
  /** Instead of a folder of its own. */
  storage?: FileStorage;
  /** Which signals reach the queue; not given: all. */
  lets?: (lane: string) => boolean;
}

/** Starts a service; `sweepMs` is long, so that a test that relies on a signal fails when there is none. */
export async function startTestService(options: StartOptions = {}): Promise<TestService> {
  const db = options.db ?? (await createTestDatabase());
  const queue = await createSignals({ databaseUrl: db.url, namespace: 'service_queue', log: silentLogger });
  const { lets = () => true } = options;
  const signals: Signals = {
    ...queue,
    signal: async (lane, keys) => !lets(lane) || (await queue.signal(lane, keys)),
  };
  const registry = new Registry();
  const adminToken = 'operator-token-of-the-tests';
  const service = await startService({
    settings: {
      host: '127.0.0.1',
      port: 0,
      bodyBytesMax: options.bodyBytesMax ?? 10_485_760,
      sweepMs: options.sweepMs ?? 600_000,
      deliveryLogDays: 30,
      ...(options.corsOrigins && { corsOrigins: options.corsOrigins }),
    },
    database: db.database,
    signals,
    fetch: options.fetch ?? (await testOutgoing()).fetch,
    secrets: createSecretBox(Buffer.alloc(32, 7)),
    storage: options.storage ?? createLocalStorage(join(await scratchFolder(), 'files')),
    adminToken,
    clock: options.clock ?? systemClock,
    log: options.log ?? silentLogger,
    registry,
    ...(options.random ? { random: options.random } : {}),
  });
  documented.add(service.url);
  closeAfterFile(() => service.close(1_000));
  const operator = (method: string, path: string, body?: unknown) =>
    request(method, service.url + path, { key: adminToken, ...(body === undefined ? {} : { body }) });
  return {
    url: service.url,
    service,
    db,
    registry,
    adminToken,
    operator,
    organisation: () => createOrganisation(service.url, adminToken),
  };
}

export interface RecordedService extends TestService {
  /** What it has logged, from `trace` on. */
  readonly lines: string[];
  /** What it has sent to others. */
  readonly sent: GuardedRequest[];
}

/** Starts a service that keeps what it logs and what it sends. */
export async function startRecordedService(
  options: Omit<StartOptions, 'log' | 'fetch'> = {},
): Promise<RecordedService> {
  const lines: string[] = [];
  const sent: GuardedRequest[] = [];
  const outgoing = await testOutgoing();
  const service = await startTestService({
    ...options,
    log: createLogger({ level: 'trace', name: 'test', destination: { write: (line) => void lines.push(line) } }),
    fetch: (asked) => {
      sent.push(asked);
      return outgoing.fetch(asked);
    },
  });
  return { ...service, lines, sent };
}

/** Creates an organisation in a service that runs: it may send webhooks to localhost, and its rate limits are off. */
export async function createOrganisation(baseUrl: string, adminToken: string): Promise<TestOrganisation> {
  const operator = (method: string, path: string, body: unknown) =>
    request(method, `${baseUrl}/admin/organisations${path}`, { key: adminToken, body });
  const { id } = (await operator('POST', '', { name: 'Test' })).body;
  await operator('PUT', `/${id}/webhook-domains`, { domains: ['localhost'] });
  await operator('PUT', `/${id}/allowed-networks`, { cidrs: ['127.0.0.0/8', '::1/128'] });
  await operator('PUT', `/${id}/limits`, { enabled: false });
  const scopes = ['manage', 'jobs', 'feeds', 'webhooks', 'desk'];
  const { key } = (await operator('POST', `/${id}/api-keys`, { name: 'test', scopes })).body;
  return {
    id,
    key,
    call: (method, path, body, headers) =>
      request(method, baseUrl + path, {
        key,
        ...(body === undefined ? {} : { body }),
        ...(headers ? { headers } : {}),
      }),
  };
}

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
  const { certPem, keyPem } = await testCertificates();
  const registry = new Registry();
  const dataDir = await scratchFolder();
  const bridge = await startBridge({
    settings: bridgeSettings.parse({ port: 0, console_port: 0, ...settings }),
    tls: { certPem, keyPem },
    dataDir,
    sweepMs: options.sweepMs ?? 600_000,
    database: db.database,
    signals: await createSignals({ databaseUrl: db.url, namespace: 'bridge_queue', log: silentLogger }),
    fetch: (await testOutgoing()).fetch,
    secrets: options.secrets ?? createSecretBox(Buffer.alloc(32, 7)),
    role: options.role ?? 'all',
    clock: options.clock ?? systemClock,
    log: silentLogger,
    registry,
  });
  closeAfterFile(() => bridge.close(1_000));
  return { bridge, db, registry, dataDir };
}

/** Asks until `look` gives something; fails with `what` after ten seconds. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const until = performance.now() + 10_000;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > until) throw new Error(`It did not happen: ${what}`);
    await systemClock.sleep(10);
  }
}
