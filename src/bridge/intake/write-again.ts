/**
 * Makes flows write again what a user of the service has set back. A flow writes nothing while a supplier is as it was
 * delivered last; but an intake may have brought another value from the ERP in between. Example:
 *
 *     12:00  the flow delivers "Acme"
 *     12:01  a user of the ERP changes it to "Acme Ltd"
 *     12:02  the intake brings "Acme Ltd" to the service
 *     12:03  a user of the service sets it back to "Acme", before the supplier list is read
 *
 * For the flow nothing has changed since 12:00, and the ERP would keep "Acme Ltd".
 */
import { lockSources } from '#bridge/mirror/due/source-lock.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { IntakeDeps } from './intake-deps.ts';

/** A supplier that differs on both sides although nothing is to be sent: a flow is expected to take it to the ERP. */
export interface LeftToFlow {
  readonly erpKey: string;
  readonly key: string;
  /** What the ERP has otherwise. */
  readonly differs: SupplierChange;
}

/**
 * Makes the flows' documents due that were delivered before the intake brought a member that differs now, and that wait
 * for nothing. Once such a document was delivered, only another change of the ERP makes it due again here.
 */
export async function writeAgain(
  tx: Sql,
  { intake, clock, log }: Pick<IntakeDeps, 'intake' | 'clock' | 'log'>,
  left: readonly LeftToFlow[],
): Promise<void> {
  if (left.length === 0) return;
  await lockSources(tx, [intake.source]);
  const brought = await tx.query<{ flow: string; key: string; change: string }>(
    `select d.flow, d.key, a.change
     from unnest($3::text[], $4::text[]) as g (erp_key, key)
     join bridge.flow_documents d on d.kind = 'supplier' and d.key = g.key
     join bridge.flows f on f.name = d.flow and f.source = $2 and 'supplier' = any(f.kinds)
     join bridge.intake_attempts a on a.intake = $1 and a.erp_key = g.erp_key and a.outcome = 'taken'
     join bridge.intake_submissions s on s.id = a.submission and s.ended > d.delivered
     where d.due is null and d.intent_id is null and d.dead_since is null and d.delivered_hash is not null`,
    [intake.name, intake.source, left.map(({ erpKey }) => erpKey), left.map(({ key }) => key)],
  );
  const differs = new Map(left.map((each) => [each.key, each.differs]));
  const again = brought.filter(({ key, change }) => sharesMember(differs.get(key), JSON.parse(change)));
  if (again.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set wanted = d.wanted + 1, due = $3, waiting_since = $3, attempts = 0, forced = true
     from unnest($1::text[], $2::text[]) as g (flow, key)
     where d.flow = g.flow and d.kind = 'supplier' and d.key = g.key and d.due is null`,
    [again.map(({ flow }) => flow), again.map(({ key }) => key), timestampNow(clock)],
  );
  const suppliers = [...new Set(again.map(({ key }) => key))];
  log.info(
    { intake: intake.name, suppliers: suppliers.slice(0, 10), count: suppliers.length },
    'users of the service have set back what the ERP had changed; the flows write it again',
  );
}

/** Whether both changes are about the same name, attribute, archiving or contact. */
function sharesMember(one: SupplierChange | undefined, other: SupplierChange): boolean {
  const names = membersOf(other);
  return one !== undefined && membersOf(one).some((name) => names.includes(name));
}

function membersOf({ name, archived, fields, contacts }: SupplierChange): string[] {
  return [
    ...(name === undefined ? [] : ['name']),
    ...(archived === undefined ? [] : ['archived']),
    ...Object.keys(fields ?? {}).map((field) => `field ${field}`),
    ...(contacts ?? []).map(({ email }) => `contact ${email.toLowerCase()}`),
  ];
}
