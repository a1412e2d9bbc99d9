/** What an intake would send now, for a person; changes nothing. */
import type { AcquireLease } from '#bridge/ledger/leases/lease.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { timestampNow } from '#platform/clock.ts';
import { compareRecords, compareStage } from './compare-stage.ts';
import type { IntakeDeps, IntakeWork } from './intake-deps.ts';
import { readIntake } from './intake-store.ts';
import { isReadDue, readStage } from './read-stage.ts';
import { type IntakeAction, readToSend } from './record-store.ts';
import { compareRequisitions } from './requisitions/compare-requisitions.ts';

export interface PlannedSupplier {
  readonly action: IntakeAction;
  readonly erpKey: string;
  readonly key: string;
  readonly name: string;
  readonly change: SupplierChange;
}

const actions: readonly IntakeAction[] = ['create', 'update', 'archive'];

/**
 * Reads the ERP if its time has come, and compares; submits nothing. Returns false while another process works the
 * intake: then that one does both.
 */
export async function refreshIntake(
  deps: IntakeDeps & { acquireLease: AcquireLease },
  signal: AbortSignal,
): Promise<boolean> {
  const lease = await deps.acquireLease(`intake/${deps.intake.name}`);
  if (!lease) return false;
  try {
    const work: IntakeWork = { ...deps, lease, signal };
    const state = await readIntake(deps.database, deps.intake);
    if (state && isReadDue(state, timestampNow(deps.clock))) await readStage(work);
    await (deps.intake.stream === 'supplier' ? compareStage(work) : compareRequisitions(work));
    return true;
  } finally {
    await lease.release();
  }
}

/** Returns the suppliers that would be sent by these actions, those that have waited longest first. */
export async function planIntake(
  deps: Pick<IntakeDeps, 'intake' | 'wantedOf' | 'clock' | 'database'>,
  limit: number,
  only: readonly IntakeAction[] = actions,
): Promise<PlannedSupplier[]> {
  const { database, intake } = deps;
  const compared = await compareRecords(database, deps, await readToSend(database, intake.name, only, limit));
  return compared.flatMap(({ row, compared: result, change, wanted }) =>
    result.is === 'differs' && change && wanted && row.key !== null
      ? [{ action: result.action, erpKey: row.erpKey, key: row.key, name: wanted.name, change }]
      : [],
  );
}

/** A change in words: `name "Acme Ltd"; City "Rome"; contact a@b.c added or renamed; archived`. */
export function changeText({ name, fields, contacts, archived }: SupplierChange): string {
  return [
    ...(name === undefined ? [] : [`name ${JSON.stringify(name)}`]),
    ...Object.entries(fields ?? {}).map(([field, value]) =>
      value === '' ? `${field} emptied` : `${field} ${JSON.stringify(value)}`,
    ),
    ...(contacts ?? []).map((contact) =>
      contact.delete === true
        ? `contact ${contact.email} deleted`
        : `contact ${contact.email} ${JSON.stringify(contact.name)}`,
    ),
    ...(archived === undefined ? [] : [archived ? 'archived' : 'taken out of the archive']),
  ].join('; ');
}
