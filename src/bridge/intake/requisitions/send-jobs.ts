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
 *     restored from a backup      what may have been made since is searched for before its first POST
 */
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import { type RequisitionRecord, recordSchemas } from '#connector/records.ts';
import { attachedFile, filesPerAttachMax } from '#contract/file.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { errorText } from '#platform/errors.ts';
import type { IntakeDeps, IntakeWork } from '../intake-deps.ts';
import { type Posted, postOnce } from '../post-submission.ts';
import { lateEffectMs, storePosted, waitAfter } from '../send-stage.ts';
import { storeUncertain } from '../submission-store.ts';
import { wishOfBody } from './compare-requisitions.ts';
import { bodyOf } from './event-payload.ts';
import { leaveGroup, readEventWithFiles, readMembers, readReadyEvent, storeNeedHashes } from './event-store.ts';
import { commitIntent, jobTypeOf, maySendJobs, type Pending } from './job-intent.ts';
import { lostSince, nameSentJob, storeJobToSearch, unreadJobMs } from './job-store.ts';
import { settleRefusal } from './refused-update.ts';
import { releaseJob, tellOfFiles } from './settle-job.ts';
import { nextUpdate } from './update-event.ts';

/** Sends until nothing is left to send, or nothing more may be sent now. Rejects with LeaseLost. */
export async function sendJobs(work: IntakeWork): Promise<void> {
  const { lease, signal } = work;
  for (;;) {
    signal.throwIfAborted();
    const next = (await lease.transaction((tx) => nextCreate(tx, work))) ?? (await nextUpdate(work));
    if (next === 'again') continue;
    const job = next ?? (await lease.transaction((tx) => nextAttach(tx, work)));
    if (job === 'again') continue;
    if (job === undefined || !(await postJob(work, job))) return;
  }
}

/** Makes the POST of a job whose intent is committed. Returns whether the next one may be sent. */
export async function postJob(work: IntakeWork, job: Pending): Promise<boolean> {
  const { client, lease, signal } = work;
  const payload = JSON.parse(job.payload) as Record<string, unknown>;
  const posted = await lease.during((lost) =>
    postOnce(() => client.submitJobOnce(jobTypeOf(job), payload, job.id, AbortSignal.any([signal, lost]))),
  );
  return settlePosted(work, job, posted);
}

async function settlePosted(work: IntakeWork, job: Pending, posted: Posted): Promise<boolean> {
  const { intake, lease, clock, log } = work;
  const nowMs = clock.nowMs();
  if (posted.is === 'taken') {
    await lease.transaction(async (tx) => {
      await storePosted(tx, work, job.id, posted.uuid);
      await nameSentJob(tx, job.id, { now: timestampNow(clock), due: timestampFromMs(nowMs + unreadJobMs) });
    });
    return true;
  }
  log.warn({ intake: intake.name, job: job.id, end: posted.is }, posted.why);
  if (posted.is === 'uncertain') {
    const look = timestampFromMs(nowMs + lateEffectMs);
    await lease.transaction((tx) => storeUncertain(tx, job.id, posted.why, look));
    // Other events are not concerned.
    return true;
  }
  if (posted.is === 'refused') {
    await settleRefused(work, job, posted.why);
    return true;
  }
  await lease.transaction(async (tx) => {
    const until = await waitAfter(tx, work, posted);
    // That this POST did nothing says nothing of the one before: the event is looked at again.
    if (job.mayBeDone) await storeUncertain(tx, job.id, posted.why, until);
    else await releaseJob(tx, work, job.id, posted.why);
  });
  return false;
}

