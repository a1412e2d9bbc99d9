/**
 * The first stage of an intake's work: it reads what has changed in the ERP. Each page is one transaction with its
 * checkpoint, guarded by the lease. A kill at any point costs reading one page again, which changes nothing.
 */
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { IntakeWork } from './intake-deps.ts';
import {
  beginFullRead,
  type IntakeState,
  pauseIntakeFor,
  readIntake,
  storeProgress,
  storeReadFailure,
} from './intake-store.ts';
import { matchValuesOf } from './match-suppliers.ts';
import { type ErpPage, ReadFailed } from './read-erp.ts';
import { storePage } from './record-store.ts';
import { compareWithOpen } from './requisitions/missing-requisitions.ts';

/** One turn reads so long at most: then what it has read is compared and sent, and the next turn goes on. */
const turnMs = 10 * 60_000;
/** So many records of a page are named in the log. */
const namedMost = 100;

/** Whether the ERP is to be read now. A pause for another reason than the ERP's own does not stop reading. */
export function isReadDue(state: IntakeState, now: Timestamp): boolean {
  return state.nextRead <= now && state.pausedKind !== 'auth' && state.pausedKind !== 'config';
}

/** Reads to the end, if the ERP is to be read now. A failure is stored. Rejects with LeaseLost. */
export async function readStage(work: IntakeWork): Promise<void> {
  const { intake, lease, clock, signal } = work;
  const began = timestampNow(clock);
  const state = await lease.transaction(async (tx) => {
    const read = await readIntake(tx, intake);
    if (!read || !isReadDue(read, began)) return undefined;
    const begins = isFullDue(read, intake.full_hours, began);
    if (begins) await beginFullRead(tx, intake.name, began);
    return begins ? { ...read, checkpoint: null } : read;
  });
  if (!state) return;
  try {
    await readPages(work, state.checkpoint);
  } catch (error) {
    if (!(error instanceof ReadFailed) || signal.aborted) throw error;
    await storeFailure(work, state, error);
  }
}

function isFullDue({ checkpoint, fullBegan, lastFull }: IntakeState, hours: number, now: Timestamp): boolean {
  if (fullBegan !== null) return false;
  if (lastFull === null || checkpoint === null) return true;
  return hours > 0 && msFromTimestamp(now) - msFromTimestamp(lastFull) >= hours * 3_600_000;
}

async function readPages(work: IntakeWork, from: string | null): Promise<void> {
  const { intake, lease, reader, clock, signal } = work;
  const beganMs = clock.nowMs();
  let checkpoint = from;
  const pages = reader.read(checkpoint ?? undefined, signal);
  try {
    for (;;) {
      const asked = timestampNow(clock);
      const next = await lease.during(() => pages.next());
      if (next.done === true) break;
      checkpoint = next.value.checkpoint;
      await storeReadPage(work, next.value, asked);
      signal.throwIfAborted();
      if (clock.nowMs() - beganMs > turnMs) return;
    }
  } finally {
    await pages.return(undefined);
  }
  // After the read: what it has not read yet is not held, so the list cannot miss it.
  const open = await lease.during(
    (lost) => reader.listOpen?.(AbortSignal.any([signal, lost])) ?? Promise.resolve(undefined),
  );
  const now = timestampNow(clock);
  const nextRead = timestampFromMs(clock.nowMs() + intake.poll_seconds * 1000);
  await lease.transaction(async (tx) => {
    if (open) await compareWithOpen(tx, intake, { open, now });
    await storeProgress(tx, intake.name, { checkpoint, unreadable: 0, end: { now, nextRead } });
  });
}

async function storeReadPage(work: IntakeWork, page: ErpPage, seen: Timestamp): Promise<void> {
  const { intake, lease, clock, log, wantedOf } = work;
  const unreadable = page.bad.filter(({ erpKey }) => erpKey === undefined);
  if (unreadable.length > 0)
    log.warn(
      { intake: intake.name, records: unreadable.length, why: unreadable.slice(0, namedMost).map(({ why }) => why) },
      'the ERP sent records without a number that can be stored, or that cannot be read; they are left out',
    );
  const records = page.records.map((record) => ({
    record,
    matchValues: 'external_id' in record ? matchValuesOf(wantedOf(record), intake.match) : [],
  }));
  const changed = await lease.transaction(async (tx) => {
    const stored = await storePage(tx, {
      intake: intake.name,
      source: intake.source,
      records,
      bad: page.bad,
      seen,
      now: timestampNow(clock),
    });
    await storeProgress(tx, intake.name, { checkpoint: page.checkpoint, unreadable: unreadable.length });
    return stored;
  });
  work.count('read', changed);
}

async function storeFailure(work: IntakeWork, state: IntakeState, error: ReadFailed): Promise<void> {
  const { intake, lease, clock, log } = work;
  const { type, message, retryAfterMs = 0 } = error;
  const waitMs = retryWaitMs(retrySchedules.intakeRead, state.readFailures, { floorMs: retryAfterMs });
  log.warn({ intake: intake.name, why: message }, 'the ERP could not be read');
  await lease.transaction(async (tx) => {
    await storeReadFailure(tx, intake.name, { error: message, next: timestampFromMs(clock.nowMs() + waitMs) });
    if (type !== 'transient')
      await pauseIntakeFor(tx, intake.name, { kind: type, reason: message }, timestampNow(clock));
  });
}
