/**
 * The last stage of an intake's work: it packs what differs into submissions. The intent is committed before the POST,
 * the source's id after it. Several submissions may be open at once; a supplier is in one of them at most.
 *
 * Example: 2,400 suppliers differ, 1,000 fit into a submission.
 *
 *     12:00:00  intent   S1 with 1,000 suppliers, in one transaction with its records
 *     12:00:00  POST     under the key S1
 *     12:00:01  sent     the service's id 7c.. is stored
 *     12:00:01  intent   S2 with 1,000 suppliers, and so on; a supplier that changes meanwhile waits for its turn
 *     12:00:05  look     7c.. is processed: 998 taken, 2 refused: two dead letters with the service's words
 *
 *     killed before the intent    nothing was committed
 *     killed before the id        S1 stands; once its POST can no longer run, it is made again under the key S1
 *                                 (`look-stage.ts`)
 *     killed after the id         the next process looks at 7c..
 *     S1 is refused as a whole    S3 and S4 carry one half of its suppliers each, until a single one is refused
 */
import { randomUUID } from 'node:crypto';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { compareRecords, storeComparison } from './compare-stage.ts';
import { guardArchives } from './guard-archives.ts';
import type { IntakeWork } from './intake-deps.ts';
import {
  holdSending,
  type IntakeState,
  noteSent,
  openMost,
  pauseIntakeFor,
  readIntake,
  storeBegun,
} from './intake-store.ts';
import { type Posted, postSubmission } from './post-submission.ts';
import {
  type IntakeAction,
  moveToSubmission,
  putIntoSubmission,
  readSubmitted,
  readToSend,
  type SubmittedRecord,
  settleRecords,
} from './record-store.ts';
import { endSubmission, insertSubmission, readOpenSubmissions, storeSent, storeUncertain } from './submission-store.ts';

/** A body of the API has at most 10 MB. */
const bodyBytesMax = 8_000_000;
/** After the end of a POST the source may still be working on it. */
export const lateEffectMs = 10_000;
/** After so many POSTs without an answer a submission is divided: one of its suppliers may be what the source fails at. */
const postsMost = 3;
/** So long a single supplier waits at which the source fails, and lets the others pass. */
const failedAloneMs = 10 * 60_000;

interface Pack {
  readonly id: string;
  readonly records: readonly SubmittedRecord[];
  /** This POST among those of the submission. */
  readonly posts: number;
}

/** Sends until nothing is left to send, or nothing more may be sent now. Rejects with LeaseLost. */
export async function sendStage(work: IntakeWork): Promise<void> {
  const { lease, signal } = work;
  for (;;) {
    signal.throwIfAborted();
    const pack = await lease.transaction((tx) => nextPack(tx, work));
    if (pack === 'again') continue;
    if (pack === undefined) return;
    if (!(await sendPack(work, pack))) return;
  }
}

/** Makes the POST of a submission whose intent is committed. Returns whether the next one may be sent. */
export async function sendPack(work: IntakeWork, pack: Pack): Promise<boolean> {
  const { client, lease, signal } = work;
  const changes = pack.records.map(({ change }) => change);
  const posted = await lease.during((lost) =>
    postSubmission(client, changes, pack.id, AbortSignal.any([signal, lost])),
  );
  return settlePosted(work, pack, posted);
}

async function settlePosted(work: IntakeWork, pack: Pack, posted: Posted): Promise<boolean> {
  const { intake, lease, log } = work;
  if (posted.is === 'taken') {
    await lease.transaction((tx) => storePosted(tx, work, pack.id, posted.uuid));
    return true;
  }
  log.warn({ intake: intake.name, submission: pack.id, end: posted.is }, posted.why);
  if (posted.is === 'refused') {
    await lease.transaction((tx) =>
      pack.records.length > 1
        ? divide(tx, work, pack, posted.why)
        : release(tx, work, pack.id, { why: posted.why, refused: true }),
    );
    return true;
  }
  await lease.transaction(async (tx) => {
    const until = await waitAfter(tx, work, posted);
    if (posted.is === 'uncertain' && pack.posts >= postsMost) await giveUp(tx, work, pack, posted.why);
    // That this POST did nothing says nothing of the one before.
    else if (posted.is === 'uncertain' || pack.posts > 1) await storeUncertain(tx, pack.id, posted.why, until);
    else await release(tx, work, pack.id, { why: posted.why, refused: false });
  });
  return false;
}

