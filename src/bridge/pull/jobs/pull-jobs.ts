/**
 * Reads the jobs of a source that something has named (`mirror/jobs-to-read.ts`), each by its id, until it has ended. What
 * was read and what follows of it are stored in one transaction, under a lease: a kill costs reading one job once more. A
 * job that the source does not know ends with a warning; any other failure is tried again.
 */
import { z } from 'zod';
import { documentKeysOfResource } from '#bridge/documents/document-keys.ts';
import { type AcquireLease, type Lease, LeaseLost, unlessLost } from '#bridge/ledger/leases/lease.ts';
import { markDocuments } from '#bridge/mirror/due/mark-documents.ts';
import { type JobToRead, postponeJobs, readDueJobs, settleJob } from '#bridge/mirror/jobs-to-read.ts';
import { waitForRateLimit } from '#bridge/mirror/source/wait-for-rate-limit.ts';
import { storeResources } from '#bridge/mirror/store-resources.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { AnswerError } from '#client/read-answer.ts';
import type { SourceClient } from '#client/source-client.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';

export interface JobPullDeps {
  source: Pick<SourceSettings, 'name'>;
  client: Pick<SourceClient, 'call'>;
  database: Database;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  /** Wakes the flows of this source, after a commit that marked documents. */
  wakeFlows: () => void;
}

const jobsAtOnce = 100;
/** A source that fails for one job is left alone for so long. */
const restMs = 30_000;
/** A status that is not known to be an end counts as one when nothing has been heard of the job for so long. */
const silentMs = 7 * 86_400_000;

/**
 * What is kept of a job. Not the links to files: each works for a minute, for whoever has it, and is another one in each
 * answer.
 */
const jobForm = z
  .looseObject({
    type: z.unknown().optional(),
    status: z.string(),
    created: z.unknown().optional(),
    created_entity: z.unknown().optional(),
    errors: z.unknown().optional(),
    detail: z.looseObject({ errors: z.unknown().optional() }).nullish().catch(undefined),
  })
  .transform(({ type, status, created, created_entity, errors, detail }) => ({
    type,
    status,
    created,
    created_entity,
    errors,
    ...(detail?.errors ? { detail: { errors: detail.errors } } : {}),
  }));

type ReadJob = z.output<typeof jobForm>;

/**
 * Creates the worker that reads the source's jobs that are due. A failure is stored in SQL; the worker rejects only when the
 * database is away.
 */
export function createJobPull(deps: JobPullDeps) {
  const { source, database, clock } = deps;
  return async (signal: AbortSignal): Promise<void> => {
    // Checked again after the lease was released: a worker that was woken while it was held did not get it.
    while (!signal.aborted && (await readDueJobs(database, source.name, timestampNow(clock), 1)).length > 0) {
      const lease = await deps.acquireLease(`jobs/${source.name}`);
      if (!lease) return;
      try {
        await unlessLost(readJobs(deps, lease, signal));
      } finally {
        await lease.release();
      }
    }
  };
}

async function readJobs(deps: JobPullDeps, lease: Lease, signal: AbortSignal): Promise<void> {
  const { source, database, clock } = deps;
  for (const due of await readDueJobs(database, source.name, timestampNow(clock), jobsAtOnce)) {
    if (signal.aborted) return;
    const observed = timestampNow(clock);
    try {
      await storeJob(deps, lease, due, { read: await askFor(deps, lease, due, signal), observed });
    } catch (error) {
      if (error instanceof LeaseLost || signal.aborted) return;
      if (!(await storeFailure(deps, lease, due, error))) return;
    }
  }
}

/** Waits for the source's quota where it is spent. */
function askFor(
  { client, clock }: JobPullDeps,
  lease: Lease,
  { job }: JobToRead,
  signal: AbortSignal,
): Promise<ReadJob> {
  return lease.during((lost) => {
    const stopped = AbortSignal.any([signal, lost]);
    const ask = () => client.call({ method: 'GET', path: `/api/jobs/${encodeURIComponent(job)}` }, jobForm, stopped);
    return waitForRateLimit(ask, { clock, signal: stopped });
  });
}

async function storeJob(
  { source, clock, log, wakeFlows }: JobPullDeps,
  lease: Lease,
  due: JobToRead,
  { read, observed }: { read: ReadJob; observed: Timestamp },
): Promise<void> {
  const now = timestampNow(clock);
  const object = { id: due.job, ...read };
  const hasEnded = read.status === 'COMPLETED' || read.status === 'FAILED';
  const isGivenUp = !hasEnded && clock.nowMs() - msFromTimestamp(due.noticed) > silentMs;
  if (isGivenUp)
    log.warn(
      { source: source.name, job: due.job, status: read.status },
      'the job has not ended within 7 days; it is read again when the service names it',
    );
  await lease.transaction(async (tx) => {
    await storeResources(tx, { source: source.name, kind: 'job', objects: [object], observed, now });
    // Also where the job is as before: its reference may be known only now.
    await markDocuments(tx, { source: source.name }, documentKeysOfResource('job', object), now);
    await settleJob(tx, source.name, due, {
      error: null,
      ...(hasEnded || isGivenUp ? { ended: read.status } : { nextLook: nextLook(clock, due) }),
    });
  });
  wakeFlows();
}

/** Returns whether the next job may be read. */
async function storeFailure(
  { source, clock, log }: JobPullDeps,
  lease: Lease,
  due: JobToRead,
  error: unknown,
): Promise<boolean> {
  const isUnknown = error instanceof AnswerError && error.status === 404;
  const why = isUnknown
    ? `The service does not know the job ${due.job}: ${errorText(error)}`
    : whyOf(source.name, error);
  log.warn({ source: source.name, job: due.job }, why);
  await lease.transaction(async (tx) => {
    const now = timestampNow(clock);
    // The others come before this one then: it may be the only one that fails.
    if (!isUnknown) await postponeJobs(tx, source.name, { now, until: timestampFromMs(clock.nowMs() + restMs) });
    await settleJob(tx, source.name, due, {
      error: why,
      ...(isUnknown
        ? { ended: 'not found' }
        : { nextLook: nextLook(clock, due, Math.max(2 * restMs, askedToWaitMs(error))) }),
    });
  });
  return isUnknown;
}

function whyOf(source: string, error: unknown): string {
  if (error instanceof AnswerError && error.code === 'forbidden')
    return `The API key of the source ${source} may not read jobs: give it the scope "jobs" at the service. (${errorText(error)})`;
  return errorText(error);
}

function nextLook(clock: Clock, { looks }: JobToRead, floorMs = 0): Timestamp {
  return timestampFromMs(clock.nowMs() + retryWaitMs(retrySchedules.job, looks, { floorMs }));
}
