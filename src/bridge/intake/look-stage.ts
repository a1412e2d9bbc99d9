/**
 * Looks after open submissions: it reads what became of those that the source has taken, and makes the POST of the others
 * again under its key, so that a source which has it answers with the id that it has given. Suppliers are upserts: at a
 * source that does not know the key any more, the same state is stored twice.
 */
import { z } from 'zod';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import { AnswerError } from '#client/read-answer.ts';
import { msFromTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { askedToWaitMs, errorText } from '#platform/errors.ts';
import type { IntakeWork } from './intake-deps.ts';
import { submissionsPath } from './post-submission.ts';
import { readSubmitted } from './record-store.ts';
import { endsOf, release, sendPack } from './send-stage.ts';
import { settleSubmission } from './settle-submission.ts';
import { type OpenSubmission, readOpenSubmissions, repeatIntent, storeLook } from './submission-store.ts';

/** A source keeps an idempotency key for 24 hours. */
const keyKeptMs = 24 * 60 * 60_000;

/** A submission or a job that is looked after. */
type Open = Pick<OpenSubmission, 'id' | 'looks'>;

/**
 * Asks the source for what it has taken. Returns undefined where it cannot be asked now: it is asked again later. A
 * source that was restored from a copy does not know it any more: `unknown`.
 */
export async function askSource<Form extends z.ZodType>(
  work: IntakeWork,
  open: Open,
  { path, form }: { path: string; form: Form },
): Promise<z.output<Form> | 'unknown' | undefined> {
  const { client, lease, signal } = work;
  try {
    return await lease.during((lost) => client.call({ method: 'GET', path }, form, AbortSignal.any([signal, lost])));
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AnswerError && error.status === 404) return 'unknown';
    await lookAfterError(work, open, error);
    return undefined;
  }
}

/** Stores why the outcome is not known yet, and when to look again. */
export async function lookLater({ lease, clock }: IntakeWork, open: Open, why: string, floorMs = 0): Promise<void> {
  const waitMs = retryWaitMs(retrySchedules.submissionLook, open.looks, { floorMs });
  await lease.transaction((tx) => storeLook(tx, open.id, timestampFromMs(clock.nowMs() + waitMs), why));
}

/** The source could not be asked: it is asked again, when it says so. */
export async function lookAfterError(work: IntakeWork, open: Open, error: unknown): Promise<void> {
  work.log.warn({ intake: work.intake.name, submission: open.id }, errorText(error));
  await lookLater(work, open, errorText(error), askedToWaitMs(error));
}

/** Looks after those open submissions whose time has come. Rejects with LeaseLost. */
export async function lookStage(work: IntakeWork): Promise<void> {
  const { intake, lease, clock, signal } = work;
  const open = await lease.transaction((tx) => readOpenSubmissions(tx, intake.name));
  for (const submission of open) {
    signal.throwIfAborted();
    if (submission.nextLook > timestampNow(clock)) continue;
    if (submission.state === 'sent') await lookAt(work, submission);
    // While the source takes none, the others wait.
    else if (!(await sendAgain(work, submission))) return;
  }
}

const submissionForm = z.looseObject({
  result: z.looseObject({
    current_state: z.string(),
    state_errors: z.record(z.string(), z.unknown()).nullish(),
    change_warnings: z.array(z.unknown()).nullish(),
  }),
});

async function lookAt(work: IntakeWork, submission: OpenSubmission): Promise<void> {
  const path = `${submissionsPath}/${encodeURIComponent(submission.uuid ?? '')}`;
  const answer = await askSource(work, submission, { path, form: submissionForm });
  if (answer === undefined) return;
  if (answer === 'unknown') {
    // What the source holds is compared anew.
    await work.lease.transaction((tx) =>
      release(tx, work, submission.id, { why: 'the service does not know the submission any more', refused: false }),
    );
    return;
  }
  if (answer.result.current_state === 'PROCESSED') await settleSubmission(work, submission, answer.result);
  else await lookLater(work, submission, 'the service has not processed it yet');
}

/** Returns whether other submissions may be sent. */
async function sendAgain(work: IntakeWork, { id, created, posts }: OpenSubmission): Promise<boolean> {
  const { intake, source, lease, clock } = work;
  const nowMs = clock.nowMs();
  if (nowMs - msFromTimestamp(created) > keyKeptMs) {
    // What the source holds says more than a change from yesterday.
    const why = 'it was not known within a day whether the service has it';
    await lease.transaction((tx) => release(tx, work, id, { why, refused: false, mayHaveArrived: true }));
    return true;
  }
  const records = await lease.transaction(async (tx) => {
    await repeatIntent(tx, id, endsOf(nowMs, source.timeout_seconds));
    return readSubmitted(tx, intake.name, id);
  });
  return sendPack(work, { id, records, posts: posts + 1 });
}
