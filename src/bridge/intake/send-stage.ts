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
 *     killed before the id        S1 stands; once its POST can no longer run, the service's list of submissions is
 *                                 searched for one that names the same suppliers (`look-stage.ts`)
 *     killed after the id         the next process looks at 7c..
 */
import { randomUUID } from 'node:crypto';
import type { SupplierChange } from '#contract/supplier.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { retrySchedules, retryWaitMs } from '../retry-schedules.ts';
import { unseenAttributes } from './attributes.ts';
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
  storePackMax,
} from './intake-store.ts';
import { type Posted, postSubmission } from './post-submission.ts';
import {
  type IntakeAction,
  putIntoSubmission,
  readSubmitted,
  readToSend,
  type SubmittedRecord,
  settleRecords,
} from './record-store.ts';
import { endSubmission, insertSubmission, readOpenSubmissions, storeSent, storeUncertain } from './submission-store.ts';

/** A body of the API has at most 10 MB. */
const bodyBytesMax = 8_000_000;
/** How many suppliers try attributes that the source has not shown yet. */
const canariesMost = 20;
/** After the end of a POST the source may still be working on it. */
export const lateEffectMs = 10_000;

interface Pack {
  readonly id: string;
  readonly records: readonly SubmittedRecord[];
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
export async function sendPack(work: IntakeWork, { id, records }: Pack): Promise<boolean> {
  const { client, lease, signal } = work;
  const changes = records.map(({ change }) => change);
  const posted = await lease.during((lost) => postSubmission(client, changes, id, AbortSignal.any([signal, lost])));
  return settlePosted(work, { id, records }, posted);
}

async function settlePosted(work: IntakeWork, pack: Pack, posted: Posted): Promise<boolean> {
  const { intake, lease, clock, log } = work;
  const nowMs = clock.nowMs();
  const now = timestampFromMs(nowMs);
  if (posted.is === 'taken') {
    const look = timestampFromMs(nowMs + retryWaitMs(retrySchedules.submissionLook, 0));
    await lease.transaction(async (tx) => {
      await storeSent(tx, pack.id, posted.uuid, look);
      await noteSent(tx, intake.name);
      await growPack(tx, work);
    });
    return true;
  }
  log.warn({ intake: intake.name, submission: pack.id, end: posted.is }, posted.why);
  if (posted.is === 'uncertain') {
    await lease.transaction((tx) => storeUncertain(tx, pack.id, posted.why, timestampFromMs(nowMs + lateEffectMs)));
    return false;
  }
  await lease.transaction(async (tx) => {
    const state = await readIntake(tx, intake);
    const onlyOne = posted.is === 'refused' && pack.records.length === 1;
    await release(tx, work, pack.id, { why: posted.why, refused: onlyOne });
    if (posted.is === 'refused') {
      if (!onlyOne) await storePackMax(tx, intake.name, Math.ceil(pack.records.length / 2));
      return;
    }
    if (posted.is === 'not-taken' && posted.pause)
      await pauseIntakeFor(tx, intake.name, { kind: posted.pause, reason: posted.why }, now);
    const failures = state?.sendFailures ?? 0;
    const waitMs =
      posted.is === 'limited'
        ? posted.waitMs
        : retryWaitMs(retrySchedules.submission, failures, { floorMs: posted.waitMs });
    const until = timestampFromMs(nowMs + waitMs);
    await holdSending(tx, intake.name, { until, error: posted.why, failed: posted.is !== 'limited' });
  });
  return posted.is === 'refused';
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
      held: undefined,
      archives: mayHaveArrived && change.archived === true,
      message: why,
    })),
    now,
  );
  await endSubmission(tx, id, { state: 'released', refused: refused ? records.length : 0, error: why, now });
}

async function growPack(tx: Sql, { intake }: IntakeWork): Promise<void> {
  const state = await readIntake(tx, intake);
  if (!state?.packMax) return;
  const grown = state.packMax * 2;
  await storePackMax(tx, intake.name, grown >= intake.submission_max ? null : grown);
}

/** Returns the next submission, its intent written; undefined when nothing is or may be sent. */
async function nextPack(tx: Sql, work: IntakeWork): Promise<Pack | 'again' | undefined> {
  const { intake, source, clock } = work;
  const now = timestampNow(clock);
  const state = await readIntake(tx, intake);
  if (!state || !maySend(state, now)) return undefined;
  const open = await readOpenSubmissions(tx, intake.name);
  if (open.length >= openMost || open.some(({ canary, state: is }) => canary || is !== 'sent')) return undefined;
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
  const most = Math.min(intake.submission_max, state.packMax ?? intake.submission_max);
  const compared = await compareRecords(tx, work, await readToSend(tx, intake.name, actions, most));
  const stale = compared.filter(({ compared: { is } }) => is !== 'differs');
  await storeComparison(tx, work, stale);
  const ready = compared.flatMap(({ row, change, wanted, compared: result }): SubmittedRecord[] =>
    result.is === 'differs' && change && wanted && row.key !== null
      ? [{ erpKey: row.erpKey, key: row.key, version: row.version, change, base: wanted }]
      : [],
  );
  if (ready.length === 0) return stale.length > 0 ? 'again' : undefined;
  const chosen = await withCanaries(tx, source.name, ready);
  const records = fitting(chosen.records).sort((a, b) => (a.erpKey < b.erpKey ? -1 : 1));
  const id = randomUUID();
  const endsMs = clock.nowMs() + source.timeout_seconds * 1000;
  await insertSubmission(tx, {
    id,
    intake: intake.name,
    source: source.name,
    canary: chosen.canary,
    suppliers: records.length,
    now,
    ends: timestampFromMs(endsMs),
    nextLook: timestampFromMs(endsMs + lateEffectMs),
  });
  await putIntoSubmission(tx, intake.name, id, records);
  return { id, records };
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
    `${waiting.update} changed, ${waiting.archive} archived. Look at them with: bridge intake plan ${intake.name}. ` +
    `If that is right: bridge resume ${intake.name}`;
  await pauseIntakeFor(tx, intake.name, { kind: 'first-run', reason }, now);
  return false;
}

/**
 * When some carry attributes that the source has not shown yet, only the first of these go: were such an attribute
 * unknown there, it would otherwise be found out by a thousand refusals.
 */
async function withCanaries(tx: Sql, source: string, ready: readonly SubmittedRecord[]) {
  const names = new Set(ready.flatMap(({ change }) => Object.keys(change.fields ?? {})));
  const unseen = new Set(await unseenAttributes(tx, source, [...names]));
  if (unseen.size === 0) return { records: ready, canary: false };
  const canaries: SubmittedRecord[] = [];
  for (const record of ready) {
    const carried = Object.keys(record.change.fields ?? {}).filter((name) => unseen.has(name));
    if (carried.length === 0) continue;
    canaries.push(record);
    for (const name of carried) unseen.delete(name);
    if (unseen.size === 0 || canaries.length === canariesMost) break;
  }
  return { records: canaries, canary: true };
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
