/** Where an ERP's supplier is on its way to the service, and what was sent of it: for `find` and `history`. */
import type { ReadStream } from '#connector/records.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { nameInRecord } from './control-intakes.ts';
import type { IntakeHistoryEntry } from './intake-history-entry.ts';
import { changeText } from './plan-intake.ts';
import { readRequisitionHistory } from './requisitions/requisition-history.ts';

export type IntakeRecordState = 'dead' | 'submitted' | 'to send' | 'to compare' | 'in step' | 'left out';

export interface FoundIntakeRecord {
  readonly intake: string;
  readonly stream: ReadStream;
  readonly erpKey: string;
  /** At the service: the supplier's external id, or the event that the requisition is in. */
  readonly key: string | null;
  readonly name: string | null;
  readonly version: number;
  readonly linked: string | null;
  readonly state: IntakeRecordState;
  readonly since: Timestamp;
  readonly why: string | null;
  readonly submitted: Timestamp | null;
}

interface Row extends Omit<FoundIntakeRecord, 'name' | 'state' | 'since' | 'why'> {
  readonly body: string;
  readonly seen: Timestamp;
  readonly waiting: Timestamp | null;
  readonly submission: string | null;
  readonly action: string | null;
  readonly due: Timestamp | null;
  readonly base: string | null;
  readonly deadSince: Timestamp | null;
  readonly lastError: string | null;
  readonly note: string | null;
}

/**
 * Returns records of configured intakes whose number, external id or name fits the text: exact numbers first. Reads all
 * records of the intakes; a hundred thousand take about 0.1 s.
 */
export async function findIntakeRecords(
  sql: Sql,
  { text, intake, limit }: { text: string; intake?: string | undefined; limit: number },
): Promise<FoundIntakeRecord[]> {
  const rows = await sql.query<Row>(
    `select r.intake, i.stream, r.erp_key as "erpKey", coalesce(r.key, e.entity) as key, r.version, r.linked, r.submitted, r.body, r.seen,
       r.waiting_since as waiting, r.submission, r.action, r.due, r.base, r.dead_since as "deadSince",
       r.last_error as "lastError", r.note
     from bridge.intake_records r join bridge.intakes i on i.name = r.intake and i.configured
     left join bridge.intake_members m on m.intake = r.intake and m.erp_key = r.erp_key and m.live
     left join bridge.intake_events e on e.id = m.event
     where ($2::text is null or r.intake = $2)
       and (r.erp_key = $1 or r.key = $1 or e.entity = $1 or lower(r.body) like '%"name":' || $3 || '%')
     order by (r.erp_key = $1 or r.key = $1) desc, r.intake, r.erp_key limit $4`,
    [text, intake ?? null, `"%${escapeLike(JSON.stringify(text.toLowerCase()).slice(1, -1))}`, limit],
  );
  return rows.map(({ body, seen, waiting, submission, action, due, base, deadSince, lastError, note, ...row }) => {
    const state: IntakeRecordState =
      deadSince !== null
        ? 'dead'
        : submission !== null
          ? 'submitted'
          : action !== null
            ? 'to send'
            : due !== null
              ? 'to compare'
              : (row.stream === 'supplier' ? base : row.key) === null
                ? 'left out'
                : 'in step';
    const since = deadSince ?? waiting ?? row.submitted ?? seen;
    return { ...row, name: nameInRecord(body), state, since, why: lastError ?? note };
  });
}

function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, '\\$&');
}

/** Returns what was read and sent of one record, oldest first; at most `limit` of each. */
export async function readIntakeHistory(
  sql: Sql,
  { intake, erpKey, limit }: { intake: string; erpKey: string; limit: number },
): Promise<IntakeHistoryEntry[]> {
  const versions = await sql.query<{ version: number; seen: Timestamp }>(
    'select version, seen from bridge.intake_records where intake = $1 and erp_key = $2',
    [intake, erpKey],
  );
  const attempts = await sql.query<{
    version: number;
    change: string;
    outcome: 'taken' | 'refused' | 'released' | null;
    message: string | null;
    created: Timestamp;
    ended: Timestamp | null;
    id: string;
    uuid: string | null;
    records: number;
    state: string;
    error: string | null;
  }>(
    `select a.version, a.change, a.outcome, a.message, s.created, s.ended, s.id, s.uuid, s.records, s.state,
       s.last_error as error
     from bridge.intake_attempts a join bridge.intake_submissions s on s.id = a.submission
     where a.intake = $1 and a.erp_key = $2 order by s.created desc limit $3`,
    [intake, erpKey, limit],
  );
  const entries: IntakeHistoryEntry[] = versions.map(({ version, seen }) => ({
    at: seen,
    step: 'read',
    text: `version ${version} was read from the ERP`,
  }));
  for (const attempt of attempts) {
    const change = changeText(JSON.parse(attempt.change) as SupplierChange);
    const others = attempt.records === 1 ? '' : ` with ${attempt.records - 1} others`;
    const open = attempt.outcome === null ? `; ${attempt.error ?? 'the service has not processed it yet'}` : '';
    const id = attempt.uuid ?? 'no id yet';
    entries.push({ at: attempt.created, step: 'sent', text: `${change} (submission ${id}${others})${open}` });
    if (attempt.outcome !== null && attempt.ended !== null)
      entries.push({ at: attempt.ended, step: attempt.outcome, text: attempt.message ?? 'by the service' });
  }
  entries.push(...(await readRequisitionHistory(sql, { intake, erpKey, limit })));
  return entries.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}
