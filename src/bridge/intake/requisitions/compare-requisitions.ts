/**
 * The second stage of an intake of requisitions: it decides what each changed requisition needs. A new one joins the
 * event that its group gathers, a changed one marks its event for an update. It sends nothing, so it also runs while the
 * intake is paused.
 *
 * Example: `group: { by: "{category}", most: 50, wait_minutes: 30 }`.
 *
 *     12:00  PR-1 (Steel, 2 lines)    a new event of the group Steel gathers until 12:30
 *     12:10  PR-2 (Steel, 40 lines)   joins it: 42 lots
 *     12:20  PR-3 (Steel, 20 lines)   does not fit: a second event of the group gathers until 12:50
 *     12:25  PR-1 is withdrawn        leaves the first event
 *     12:30                           the first event is made, of PR-2
 *     12:40  PR-2 has a line more     the event is a draft still: it is updated
 */

import { recordSchemas } from '#connector/records.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { sha256 } from '#platform/sha256.ts';
import type { IntakeDeps, IntakeWork } from '../intake-deps.ts';
import { readIntake } from '../intake-store.ts';
import { type ComparisonResult, storeCompared } from '../record-store.ts';
import {
  type DueRequisition,
  joinGroup,
  leaveGroup,
  markUpdateDue,
  readDueRequisitions,
  updateMember,
} from './event-store.ts';

import type { Wish } from './requisition-need.ts';

/** A requisition may carry files of some megabytes. */
const batchRecords = 20;
const laterMs = 5_000;

/** The hash of a requisition that wants nothing. */
export const withdrawnHash = sha256('withdrawn');

/** Compares everything that is to be compared, once the ERP was read to its end. Rejects with LeaseLost. */
export async function compareRequisitions(work: IntakeWork): Promise<void> {
  const { intake, lease, clock, signal } = work;
  for (;;) {
    signal.throwIfAborted();
    const compared = await lease.transaction(async (tx) => {
      const state = await readIntake(tx, intake);
      if (!state?.lastRead) return 0;
      const now = timestampNow(clock);
      const rows = await readDueRequisitions(tx, intake.name, now, batchRecords);
      const results: ComparisonResult[] = [];
      for (const row of rows) results.push(await compareOne(tx, work, row, now));
      await storeCompared(tx, intake.name, results, now);
      return rows.length;
    });
    if (compared === 0) return;
  }
}

/** Reads a stored record, and returns what it asks for. */
export function wishOfBody(wishOf: IntakeDeps['wishOf'], body: string): Wish {
  const record = recordSchemas.requisition.safeParse(JSON.parse(body));
  if (!record.success) return { is: 'refused', why: "The ERP's record cannot be read; correct it there." };
  return wishOf(record.data);
}

async function compareOne(tx: Sql, deps: IntakeDeps, row: DueRequisition, now: Timestamp): Promise<ComparisonResult> {
  const { erpKey, event, state } = row;
  const wish = wishOfBody(deps.wishOf, row.body);
  const same: ComparisonResult = { is: 'same', erpKey, base: undefined, confirmed: true, masterHash: null };
  const create: ComparisonResult = { is: 'differs', erpKey, action: 'create', masterHash: null };
  if (event === null || state === null) {
    if (wish.is === 'refused') return { is: 'dead', erpKey, type: 'data', why: wish.why };
    if (wish.is === 'withdrawn') return same;
    await join(tx, deps, { erpKey, wish, now });
    return create;
  }
  if (state === 'gathering') {
    if (wish.is === 'wanted' && wish.groupKey === row.groupKey) {
      await updateMember(tx, { event, erpKey, lots: wish.need.lots.length, needHash: wish.hash });
      return create;
    }
    await leaveGroup(tx, event, [erpKey]);
    if (wish.is === 'refused') return { is: 'dead', erpKey, type: 'data', why: wish.why };
    if (wish.is === 'withdrawn') return same;
    await join(tx, deps, { erpKey, wish, now });
    return create;
  }
  if (state === 'held') return { is: 'dead', erpKey, type: 'uncertain', why: row.eventError ?? 'its event may exist' };
  if (state !== 'made') return { is: 'later', erpKey, due: timestampFromMs(deps.clock.nowMs() + laterMs) };
  if (wish.is === 'refused') return { is: 'dead', erpKey, type: 'data', why: wish.why };
  const wanted = wish.is === 'wanted' ? wish.hash : withdrawnHash;
  if (row.needHash?.equals(wanted) || row.toldHash?.equals(wanted)) return same;
  await markUpdateDue(tx, event, now);
  return { is: 'differs', erpKey, action: 'update', masterHash: null };
}

async function join(
  tx: Sql,
  { intake, clock }: IntakeDeps,
  { erpKey, wish, now }: { erpKey: string; wish: Extract<Wish, { is: 'wanted' }>; now: Timestamp },
): Promise<void> {
  const { name, source, make = 'event', group } = intake;
  await joinGroup(tx, {
    intake: name,
    source,
    make,
    groupKey: wish.groupKey,
    erpKey,
    lots: wish.need.lots.length,
    needHash: wish.hash,
    // Without groups, each has its own: also one that comes again after its event was refused.
    most: group?.most ?? 0,
    now,
    ready: group ? timestampFromMs(clock.nowMs() + group.wait_minutes * 60_000) : now,
  });
}