/** Where it is not known yet whether an earlier POST took effect, the job is looked after again. */
async function settleRefused(work: IntakeWork, job: Pending, why: string): Promise<void> {
  const { lease, clock, signal } = work;
  const unknown = await settleRefusal(work, job, { why, faults: [] }).catch((error: unknown) => {
    signal.throwIfAborted();
    return errorText(error);
  });
  if (unknown === undefined) return;
  const look = timestampFromMs(clock.nowMs() + retryWaitMs(retrySchedules.submissionLook, 1));
  await lease.transaction((tx) => storeUncertain(tx, job.id, `${why} (${unknown})`, look));
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
  const [making] = await tx.query<{ since: Timestamp | null }>(
    `update bridge.intake_events e set state = 'making', name = $2, reference_id = $3 where id = $1
     returning ${lostSince} as since`,
    [event.id, content.name, content.reference],
  );
  const hashes = wanted.map(({ erpKey, hash }) => ({ erpKey, hash: hash.toString('hex') }));
  const job = await commitIntent(tx, work, { event, kind: 'create', payload, madeOf: { ...content, members: hashes } });
  if (!making?.since) return job;
  await storeJobToSearch(tx, job.id, making.since, timestampNow(clock));
  return 'again';
}

/**
 * The files of an event's requisitions go in one job; each by name, so that it can be found again. Of those that the API
 * does not take a person is told.
 */
async function nextAttach(tx: Sql, work: IntakeDeps): Promise<Pending | 'again' | undefined> {
  if (!(await maySendJobs(tx, work))) return undefined;
  const { intake, source, clock } = work;
  const now = timestampNow(clock);
  const event = await readEventWithFiles(tx, intake.name, now);
  if (!event) return undefined;
  const files = (await readMembers(tx, event.id)).flatMap(({ erpKey, body }) =>
    (recordSchemas.requisition.safeParse(JSON.parse(body)).data?.files ?? []).map((file) => ({ erpKey, file })),
  );
  await tx.query('update bridge.intake_events set files_due = null where id = $1', [event.id]);
  const { kept, left } = fitting(files, source.dialect);
  const members = [...Map.groupBy([...kept, ...left], ({ erpKey }) => erpKey)].map(([erpKey, own]) => {
    const why = own
      .flatMap(({ file, why: reason }) => (reason === undefined ? [] : [`${file.file_name}: ${reason}`]))
      .join('; ');
    return { erpKey, hash: null, ...(why === '' ? {} : { why }) };
  });
  if (kept.length === 0) {
    await tellOfFiles(tx, work, { event, members, now });
    return 'again';
  }
  const target = event.make === 'request' ? 'sourcing_request' : 'sourcing_event';
  const payload = JSON.stringify({ [target]: event.entity, files: kept.map(({ file }) => file) });
  return commitIntent(tx, work, {
    event,
    kind: 'attach',
    payload,
    madeOf: { lots: [], members, name: event.name ?? '' },
  });
}

type File = NonNullable<RequisitionRecord['files']>[number];

const filesLengthMax = 9_000_000;

/** The API takes 50 files and 10 MB in one job, and each in a certain form. */
function fitting(
  files: readonly { readonly erpKey: string; readonly file: File }[],
  dialect: IntakeDeps['source']['dialect'],
) {
  let length = 0;
  const kept: { erpKey: string; file: File; why?: string }[] = [];
  const left: typeof kept = [];
  for (const { erpKey, file } of files) {
    const { content = '' } = file;
    const [issue] = attachedFile.safeParse(file).error?.issues ?? [];
    const why = issue
      ? [...issue.path, issue.message].join(' ')
      : dialect === 'public' && file.url !== undefined
        ? 'the service fetches no URL: its dialect is public, which takes bytes'
        : dialect === 'public' && kept.some((other) => other.file.file_name === file.file_name)
          ? 'another file of its event has the same name'
          : kept.length >= filesPerAttachMax
            ? `its event has more than ${filesPerAttachMax} files`
            : length + content.length > filesLengthMax
              ? 'the files of its event are too large together'
              : undefined;
    if (why !== undefined) left.push({ erpKey, file, why });
    else {
      kept.push({ erpKey, file });
      length += content.length;
    }
  }
  return { kept, left };
}
