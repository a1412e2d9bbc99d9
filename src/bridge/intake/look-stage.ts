/**
 * Looks after open submissions: it reads what became of those that the source has taken, and makes the POST of the others
 * again under its key, so that a source which has it answers with the id that it has given. Suppliers are upserts: at a
 * source that does not know the key any more, the same state is stored twice.
 */
import { z } from 'zod';
import { AnswerError } from '#client/read-answer.ts';
import { msFromTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { askedToWaitMs, errorText } from '#platform/errors.ts';
import { retrySchedules, retryWaitMs } from '../retry-schedules.ts';
import type { IntakeWork } from './intake-deps.ts';
import { submissionsPath } from './post-submission.ts';
import { readSubmitted } from './record-store.ts';
import { endsOf, release, sendPack } from './send-stage.ts';
import { settleSubmission } from './settle-submission.ts';
import { type OpenSubmission, readOpenSubmissions, repeatIntent, storeLook } from './submission-store.ts';

/** A source keeps an idempotency key for 24 hours. */
const keyKeptMs = 24 * 60 * 60_000;

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
  const { intake, client, lease, signal, clock, log } = work;
  const path = `${submissionsPath}/${encodeURIComponent(submission.uuid ?? '')}`;
  const again = (why: string, floorMs: number) => {
    const waitMs = retryWaitMs(retrySchedules.submissionLook, submission.looks, { floorMs });
    return lease.transaction((tx) => storeLook(tx, submission.id, timestampFromMs(clock.nowMs() + waitMs), why));
  };
  let answer: z.output<typeof submissionForm>['result'];
  try {
    const read = await lease.during((lost) =>
      client.call({ method: 'GET', path }, submissionForm, AbortSignal.any([signal, lost])),
    );
    answer = read.result;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AnswerError && error.status === 404) {
      // A source that was restored from a copy does not know it any more; what it holds is compared anew.
      await lease.transaction((tx) =>
        release(tx, work, submission.id, { why: 'the service does not know the submission any more', refused: false }),
      );
      return;
    }
    log.warn({ intake: intake.name, submission: submission.id }, errorText(error));
    return again(errorText(error), askedToWaitMs(error));
  }
  if (answer.current_state === 'PROCESSED') await settleSubmission(work, submission, answer);
  else await again('the service has not processed it yet', 0);
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