/** Stores that the source has taken a submission or a job, and given it this id. */
export async function storePosted(tx: Sql, { intake, clock }: IntakeWork, id: string, uuid: string): Promise<void> {
  const waitMs = retryWaitMs(retrySchedules.submissionLook, 0);
  await storeSent(tx, id, uuid, timestampFromMs(clock.nowMs() + waitMs));
  await noteSent(tx, intake.name);
}

/** After a POST that was not taken nothing is sent for a while, or until a person acts. Returns until when. */
export async function waitAfter(
  tx: Sql,
  { intake, clock }: IntakeWork,
  posted: Extract<Posted, { is: 'not-taken' | 'limited' | 'uncertain' }>,
): Promise<Timestamp> {
  const floorMs = posted.is === 'uncertain' ? lateEffectMs : posted.waitMs;
  const failures = (await readIntake(tx, intake))?.sendFailures ?? 0;
  const waitMs = posted.is === 'limited' ? floorMs : retryWaitMs(retrySchedules.submission, failures, { floorMs });
  const until = timestampFromMs(clock.nowMs() + waitMs);
  if (posted.is === 'not-taken' && posted.pause)
    await pauseIntakeFor(tx, intake.name, { kind: posted.pause, reason: posted.why }, timestampNow(clock));
  await holdSending(tx, intake.name, { until, error: posted.why, failed: posted.is !== 'limited' });
  return until;
}

/** The source has failed at this submission several times. */
async function giveUp(tx: Sql, work: IntakeWork, pack: Pack, why: string): Promise<void> {
  const { intake, clock } = work;
  if (pack.records.length > 1) return divide(tx, work, pack, why);
  await release(tx, work, pack.id, { why, refused: false, mayHaveArrived: true });
  await tx.query('update bridge.intake_records set due = $3, last_error = $4 where intake = $1 and erp_key = any($2)', [
    intake.name,
    pack.records.map(({ erpKey }) => erpKey),
    timestampFromMs(clock.nowMs() + failedAloneMs),
    storableText(why),
  ]);
}

/** Puts the records of a submission into two new ones, which are sent at their next look. */
async function divide(tx: Sql, { intake, source, clock }: IntakeWork, { id, records }: Pack, why: string) {
  const now = timestampNow(clock);
  const middle = Math.ceil(records.length / 2);
  for (const half of [records.slice(0, middle), records.slice(middle)]) {
    const of = { id: randomUUID(), intake: intake.name, source: source.name, records: half.length, now };
    await insertSubmission(tx, { ...of, posts: 0, ends: now, nextLook: now });
    await moveToSubmission(
      tx,
      { intake: intake.name, from: id, to: of.id },
      half.map(({ erpKey }) => erpKey),
    );
  }
  await endSubmission(tx, id, { state: 'released', error: why, now });
}

/** Ends a submission that did not take effect, as far as can be known: its records wait again, or are refused. */
export async function release(
  tx: Sql,
  { intake, clock }: Pick<IntakeWork, 'intake' | 'clock'>,
  id: string,
  { why, refused, mayHaveArrived = false }: { why: string; refused: boolean; mayHaveArrived?: boolean },
): Promise<void> {
  const now = timestampNow(clock);
  const records = await readSubmitted(tx, intake.name, id);
  await settleRecords(
    tx,
    { intake: intake.name, submission: id },
    records.map(({ erpKey, change }) => ({
      erpKey,
      outcome: refused ? 'refused' : null,
      archives: mayHaveArrived && change.archived === true,
      message: why,
    })),
    now,
  );
  await endSubmission(tx, id, { state: 'released', error: why, now });
}

