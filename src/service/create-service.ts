/**
 * Starts the Sourcing Service: an HTTP server, and workers for five lanes. A change is committed in SQL before its
 * request is answered. Signals wake the workers, and a sweep finds the work that a crash, a lost signal or a flushed
 * queue has left.
 */
import { fileURLToPath } from 'node:url';
import { createActionUpkeep } from '#platform/audit-log.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { migrate } from '#platform/database/migrations.ts';
import { prepared } from '#platform/database/sql.ts';
import { AppError, type ErrorCode } from '#platform/errors.ts';
import { createFairSlots, type FairSlots } from '#platform/fair-slots.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { startHeartbeat } from '#platform/heartbeat.ts';
import { createApplication } from '#platform/http/application.ts';
import { createBodyThread } from '#platform/http/body-thread.ts';
import type { ConnectionLimits } from '#platform/http/connections.ts';
import { type Around, mountEndpoints } from '#platform/http/endpoint.ts';
import { createLargeBodies } from '#platform/http/large-bodies.ts';
import { type HttpServer, listen } from '#platform/http/server.ts';
import type { ServerCertificate } from '#platform/http/server-certificate.ts';
import type { Logger } from '#platform/log.ts';
import type { Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import { checkSealedColumns } from '#platform/sealed-columns.ts';
import type { SecretBox } from '#platform/secrets.ts';
import { createSweep, type Sweep } from '#platform/sweep.ts';
import { operatorApi, organisationApi } from './api.ts';
import { type AccessRecord, createAccessRecord } from './audit/access-record.ts';
import { auditSubjectOf, recordCall } from './audit/record-call.ts';
import {
  type Caller,
  createKeyAuthentication,
  createOperatorAuthentication,
  type KeyIdentity,
  type Operator,
  type OperatorIdentity,
  refusedTokenOrigin,
} from './caller.ts';
import { createRoundTimers } from './events/run-timers.ts';
import { serveDownloads } from './files/serve-downloads.ts';
import { serveUploads } from './files/serve-uploads.ts';
import type { FileStorage } from './files/storage/file-storage.ts';
import { createUploadSweep } from './files/sweep-uploads.ts';
import { findKeptAnswer, forgetOldAnswers, idempotentRequest, withIdempotency } from './idempotency.ts';
import { createJobWorker, type JobLane, organisationsWithJobs } from './jobs/run-jobs.ts';
import { createKeyUses } from './key-uses.ts';
import { createRequestCounter, forgetOldRequests } from './limits/count-request.ts';
import { type MisbehaveOptions, misbehave } from './misbehave/misbehave.ts';
import { serveDocuments } from './openapi/serve-documents.ts';
import type { Profile, ProfileName } from './profile/profile.ts';
import { profileOf } from './profile/profile-of.ts';
import { createRetention, type RetentionDays } from './retention/delete-old.ts';
import { applySupplierChanges, organisationsWithSubmissions } from './suppliers/apply-supplier-changes.ts';
import { createTokenGuard, wrongTokensDefault } from './token-guard.ts';
import { createUnitOfWork, type RunUnitOfWork, type ServiceLane, type UnitOfWork } from './unit-of-work.ts';
import { type AccessTokens, createAccessTokens } from './webhooks/access-tokens.ts';
import { createDeliverer, deliverySlots } from './webhooks/deliver-notifications.ts';
import { serviceSealedColumns } from './webhooks/sealed-webhook-columns.ts';

/** In a minute, and at once. */
const largeBodyBytesDefault = 104_857_600;

export interface ServiceSettings {
  host: string;
  /** 0 takes a free port. */
  port: number;
  /** The base of absolute links. Default: built from the request's Host header. */
  publicUrl?: string | undefined;
  bodyBytesMax: number;
  /** What one organisation may send in a minute in bodies of more than 64 KB; default: 100 MB. */
  largeBodyBytesPerMinute?: number | undefined;
  /** What the files of an organisation may have together, unless the operator says otherwise. */
  fileBytesMax: number;
  /** How many wrong tokens of one address are checked in a second; default: 60. */
  wrongTokensPerSecond?: number | undefined;
  /** The origins whose pages may call the service from a browser; default: none. */
  corsOrigins?: readonly string[];
  /** How the service speaks under `/api`; default: `spec`. */
  profile?: ProfileName | undefined;
  /** Set: the service speaks HTTPS. */
  tls?: ServerCertificate | undefined;
  /** Default: `connectionLimitsDefault`. */
  connections?: ConnectionLimits;
  sweepMs: number;
  /** How long things are kept where the operator has set nothing else for the organisation. */
  retention: RetentionDays;
  /** How long the audit log is kept, in days. */
  actionDays: number;
}

export interface ServiceDeps {
  settings: ServiceSettings;
  database: Database;
  signals: Signals;
  fetch: GuardedFetch;
  secrets: SecretBox;
  /** The caller closes it: `Service.close` does not. */
  storage: FileStorage;
  adminToken: string;
  clock: Clock;
  log: Logger;
  registry: Registry;
  /** 0 to 1, for the jitter of retries. Default: `Math.random`. */
  random?: () => number;
  /** For tests of clients: how its feeds and webhooks misbehave. */
  misbehave?: MisbehaveOptions | undefined;
}

export interface Service {
  readonly url: string;
  /** Runs the sweep now; it also runs every `sweepMs`. */
  sweep(): Promise<void>;
  /** True when no submission, job or notification is pending. */
  isIdle(): Promise<boolean>;
  /**
   * Stops listening, then the sweep and the workers. Open requests, and then running work, get up to `graceMs` each.
   */
  close(graceMs: number): Promise<void>;
}

/**
 * What pages of other origins may call: what is called with an organisation's key, the links that carry their own
 * permission, and the descriptions. Never `/admin`: the operator's token does not belong into a page.
 */
const corsPaths = ['/api/', '/desk/', '/downloads/', '/uploads/', '/openapi'];

/**
 * Calls that are worked on at once, and those of one organisation: each uses one of the ten connections to the database.
 * Commands for one event wait for each other, and must not keep the calls of others from theirs.
 */
const callSlots = { slots: 8, slotsEach: 4 };
/** As long as a query waits for a connection. */
const slotWaitMs = 10_000;

/** What a call is told that was understood and not done. The others were not understood, or are repeated. */
const refusals: ReadonlySet<string> = new Set<ErrorCode>(['invalid', 'forbidden', 'not-found', 'conflict']);

/** Brings the service's tables up to date. Safe with several processes starting at once. */
export async function migrateService(database: Database): Promise<void> {
  await migrate(database, { schema: 'service', directory: fileURLToPath(new URL('migrations', import.meta.url)) });
}

/**
 * Migrates the database, listens, and starts the workers. Throws when the database cannot be migrated or the port is
 * taken.
 */
export async function startService(deps: ServiceDeps): Promise<Service> {
  const { database, signals, settings, log } = deps;
  const profile = profileOf(settings.profile);
  await migrateService(database);
  await checkSealedColumns(database, deps.secrets, serviceSealedColumns);
  const runUnitOfWork = createUnitOfWork({ database, signals });
  const accessTokens = createAccessTokens(deps);
  const keyUses = createKeyUses(deps);
  const accessRecord = createAccessRecord(deps);
  const tokenGuard = createTokenGuard({
    ...deps,
    metric: 'service_tokens_refused_total',
    wrongPerSecond: settings.wrongTokensPerSecond ?? wrongTokensDefault,
    onRefused: (by, address) =>
      accessRecord.refused(refusedTokenOrigin(by, address), { what: 'api.login', object: null }),
  });
  const calls = createFairSlots(callSlots);
  const bodyThread = createBodyThread(new URL(import.meta.resolve('#service/check-bodies.ts')), profile.name);
  const bytesPerMinute = settings.largeBodyBytesPerMinute ?? largeBodyBytesDefault;
  const bodies = createLargeBodies({ ...deps, thread: bodyThread, bytesPerMinute });
  await using opened = new AsyncDisposableStack();
  const heartbeat = await startHeartbeat({ database, schema: 'service', log });
  opened.defer(() => heartbeat.close());
  const application = createApplication({
    log,
    registry: deps.registry,
    readiness: { database: () => heartbeat.check() },
    cors: { origins: settings.corsOrigins ?? [], paths: corsPaths },
    errorForm: (error, path) => (path.startsWith('/api/') ? profile.errors?.answer(error) : undefined),
    trustsProxy: settings.connections?.isTrustedProxy,
  });
  const unlessSilent = <T>(work: Promise<T>) => heartbeat.unlessSilent(work);
  mountEndpoints<OperatorIdentity, Operator>(application.express, operatorApi({ ...deps, ...settings, profile }), {
    giveUp: unlessSilent,
    authenticate: createOperatorAuthentication({ ...deps, tokenGuard, accessRecord }),
    around: inUnitOfWork({ ...deps, calls, accessRecord }, runUnitOfWork),
    bodyBytesMax: settings.bodyBytesMax,
    large: { bodies, senderOf: () => ({ name: 'the operator', isLimited: false }) },
    publicUrl: settings.publicUrl,
  });
  const ofKeys = {
    giveUp: unlessSilent,
    authenticate: createKeyAuthentication({ ...deps, keyUses, tokenGuard, accessRecord }),
    count: createRequestCounter({ ...deps, profile }),
    publicUrl: settings.publicUrl,
  };
  const misbehaving =
    deps.misbehave &&
    misbehave(application.express, {
      ...deps,
      ...ofKeys,
      ...deps.misbehave,
    });
  mountEndpoints<KeyIdentity, Caller>(
    application.express,
    organisationApi({ ...deps, ...settings, profile, accessTokens }),
    {
      ...ofKeys,
      around: inUnitOfWork({ ...deps, calls, accessRecord }, runUnitOfWork),
      bodyBytesMax: settings.bodyBytesMax,
      large: {
        bodies,
        senderOf: ({ organisationId, limits }) => ({ name: organisationId, isLimited: limits.enabled !== false }),
      },
    },
  );
  serveDownloads(application.express, { ...deps, unlessSilent });
  serveUploads(application.express, { ...deps, ...settings, runUnitOfWork, unlessSilent });
  serveDocuments(application.express, { ...settings, profile });
  application.finish();
  const server: HttpServer = await listen(application.express, {
    ...settings,
    metrics: { registry: deps.registry, port: 'service' },
  });
  // The workers start last: if the port is taken, nothing is left running.
  const sweep = startWorkers({ ...deps, accessTokens, profile }, runUnitOfWork, misbehaving?.fetch);
  const heartbeats = opened.move();
  return {
    url: settings.publicUrl ?? server.url,
    sweep: () => sweep.now(),
    isIdle: async () => {
      const [row] = await database.query<{ idle: boolean }>(nothingWaits);
      return row?.idle === true;
    },
    close: async (graceMs) => {
      application.beginShutdown();
      await server.close(graceMs);
      await sweep.close();
      await signals.close(graceMs);
      await misbehaving?.close();
      await keyUses.close();
      await tokenGuard.close();
      await accessRecord.close();
      await heartbeats.disposeAsync();
      await bodyThread.close();
    },
  };
}

/**
 * Runs each call that may change something in one transaction, with its `Idempotency-Key` and its entry in the audit log:
 * none that has changed something is missing there. A repeated answer is no second action. A read queries the database
 * without one, or in a read-only snapshot when its endpoint asks for it.
 */
function inUnitOfWork<Identity extends OperatorIdentity | KeyIdentity>(
  { database, clock, calls, accessRecord }: ServiceDeps & { calls: FairSlots; accessRecord: AccessRecord },
  runUnitOfWork: RunUnitOfWork,
): Around<Identity, Identity & { unit: UnitOfWork }> {
  /** Reads, or runs a transaction, in a slot of the caller's organisation. */
  const inSlot = async <T>(caller: Identity, work: () => Promise<T>): Promise<T> => {
    const group = 'organisationId' in caller ? caller.organisationId : 'the operator';
    const free = await calls.enter(group, { signal: AbortSignal.timeout(slotWaitMs) }).catch((cause: unknown) => {
      throw new AppError('too-many', 'Too many of your calls are being worked on at once. Send it again later.', {
        cause,
        recovery: { do: 'retry', afterMs: 1_000 },
      });
    });
    try {
      return await work();
    } finally {
      free();
    }
  };
  return async (call, run, prepare) => {
    const { endpoint, caller, bodyHash, idempotencyKey, path } = call;
    const outside = { ...caller, unit: { tx: database, wake: () => undefined } };
    if (endpoint.method === 'GET') {
      if (!endpoint.snapshot) return inSlot(caller, () => run(outside));
      return inSlot(caller, () =>
        database.transaction(async (tx) => {
          await tx.query('set transaction isolation level repeatable read, read only');
          return run({ ...outside, unit: { ...outside.unit, tx } });
        }),
      );
    }
    const repeatable =
      endpoint.method === 'POST' && idempotencyKey !== undefined && 'organisationId' in caller
        ? // A path with and without a final slash is the same endpoint.
          idempotentRequest(caller.organisationId, `POST ${path.replace(/\/$/, '')}`, idempotencyKey, bodyHash())
        : undefined;
    const work = (prepared?: unknown) =>
      inSlot(caller, () =>
        runUnitOfWork((unit) => {
          const handle = async () => {
            const answer = await run({ ...caller, unit }, prepared);
            const subject = auditSubjectOf(call, answer);
            if (subject) await recordCall(unit.tx, clock, { ...caller, ...caller.origin }, subject);
            return answer;
          };
          return repeatable ? withIdempotency(unit.tx, timestampNow(clock), repeatable, handle) : handle();
        }),
      );
    const findKept = async () => repeatable && findKeptAnswer(database, timestampNow(clock), repeatable);
    const prepareAndWork = async () => {
      if (!prepare) return work();
      const kept = await findKept();
      if (kept) return kept;
      let prepared: unknown;
      try {
        prepared = await prepare(outside);
      } catch (error) {
        // The same request may have been sent twice at once and the other one done by now: then both return its answer.
        const keptMeanwhile = await findKept().catch(() => undefined);
        if (keptMeanwhile) return keptMeanwhile;
        throw error;
      }
      return work(prepared);
    };
    try {
      return await prepareAndWork();
    } catch (error) {
      const subject = auditSubjectOf(call);
      if (subject && error instanceof AppError && refusals.has(error.code))
        accessRecord.refused(caller.origin, {
          ...subject,
          details: { ...subject.details, why: error.publicMessage.slice(0, 500) },
        });
      throw error;
    }
  };
}

const nothingWaits = prepared(
  `select not exists (select from service.jobs where status = 'PENDING')
     and not exists (select from service.supplier_submissions where state = 'UNPROCESSED')
     and not exists (select from service.deliveries d join service.webhooks w on w.id = d.webhook_id
                     where w.is_active and d.finished is null) as idle`,
);

function startWorkers(
  deps: ServiceDeps & { accessTokens: AccessTokens; profile: Profile },
  runUnitOfWork: RunUnitOfWork,
  fetchOfDeliveries: GuardedFetch = deps.fetch,
): Sweep {
  const { database, signals, settings, log } = deps;
  const timers = createRoundTimers({ ...deps, runUnitOfWork });
  const deliverer = createDeliverer({ ...deps, fetch: fetchOfDeliveries, random: deps.random ?? Math.random });
  const jobLane = (lane: JobLane): LaneWork => ({
    ...createJobWorker({ ...deps, runUnitOfWork }, lane),
    due: () => organisationsWithJobs(database, lane, timestampNow(deps.clock)),
  });
  const lanes: Record<ServiceLane, LaneWork> = {
    'supplier-changes': {
      concurrency: 2,
      work: applySupplierChanges({ ...deps, runUnitOfWork }),
      due: () => organisationsWithSubmissions(database),
    },
    jobs: jobLane('jobs'),
    'file-jobs': jobLane('file-jobs'),
    rounds: { concurrency: 4, work: timers.work, due: timers.due },
    // The deliverer has slots of its own. The lane holds more, so that webhooks wait there for their organisation's turn
    // and not in the queue, which knows no organisations.
    deliveries: { concurrency: 4 * deliverySlots, work: deliverer.deliver, due: deliverer.webhooksWithDue },
  };
  for (const [lane, { concurrency, work }] of Object.entries(lanes)) signals.work(lane, { concurrency }, work);
  const uploadSweep = createUploadSweep(deps);
  const deleteOld = createRetention({ ...deps, retention: settings.retention });
  const keepActions = createActionUpkeep({ ...deps, program: 'service', days: settings.actionDays });
  const sweep = createSweep({
    signals,
    lanes: Object.entries(lanes).map(([lane, { due }]) => ({ lane, due })),
    everyMs: settings.sweepMs,
    log,
    also: async () => {
      uploadSweep.start();
      const now = timestampNow(deps.clock);
      await forgetOldAnswers(database, now);
      await forgetOldRequests(database, now);
      await deleteOld();
      await keepActions();
    },
  });
  return {
    now: () => sweep.now(),
    close: async () => {
      await sweep.close();
      await uploadSweep.close();
      await timers.close();
      await deliverer.close();
    },
  };
}

interface LaneWork {
  concurrency: number;
  work: (key: string, signal: AbortSignal) => Promise<void>;
  due: () => Promise<string[]>;
}
