/**
 * Looks after open jobs: it reads what became of those that the source has taken, and finds out about those of which it
 * is not known whether it has. Nothing is sent again before that, and what stays uncertain is held for a person.
 */
import { z } from 'zod';
import { faultsOf, type JobFault } from '#bridge/documents/job-faults.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import { mayUploadLater, uploadFaultText } from '#client/upload-file.ts';
import { msFromTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { IntakeWork } from '../intake-deps.ts';
import { askSource, lookAfterError, lookLater } from '../look-stage.ts';
import { endsOf } from '../send-stage.ts';
import { repeatIntent, storeSent, storeUncertain } from '../submission-store.ts';
import { readClaimed } from './event-store.ts';
import { findCreated, type Trace } from './find-created.ts';
import { nameSentJob, type OpenJob, readOpenJobs, unreadJobMs } from './job-store.ts';
import { readEventStatus } from './read-events.ts';
import { settleRefusal } from './refused-update.ts';
import { postJob } from './send-jobs.ts';
import { faultText, holdJob, jobCompleted, jobFailed, releaseJob } from './settle-job.ts';

/** A job that is found nowhere is sent again so often, each time after a search. */
const postsMost = 3;
/** So long a job that may be ours is waited for, until it says what it has made. */
const namelessMs = 15 * 60_000;
const looksOfUnsentMost = 8;

/** Looks after those open jobs whose time has come. Rejects with LeaseLost. */
export async function lookJobs(work: IntakeWork): Promise<void> {
  const { intake, lease, clock, signal } = work;
  const open = await lease.transaction((tx) => readOpenJobs(tx, intake.name));
  for (const job of open) {
    signal.throwIfAborted();
    if (job.nextLook > timestampNow(clock)) continue;
    if (job.state === 'sent') await lookAt(work, job);
    else await search(work, job);
  }
}

const jobForm = z.looseObject({
  status: z.string(),
  created_entity: z.string().min(1).max(200).nullish(),
  errors: z.unknown().optional(),
  detail: z
    .looseObject({
      errors: z.array(z.unknown()).nullish(),
      files: z.array(z.looseObject({ file_name: z.string().optional(), upload_url: z.string().optional() })).nullish(),
    })
    .nullish(),
});

async function lookAt(work: IntakeWork, job: OpenJob): Promise<void> {
  const { lease, clock, log, intake } = work;
  const path = `/api/jobs/${encodeURIComponent(job.uuid ?? '')}`;
  const answer = await askSource(work, job, { path, form: jobForm });
  if (answer === undefined) return;
  if (answer === 'unknown') {
    // The source may know what it has made.
    const why = 'the service does not know the job any more';
    await lease.transaction((tx) => storeUncertain(tx, job.id, why, timestampNow(clock)));
    return;
  }
  if (answer.status === 'FAILED' || answer.status === 'COMPLETED') {
    const now = timestampNow(clock);
    await lease.transaction((tx) => nameSentJob(tx, job.id, { now, due: now }));
  }
  if (answer.status === 'FAILED') {
    const faults = faultsOf(answer.errors);
    const why = faults.length === 0 ? 'the service gives no reason' : faultText(faults);
    log.warn({ intake: intake.name, job: job.uuid }, why);
    await refusedBy(work, job, { why, faults });
    return;
  }
  if (answer.status !== 'COMPLETED' && job.kind === 'attach' && (answer.detail?.files ?? []).length > 0) {
    await upload(work, job, answer.detail?.files ?? []);
    return;
  }
  if (answer.status !== 'COMPLETED') {
    await lookLater(work, job, `the job is ${answer.status}`);
    return;
  }
  if (job.kind !== 'create') {
    const faults = faultsOf(answer.detail?.errors ?? []);
    await lease.transaction((tx) => jobCompleted(tx, work, job.id, { faults }));
    return;
  }
  if (answer.created_entity) await created(work, job, answer.created_entity);
  // It has made something, and does not say what.
  else
    await lease.transaction((tx) =>
      storeUncertain(tx, job.id, 'the job does not name what it has made', timestampNow(clock)),
    );
}

/**
 * Uploads the files to the URLs that the job shows. The job ends by itself after that, and is looked at again; where a
 * process dies before, the next look uploads the same bytes again. A refusal that stays is told to a person.
 */
async function upload(work: IntakeWork, job: OpenJob, shown: Parameters<typeof work.client.uploadFiles>[0]) {
  const { client, lease, clock, log, intake, signal } = work;
  const { files } = JSON.parse(job.payload) as { files: Parameters<typeof client.uploadFiles>[1] };
  const faults = await lease.during((lost) => client.uploadFiles(shown, files, AbortSignal.any([signal, lost])));
  if (faults.length === 0) return lookLater(work, job, 'the files are uploaded, and the job has not ended');
  const why = uploadFaultText(faults);
  log.warn({ intake: intake.name, job: job.uuid }, why);
  if (mayUploadLater(faults) || clock.nowMs() - msFromTimestamp(job.ends) < namelessMs)
    return lookLater(work, job, why);
  await lease.transaction((tx) => jobFailed(tx, work, job.id, why, []));
}

/** A repeated update may fail because its first POST took effect. */
async function refusedBy(work: IntakeWork, job: OpenJob, refusal: { why: string; faults: readonly JobFault[] }) {
  let unknown: string | undefined;
  try {
    unknown = await settleRefusal(work, { id: job.id, mayBeDone: job.kind === 'update' && job.posts > 1 }, refusal);
  } catch (error) {
    work.signal.throwIfAborted();
    return lookAfterError(work, job, error);
  }
  if (unknown !== undefined) await lookLater(work, job, unknown);
}

/** An event that another row has already is not this one: then a person has to look. */
async function created(work: IntakeWork, job: OpenJob, entity: string): Promise<void> {
  await work.lease.transaction(async (tx) => {
    const claimed = await readClaimed(tx, work.source.name, [entity]);
    if (claimed.has(entity)) await holdJob(tx, work, job.id, `the service names ${entity}, which is another's already`);
    else await jobCompleted(tx, work, job.id, { entity });
  });
}

async function search(work: IntakeWork, job: OpenJob): Promise<void> {
  const { lease, clock, signal } = work;
  // A process that dies in this search leaves it as it is.
  if (job.state === 'intent')
    await lease.transaction((tx) =>
      storeUncertain(tx, job.id, 'no process saw the end of the request', timestampNow(clock)),
    );
  let trace: Trace;
  try {
    trace = await lease.during((lost) => {
      const given = { ...work, signal: AbortSignal.any([signal, lost]) };
      return job.kind === 'update' ? traceOfUpdate(given, job) : findCreated(given, job);
    });
  } catch (error) {
    signal.throwIfAborted();
    return lookAfterError(work, job, error);
  }
  const nowMs = clock.nowMs();
  if (trace.is === 'entity') return created(work, job, trace.entity);
  if (trace.is === 'done') {
    await lease.transaction((tx) => jobCompleted(tx, work, job.id, {}));
    return;
  }
  if (trace.is === 'job') {
    await lease.transaction(async (tx) => {
      await storeSent(tx, job.id, trace.uuid, timestampFromMs(nowMs));
      await nameSentJob(tx, job.id, { now: timestampFromMs(nowMs), due: timestampFromMs(nowMs + unreadJobMs) });
    });
    return;
  }
  // A job that was never sent is as old as the backup: there the looks are counted.
  const mayBecomeClear =
    job.posts === 0 ? job.looks < looksOfUnsentMost : nowMs - msFromTimestamp(job.ends) < namelessMs;
  if (trace.is === 'perhaps' && mayBecomeClear) return lookLater(work, job, trace.why);
  if (trace.is === 'none' && (job.posts < postsMost || job.kind === 'update')) {
    await lease.transaction((tx) => repeatIntent(tx, job.id, endsOf(nowMs, work.source.timeout_seconds)));
    // That nothing was made is certain of other kinds.
    await postJob(work, { ...job, mayBeDone: job.kind === 'update' });
    return;
  }
  await lease.transaction((tx) =>
    trace.is === 'none' ? releaseLater(tx, work, job) : holdJob(tx, work, job.id, trace.why),
  );
}

/**
 * An update that takes effect twice leaves a draft as one does, so it need not be searched. Of an event that was
 * published meanwhile it cannot be told whether it did.
 */
async function traceOfUpdate(work: IntakeWork, job: OpenJob): Promise<Trace> {
  const status = await readEventStatus(work, job, work.signal);
  if (status === 'DRAFT') return { is: 'none' };
  if (status === undefined) return { is: 'perhaps', why: 'the feed does not show the event' };
  return { is: 'unclear', why: `it is ${status} now` };
}

/** It was made three times, found nowhere, and has certainly not taken effect. */
async function releaseLater(tx: Parameters<typeof releaseJob>[0], work: IntakeWork, job: OpenJob): Promise<void> {
  await releaseJob(tx, work, job.id, `the service did not take it in ${job.posts} tries, and shows no trace of it`);
  const waitMs = retryWaitMs(retrySchedules.submission, job.posts + 4);
  await tx.query('update bridge.intake_events set ready = $2 where id = $1', [
    job.event,
    timestampFromMs(work.clock.nowMs() + waitMs),
  ]);
}