/** Returns the next submission, its intent written; undefined when nothing is or may be sent. */
async function nextPack(tx: Sql, work: IntakeWork): Promise<Pack | 'again' | undefined> {
  const { intake, source, clock } = work;
  const now = timestampNow(clock);
  const state = await readIntake(tx, intake);
  if (!state || !maySend(state, now)) return undefined;
  const open = await readOpenSubmissions(tx, intake.name);
  if (open.length >= openMost || open.some(({ state: is }) => is !== 'sent')) return undefined;
  const waiting = await countToSend(tx, intake.name);
  if (waiting.total === 0) return undefined;
  if (state.begun === null && !(await begins(tx, work, waiting))) return undefined;
  const actions: IntakeAction[] = ['create', 'update'];
  if (waiting.archive > 0) {
    const reason = await guardArchives(tx, intake, now);
    if (reason !== undefined) {
      await pauseIntakeFor(tx, intake.name, { kind: 'archives', reason }, now);
      return undefined;
    }
    actions.push('archive');
  }
  const compared = await compareRecords(tx, work, await readToSend(tx, intake.name, actions, intake.submission_max));
  const stale = compared.filter(({ compared: { is } }) => is !== 'differs');
  await storeComparison(tx, work, stale);
  const ready = compared.flatMap(({ row, change, wanted, compared: result }): SubmittedRecord[] =>
    result.is === 'differs' && change && wanted && row.key !== null
      ? [{ erpKey: row.erpKey, key: row.key, version: row.version, change, base: wanted }]
      : [],
  );
  if (ready.length === 0) return stale.length > 0 ? 'again' : undefined;
  const records = fitting(ready).sort((a, b) => (a.erpKey < b.erpKey ? -1 : 1));
  const id = randomUUID();
  await insertSubmission(tx, {
    id,
    intake: intake.name,
    source: source.name,
    records: records.length,
    posts: 1,
    now,
    ...endsOf(clock.nowMs(), source.timeout_seconds),
  });
  await putIntoSubmission(tx, intake.name, id, records);
  return { id, records, posts: 1 };
}

/** When a POST that begins now has ended, and when it can no longer take effect. */
export function endsOf(nowMs: number, timeoutSeconds: number): { ends: Timestamp; nextLook: Timestamp } {
  const endsMs = nowMs + timeoutSeconds * 1000;
  return { ends: timestampFromMs(endsMs), nextLook: timestampFromMs(endsMs + lateEffectMs) };
}

function maySend(state: IntakeState, now: string): boolean {
  const isReady = state.lastRead !== null && state.listPulled !== null;
  return isReady && state.pausedKind === null && (state.nextSend === null || state.nextSend <= now);
}

interface Waiting {
  readonly create: number;
  readonly update: number;
  readonly archive: number;
  readonly total: number;
}

async function countToSend(tx: Sql, intake: string): Promise<Waiting> {
  const rows = await tx.query<{ action: IntakeAction; count: number }>(
    `select action, count(*)::int as count from bridge.intake_records
     where intake = $1 and action is not null and submission is null and dead_since is null group by action`,
    [intake],
  );
  const of = (action: IntakeAction) => rows.find((row) => row.action === action)?.count ?? 0;
  const [create, update, archive] = [of('create'), of('update'), of('archive')];
  return { create, update, archive, total: create + update + archive };
}

/** Whether the first submission may be made: at once at a service without suppliers, else when a person has agreed. */
async function begins(tx: Sql, { intake, clock }: IntakeWork, waiting: Waiting): Promise<boolean> {
  const now = timestampNow(clock);
  const there = await tx.query(`select from bridge.resources where source = $1 and kind = 'supplier-master' limit 1`, [
    intake.source,
  ]);
  if (there.length === 0) {
    await storeBegun(tx, intake.name, now);
    return true;
  }
  const reason =
    `it is the first run, and the service has suppliers already: ${waiting.create} would be created, ` +
    `${waiting.update} changed, ${waiting.archive} archived. Look at them with: bridge plan ${intake.name}. ` +
    `If that is right: bridge resume ${intake.name}`;
  await pauseIntakeFor(tx, intake.name, { kind: 'first-run', reason }, now);
  return false;
}

/** As many records, from the first on, as fit into a body. One always fits: the API bounds its size. */
function fitting(records: readonly SubmittedRecord[]): SubmittedRecord[] {
  let bytes = 0;
  const fits: SubmittedRecord[] = [];
  for (const record of records) {
    bytes += Buffer.byteLength(JSON.stringify(record.change satisfies SupplierChange)) + 1;
    if (bytes > bodyBytesMax && fits.length > 0) break;
    fits.push(record);
  }
  return fits;
}
