/**
 * The last stage of an intake of requisitions: it submits the jobs that make and update events. A job creates something
 * that has no key of its own, so the intent is committed before the POST, and where its outcome is uncertain the service is searched
 * before anything is sent again (`look-jobs.ts`).
 *
 *     12:00:00  intent   J1 for the event of PR-1 and PR-2, in one transaction with both
 *     12:00:00  POST     under the key J1; its reference_id is "PR-1, PR-2"
 *     12:00:01  sent     the service's id 7c.. is stored
 *     12:00:03  look     7c.. is COMPLETED, its created_entity e4..: which lines became which lots is stored
 *
 *     killed before the intent    nothing was committed
 *     killed before the id        once its POST can no longer run, jobs since 12:00:00 and the feed are searched for
 *                                 "PR-1, PR-2"
 *     killed after the id         the next process looks at 7c..
 */
import { z } from 'zod';
import { retrySchedules, retryWaitMs } from '#bridge/retry-schedules.ts';
import { recordSchemas } from '#connector/records.ts';
import { jobTypes } from '#contract/job.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { IntakeDeps, IntakeWork } from '../intake-deps.ts';
import { holdSending, noteSent, pauseIntakeFor, readIntake } from '../intake-store.ts';
import { type Posted, postOnce } from '../post-submission.ts';
import { lateEffectMs } from '../send-stage.ts';
import { wishOfBody } from './compare-requisitions.ts';
import { bodyOf } from './event-payload.ts';
import { leaveGroup, readEventWithFiles, readMembers, readReadyEvent, storeNeedHashes } from './event-store.ts';
import { commitIntent, jobTypeOf, maySendJobs, type Pending } from './job-intent.ts';
import { storeJobSent, storeJobUncertain } from './job-store.ts';
import { jobFailed, releaseJob } from './settle-job.ts';
import { nextUpdate } from './update-event.ts';

const receipt = z.looseObject({ id: z.string().min(1).max(200) }).transform(({ id }) => id);

/** Sends until nothing is left to send, or nothing more may be sent now. Rejects with LeaseLost. */
export async function sendJobs(work: IntakeWork): Promise<void> {
  const { lease, signal } = work;
  for (;;) {
    signal.throwIfAborted();
    const next = (await lease.transaction((tx) => nextCreate(tx, work))) ?? (await nextUpdate(work));
    if (next === 'again') continue;
    const job = next ?? (await lease.transaction((tx) => nextAttach(tx, work)));
    if (job === undefined || !(await postJob(work, job))) return;
  }
}

/** Makes the POST of a job whose intent is committed. Returns whether the next one may be sent. */
export async function postJob(work: IntakeWork, job: Pending): Promise<boolean> {
  const { client, lease, signal } = work;
  const path = `/api/jobs/${jobTypes[jobTypeOf(job)].path}`;
  const body = JSON.parse(job.payload) as unknown;
  const posted = await lease.during((lost) =>
    postOnce(client, { path, body, idempotencyKey: job.id, receipt }, AbortSignal.any([signal, lost])),
  );
  return settlePosted(work, job, posted);
}

async function settlePosted(work: IntakeWork, job: Pending, posted: Posted): Promise<boolean> {
  const { intake, lease, clock, log } = work;
  const nowMs = clock.nowMs();
  const now = timestampFromMs(nowMs);
  if (posted.is === 'taken') {
    const look = timestampFromMs(nowMs + retryWaitMs(retrySchedules.submissionLook, 0));
    await lease.transaction(async (tx) => {
      await storeJobSent(tx, job.id, posted.uuid, look);
      await noteSent(tx, intake.name);
    });
    return true;
  }
  log.warn({ intake: intake.name, job: job.id, end: posted.is }, posted.why);
  if (posted.is === 'uncertain') {
    const look = timestampFromMs(nowMs + lateEffectMs);
    await lease.transaction((tx) => storeJobUncertain(tx, job.id, posted.why, look));
    // Other events are not concerned.
    return true;
  }
  if (posted.is === 'refused') {
    await lease.transaction((tx) => jobFailed(tx, work, job.id, posted.why, []));
    return true;
  }
  await lease.transaction(async (tx) => {
    const state = await readIntake(tx, intake);
    await releaseJob(tx, work, job.id, posted.why);
    if (posted.is === 'not-taken' && posted.pause)
      await pauseIntakeFor(tx, intake.name, { kind: posted.pause, reason: posted.why }, now);
    const waitMs =
      posted.is === 'limited'
        ? posted.waitMs
        : retryWaitMs(retrySchedules.submission, state?.sendFailures ?? 0, { floorMs: posted.waitMs });
    const until = timestampFromMs(nowMs + waitMs);
    await holdSending(tx, intake.name, { until, error: posted.why, failed: posted.is !== 'limited' });
  });
  return false;
}

