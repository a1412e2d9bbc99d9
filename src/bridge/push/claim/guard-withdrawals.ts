import { guardHours } from '#bridge/ledger/flows/agreements.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/**
 * Returns why no withdrawal of this flow may be sent now; undefined when they may be sent. The withdrawals that wait
 * and those that the ERP took within the last `guardHours` are counted together, because a pull of many pages
 * brings them little by little. Withdrawals to which an operator has agreed are not counted: documents that differed
 * from the ERP at the time of the agreement.
 */
export async function guardWithdrawals(tx: Sql, flow: FlowSettings, now: Timestamp): Promise<string | undefined> {
  const { most, share } = flow.withdrawals;
  const since = timestampFromMs(msFromTimestamp(now) - guardHours * 3_600_000);
  const [counted] = await tx.query<{ waiting: number; withdrawn: number }>(
    `select
       (select count(*)::int from bridge.flow_documents d
        where d.flow = f.name and d.due is not null
          -- One that was sent, and whose outcome is unknown, counts also after its document has changed again.
          and (d.withdraws = d.wanted or (d.withdraws is not null and d.intent_id is not null))
          and (d.delivered_hash is not null or d.intent_id is not null)
          and (d.waiting_since <= f.withdrawals_agreed) is not true) as waiting,
       (select count(*)::int from bridge.flow_documents d where d.flow = f.name and d.withdrawn > $2) as withdrawn
     from bridge.flows f where f.name = $1`,
    [flow.name, since],
  );
  const { waiting = 0, withdrawn = 0 } = counted ?? {};
  if (waiting === 0 || waiting + withdrawn <= most) return undefined;
  // Not before, as this statement reads every document of the flow. What is being created now is not delivered yet.
  const [held] = await tx.query<{ count: number }>(
    `select count(*)::int as count from bridge.flow_documents
     where flow = $1 and (delivered_hash is not null or (intent_id is not null and withdraws = wanted))`,
    [flow.name],
  );
  const delivered = (held?.count ?? 0) + withdrawn;
  if (waiting + withdrawn <= share * delivered) return undefined;
  const before = withdrawn === 0 ? '' : ` (${withdrawn} were withdrawn within the last ${guardHours} h)`;
  return (
    `${waiting} of ${delivered} delivered documents are to be withdrawn at once${before}. ` +
    `If that is right, agree to it: bridge resume ${flow.name} --agree`
  );
}
