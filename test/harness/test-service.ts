/** The real service for tests, on its own database and a free port, closed after the test file. */
import { join } from 'node:path';
import { type Clock, systemClock } from '#platform/clock.ts';
import type { GuardedRequest } from '#platform/guarded-fetch/guarded-request.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import type { ConnectionLimits } from '#platform/http/connections.ts';
import { createLogger, type Logger, silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSignals, type Signals } from '#platform/queue.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { type Service, startService } from '#service/create-service.ts';
import type { FileStorage } from '#service/files/storage/file-storage.ts';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import { closeAtEnd } from './close-at-end.ts';
import { answerCheckOfService } from './documented-answers.ts';
import { checkAnswersOf, type HttpAnswer, request } from './request.ts';
import { scratchFolder } from './scratch-folder.ts';
import { testOutgoing } from './test-certificates.ts';
import { createTestDatabase, type TestDatabase } from './test-database.ts';
import { createOrganisation, type TestOrganisation } from './test-organisation.ts';

export interface TestService {
  readonly url: string;
  readonly service: Service;
  readonly db: TestDatabase;
  readonly registry: Registry;
  readonly adminToken: string;
  operator(method: string, path: string, body?: unknown): Promise<HttpAnswer>;
  /** Creates an organisation that may send webhooks to localhost, without rate limits. */
  organisation(): Promise<TestOrganisation>;
}

interface StartOptions {
  clock?: Clock;
  db?: TestDatabase;
  random?: () => number;
  sweepMs?: number;
  log?: Logger;
  bodyBytesMax?: number;
  largeBodyBytesPerMinute?: number;
  fileBytesMax?: number;
  /** How long events and files are kept, in days; default: for ever. */
  eventDays?: number;
  fileDays?: number;
  wrongTokensPerSecond?: number;
  corsOrigins?: readonly string[];
  connections?: ConnectionLimits;
  /** How it speaks; default: `spec`. */
  profile?: ProfileName;
  /** Default: `testOutgoing`. */
  fetch?: GuardedFetch;
  /** Default: a folder for this service. */
  storage?: FileStorage;
  /** Whether the signals of a lane reach the queue; default: all do. */
  isSignalled?: (lane: string) => boolean;
}

/** Starts a service; `sweepMs` is long, so that a test that relies on a signal fails when there is none. */
export async function startTestService(options: StartOptions = {}): Promise<TestService> {
  const db = options.db ?? (await createTestDatabase());
  const queue = await createSignals({
    database: db.database,
    databaseUrl: db.url,
    namespace: 'service_queue',
    log: silentLogger,
  });
  const { isSignalled = () => true } = options;
  const signals: Signals = {
    ...queue,
    signal: async (lane, keys) => {
      if (isSignalled(lane)) await queue.signal(lane, keys);
    },
  };
  const registry = new Registry();
  const adminToken = 'operator-token-of-the-tests-0123456789';
  const service = await startService({
    settings: {
      host: '127.0.0.1',
      port: 0,
      bodyBytesMax: options.bodyBytesMax ?? 10_485_760,
      largeBodyBytesPerMinute: options.largeBodyBytesPerMinute,
      fileBytesMax: options.fileBytesMax ?? 1_073_741_824,
      wrongTokensPerSecond: options.wrongTokensPerSecond ?? 10_000,
      sweepMs: options.sweepMs ?? 600_000,
      retention: {
        submissionDays: 90,
        deliveryLogDays: 30,
        eventDays: options.eventDays ?? null,
        fileDays: options.fileDays ?? null,
      },
      actionDays: 730,
      ...(options.corsOrigins && { corsOrigins: options.corsOrigins }),
      ...(options.connections && { connections: options.connections }),
      profile: options.profile,
    },
    database: db.database,
    signals,
    fetch: options.fetch ?? testOutgoing().fetch,
    secrets: createSecretBox(Buffer.alloc(32, 7)),
    storage: options.storage ?? createLocalStorage(join(await scratchFolder(), 'files')),
    adminToken,
    clock: options.clock ?? systemClock,
    log: options.log ?? silentLogger,
    registry,
    ...(options.random ? { random: options.random } : {}),
  });
  checkAnswersOf(service.url, (...seen) => void answerCheckOfService(options.profile).check(...seen));
  closeAtEnd(() => service.close(1_000));
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
  /** The lines of its log, from `trace` on. */
  readonly lines: string[];
  /** The requests that it has sent to other servers. */
  readonly sent: GuardedRequest[];
}

/** Starts a service whose log lines and outgoing requests are kept. */
export async function startRecordedService(
  options: Omit<StartOptions, 'log' | 'fetch'> = {},
): Promise<RecordedService> {
  const lines: string[] = [];
  const sent: GuardedRequest[] = [];
  const outgoing = testOutgoing();
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