async function nextCreate(tx: Sql, work: IntakeDeps): Promise<Pending | 'again' | undefined> {
  if (!(await maySendJobs(tx, work))) return undefined;
  const { intake, wishOf, clock } = work;
  const event = await readReadyEvent(tx, intake.name, timestampNow(clock));
  if (!event) return undefined;
  const members = (await readMembers(tx, event.id)).map((member) => ({
    member,
    wish: wishOfBody(wishOf, member.body),
  }));
  const wanted = members.flatMap(({ member, wish }) => (wish.is === 'wanted' ? [{ ...member, ...wish }] : []));
  const others = members.filter(({ wish }) => wish.is !== 'wanted').map(({ member }) => member.erpKey);
  if (others.length > 0) {
    // They have changed since they were compared, and are compared again.
    await leaveGroup(tx, event.id, others);
    await tx.query(
      `update bridge.intake_records set due = coalesce(due, $3), action = null
       where intake = $1 and erp_key = any($2)`,
      [intake.name, others, timestampNow(clock)],
    );
  }
  if (wanted.length === 0) return 'again';
  const { body, content } = bodyOf(work, wanted);
  const payload = JSON.stringify(body);
  await storeNeedHashes(tx, event.id, wanted);
  await tx.query(`update bridge.intake_events set state = 'making', name = $2, reference_id = $3 where id = $1`, [
    event.id,
    content.name,
    content.reference,
  ]);
  const hashes = wanted.map(({ erpKey, hash }) => ({ erpKey, hash: hash.toString('hex') }));
  return commitIntent(tx, work, { event, kind: 'create', payload, madeOf: { ...content, members: hashes } });
}

/** The files of an event's requisitions go in one job; each by name, so that it can be found again. */
async function nextAttach(tx: Sql, work: IntakeDeps): Promise<Pending | undefined> {
  if (!(await maySendJobs(tx, work))) return undefined;
  const { intake, clock } = work;
  const event = await readEventWithFiles(tx, intake.name, timestampNow(clock));
  if (!event) return undefined;
  const files = (await readMembers(tx, event.id)).flatMap(({ erpKey, body }) =>
    (recordSchemas.requisition.safeParse(JSON.parse(body)).data?.files ?? []).map((file) => ({ erpKey, file })),
  );
  await tx.query('update bridge.intake_events set files_due = null where id = $1', [event.id]);
  const kept = fitting(files);
  if (kept.length === 0) return undefined;
  const target = event.make === 'request' ? 'sourcing_request' : 'sourcing_event';
  const payload = JSON.stringify({ [target]: event.entity, files: kept.map(({ file }) => file) });
  const members = [...new Set(kept.map(({ erpKey }) => erpKey))].map((erpKey) => ({ erpKey, hash: null }));
  return commitIntent(tx, work, {
    event,
    kind: 'attach',
    payload,
    madeOf: { lots: [], members, name: event.name ?? '' },
  });
}

/** The API takes 50 files and 10 MB in one job. */
function fitting<File extends { file: { content?: string | undefined } }>(files: readonly File[]): File[] {
  let length = 0;
  return files.slice(0, 50).filter(({ file: { content = '' } }) => {
    length += content.length;
    return length <= 9_000_000;
  });
}
