/**
 * Looks after open submissions: it reads what became of those that the source has taken, and finds out about those of
 * which it is not known whether it has. Nothing is sent again before that.
 */
import { z } from 'zod';
import { queryOf, readPages } from '#client/list-page.ts';
import { AnswerError } from '#client/read-answer.ts';
import { msFromTimestamp, parseTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { askedToWaitMs, errorText } from '#platform/errors.ts';
import { openSupplierList } from '../pull/suppliers/supplier-list-store.ts';
import { retrySchedules, retryWaitMs } from '../retry-schedules.ts';
import type { IntakeWork } from './intake-deps.ts';
import { holdSending, storePackMax } from './intake-store.ts';
import { submissionsPath } from './post-submission.ts';
import { readSubmitted } from './record-store.ts';
import { lateEffectMs, release, sendPack } from './send-stage.ts';
import { settleSubmission } from './settle-submission.ts';
import {
  knownSubmissions,
  lastSubmitted,
  type OpenSubmission,
  readOpenSubmissions,
  repeatIntent,
  storeLook,
  storeSent,
  storeUncertain,
} from './submission-store.ts';

/** A submission that is found nowhere is sent again so often, each time after a search; then its records wait again. */
const postsMost = 3;
/**
 * So often where the source shows just one that names the same suppliers, and nothing tells yet whether it is ours: if it
 * is, and the source knows the key again, a repetition is answered with its id. At a source that does not, each repetition
 * is one more that is alike.
 */
const postsOfAlikeMost = 12;
/** So long after the last POST a submission that may be ours is waited for, until it says which suppliers it names. */
const namelessMs = 15 * 60_000;
/** The source's clock may be off by so much. */
const clockSkewMs = 120_000;
const listPageSize = 100;
const listPagesMost = 10;
/** So many suppliers of a submission are looked for in the text of another to recognise it. */
const sampledKeys = 20;
const failedAloneMs = 10 * 60_000;

/** Looks after those open submissions whose time has come. Rejects with LeaseLost. */
export async function lookStage(work: IntakeWork): Promise<void> {
  const { intake, lease, clock, signal } = work;
  const open = await lease.transaction((tx) => readOpenSubmissions(tx, intake.name));
  for (const submission of open) {
    signal.throwIfAborted();
    if (submission.nextLook > timestampNow(clock)) continue;
    if (submission.state === 'sent') await lookAt(work, submission);
    else await search(work, submission);
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
  const { client, lease, signal, clock } = work;
  const path = `${submissionsPath}/${encodeURIComponent(submission.uuid ?? '')}`;
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
    await lookAgain(work, submission, error);
    return;
  }
  if (answer.current_state === 'PROCESSED') await settleSubmission(work, submission, answer);
  else
    await lease.transaction((tx) =>
      storeLook(tx, submission.id, nextLook(submission, clock.nowMs(), 0), 'the service has not processed it yet'),
    );
}

async function lookAgain({ lease, clock, log, intake }: IntakeWork, submission: OpenSubmission, error: unknown) {
  log.warn({ intake: intake.name, submission: submission.id }, errorText(error));
  await lease.transaction((tx) =>
    storeLook(tx, submission.id, nextLook(submission, clock.nowMs(), askedToWaitMs(error)), errorText(error)),
  );
}

function nextLook({ looks }: OpenSubmission, nowMs: number, floorMs: number) {
  return timestampFromMs(nowMs + retryWaitMs(retrySchedules.submissionLook, looks, { floorMs }));
}

type Trace =
  | { readonly is: 'found'; readonly uuid: string }
  /** So many name the same suppliers. By whom they are is not known before the first of ours is. */
  | { readonly is: 'alike'; readonly count: number }
  | { readonly is: 'none' }
  | { readonly is: 'perhaps' };

/** Finds out whether a POST whose end is not known has taken effect. */
async function search(work: IntakeWork, submission: OpenSubmission): Promise<void> {
  const { intake, lease, clock, signal } = work;
  const { id } = submission;
  const records = await lease.transaction(async (tx) => {
    // A process that dies in this search leaves it as it is.
    if (submission.state === 'intent')
      await storeUncertain(tx, id, 'no process saw the end of the request', timestampNow(clock));
    return readSubmitted(tx, intake.name, id);
  });
  let trace: Trace;
  try {
    trace = await lease.during((lost) =>
      findTrace(
        { ...work, signal: AbortSignal.any([signal, lost]) },
        submission,
        records.map(({ key }) => key),
      ),
    );
  } catch (error) {
    signal.throwIfAborted();
    await lookAgain(work, submission, error);
    return;
  }
  const nowMs = clock.nowMs();
  if (trace.is === 'found') {
    await lease.transaction(async (tx) => {
      await storeSent(tx, id, trace.uuid, timestampFromMs(nowMs));
      // So few may stand in a submission of another program that uses the same key: the list shows what is true.
      const now = timestampFromMs(nowMs);
      if (records.length < sampledKeys) await openSupplierList(tx, work.source.name, { now, latest: now });
    });
    return;
  }
  if (trace.is === 'perhaps' && nowMs - msFromTimestamp(submission.ends) < namelessMs) {
    await lease.transaction((tx) => storeLook(tx, id, nextLook(submission, nowMs, 0)));
    return;
  }
  const isOneAlike = trace.is === 'alike' && trace.count === 1;
  if (submission.posts < (isOneAlike ? postsOfAlikeMost : postsMost)) {
    const endsMs = nowMs + work.source.timeout_seconds * 1000;
    const next = { ends: timestampFromMs(endsMs), nextLook: timestampFromMs(endsMs + lateEffectMs) };
    await lease.transaction((tx) => repeatIntent(tx, id, next));
    await sendPack(work, { id, records });
    return;
  }
  await giveUp(work, submission, trace.is === 'alike' ? 'what it shows may be of others' : 'shows no trace of it');
}

/**
 * The source has failed at this submission several times, and shows nothing that is certainly it. Its suppliers wait again,
 * in smaller submissions: one of them may be what it fails at. A single one lets the others pass.
 */
async function giveUp(work: IntakeWork, submission: OpenSubmission, seen: string): Promise<void> {
  const { intake, lease, clock } = work;
  const why = `the service did not take it in ${submission.posts} tries, and ${seen}`;
  const until = timestampFromMs(clock.nowMs() + retryWaitMs(retrySchedules.submission, submission.posts));
  await lease.transaction(async (tx) => {
    const alone = submission.suppliers === 1;
    const records = await readSubmitted(tx, intake.name, submission.id);
    await release(tx, work, submission.id, { why, refused: false, mayHaveArrived: true });
    if (!alone) await storePackMax(tx, intake.name, Math.ceil(submission.suppliers / 2));
    else
      await tx.query(
        'update bridge.intake_records set due = $3, last_error = $4 where intake = $1 and erp_key = any($2)',
        [intake.name, records.map(({ erpKey }) => erpKey), timestampFromMs(clock.nowMs() + failedAloneMs), why],
      );
    await holdSending(tx, intake.name, { until, error: why, failed: true });
  });
}

const listedForm = z.looseObject({
  uuid: z.string(),
  current_state: z.string(),
  last_changed: z.string().optional(),
  created_by: z.string().optional(),
});

/** A submission that is not known here and may be the one that is searched. */
interface Candidate {
  readonly uuid: string;
  readonly creator: string | undefined;
  /** False: it does not say yet which suppliers it names. */
  readonly isProcessed: boolean;
}

/**
 * Searches the source's list of submissions, newest first, for one that is not known here, names these suppliers, and was
 * made by the creator of those that are known: a user of the source may have changed the same supplier.
 */
async function findTrace(work: IntakeWork, submission: OpenSubmission, keys: readonly string[]): Promise<Trace> {
  const { client, database, source, signal } = work;
  const sinceMs = msFromTimestamp(submission.created) - clockSkewMs;
  const sample = keys.slice(0, sampledKeys).map((key) => JSON.stringify(key).slice(1, -1));
  const candidates: Candidate[] = [];
  const read = (query: string) => client.readList({ path: `${submissionsPath}/`, query, item: listedForm }, signal);
  let pages = 0;
  for await (const { items } of readPages(read, queryOf({ page_number: 1, page_size: listPageSize }))) {
    pages += 1;
    const recent = items.filter(({ last_changed: changed }) => {
      const time = changed === undefined ? undefined : parseTimestamp(changed);
      return time === undefined || msFromTimestamp(time) >= sinceMs;
    });
    const known = await knownSubmissions(
      database,
      source.name,
      recent.map(({ uuid }) => uuid),
    );
    for (const shown of recent) {
      if (known.has(shown.uuid)) continue;
      const isProcessed = shown.current_state === 'PROCESSED';
      if (!isProcessed || names(shown, sample))
        candidates.push({ uuid: shown.uuid, creator: shown.created_by, isProcessed });
    }
    if (recent.length < items.length || pages === listPagesMost) break;
  }
  if (candidates.length === 0) return { is: 'none' };
  const own = await readCreator(work);
  // Before the first one is known, ours cannot be told from those of others: then the same POST is made again, under its key.
  const possible = candidates.filter(({ creator }) => creator === undefined || creator === own);
  const found = possible.find(({ isProcessed }) => isProcessed);
  if (found) return { is: 'found', uuid: found.uuid };
  if (possible.length > 0) return { is: 'perhaps' };
  const count = candidates.filter(({ isProcessed }) => isProcessed).length;
  return own === undefined && count > 0 ? { is: 'alike', count } : { is: 'none' };
}

const creatorForm = z.looseObject({ result: z.looseObject({ created_by: z.string().optional() }) });

/** Returns whom the source names as the creator of our submissions; undefined where it names none, or has had none. */
async function readCreator({ client, database, source, signal }: IntakeWork): Promise<string | undefined> {
  const uuid = await lastSubmitted(database, source.name);
  if (uuid === undefined) return undefined;
  try {
    const path = `${submissionsPath}/${encodeURIComponent(uuid)}`;
    const { result } = await client.call({ method: 'GET', path }, creatorForm, signal);
    return result.created_by;
  } catch (error) {
    // A source that was restored from a copy does not know it any more.
    if (error instanceof AnswerError && error.status === 404) return undefined;
    throw error;
  }
}

/** Whether the submission's own texts name all of these suppliers, as whole words. */
function names(candidate: object, sample: readonly string[]): boolean {
  const text = JSON.stringify(candidate);
  return sample.every((key) => {
    for (let at = text.indexOf(key); at >= 0; at = text.indexOf(key, at + 1)) {
      const around = `${text[at - 1] ?? ''}${text[at + key.length] ?? ''}`;
      if (!/[\p{L}\p{N}_-]/u.test(around)) return true;
    }
    return false;
  });
}
