/** The life of a requisition after it was read: the jobs, the event, and the orders that flows made of its award. */
import { compareText } from '#bridge/documents/text-order.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { IntakeHistoryEntry } from '../intake-history-entry.ts';
import { newsText } from './acknowledge-stage.ts';
import type { News } from './acknowledgement-store.ts';
import type { MadeOf } from './job-store.ts';

const steps = { completed: 'taken', failed: 'refused', released: 'released', held: 'held' } as const;

/** Returns at most `limit` of each step, in no order. None for a record that is no requisition. */
export async function readRequisitionHistory(
  sql: Sql,
  { intake, erpKey, limit }: { intake: string; erpKey: string; limit: number },
): Promise<IntakeHistoryEntry[]> {
  const entries: IntakeHistoryEntry[] = [];
  const jobs = await sql.query<{
    kind: string;
    state: string;
    madeOf: string;
    created: Timestamp;
    ended: Timestamp | null;
    uuid: string | null;
    error: string | null;
  }>(
    `select s.kind, s.state, s.made_of as "madeOf", s.created, s.ended, s.uuid, s.last_error as error
     from bridge.intake_members m join bridge.intake_submissions s on s.event = m.event
     where m.intake = $1 and m.erp_key = $2 order by s.created desc limit $3`,
    [intake, erpKey, limit],
  );
  for (const { kind, state, madeOf, created, ended, uuid, error } of jobs) {
    const { lots, members, name } = JSON.parse(madeOf) as MadeOf;
    if (!members.some((member) => member.erpKey === erpKey)) continue;
    const own = lots.filter((lot) => lot.erpKey === erpKey).length;
    const others = members.length === 1 ? '' : ` with ${members.length - 1} others`;
    const what = kind === 'attach' ? `files for "${name}"` : `${kind} "${name}" with ${own} of its lines${others}`;
    const open = ended === null && error !== null ? `; ${error}` : '';
    entries.push({ at: created, step: 'sent', text: `${what} (job ${uuid ?? 'without an id yet'})${open}` });
    const step = steps[state as keyof typeof steps];
    if (ended !== null && step) entries.push({ at: ended, step, text: error ?? 'by the service' });
  }
  const events = await sql.query<{
    lots: string;
    entity: string;
    name: string | null;
    made: Timestamp;
    source: string;
  }>(
    `select m.made_lots as lots, e.entity, e.name, e.made, e.source from bridge.intake_members m
     join bridge.intake_events e on e.id = m.event
     where m.intake = $1 and m.erp_key = $2 and e.entity is not null and e.made is not null
     order by e.made desc limit $3`,
    [intake, erpKey, limit],
  );
  for (const { lots, entity, name, made, source } of events) {
    const own = (JSON.parse(lots) as { lot: string; line: string }[]).sort((a, b) => compareText(a.line, b.line));
    const lines = own
      .slice(0, limit)
      .map(({ lot, line }) => `line ${line} is lot "${lot}"`)
      .join('; ');
    entries.push({
      at: made,
      step: 'made',
      text: `"${name ?? ''}" is ${entity} at the service; ${lines || 'no lots'}`,
    });
    const delivered = await sql.query<{
      flow: string;
      reference: string | null;
      delivered: Timestamp;
      who: string | null;
    }>(
      `select d.flow, d.reference, d.delivered,
         (select a.supplier_name from bridge.attempts a
          where a.flow = d.flow and a.kind = d.kind and a.key = d.key limit 1) as who
       from bridge.flows f join bridge.flow_documents d on d.flow = f.name and d.kind = 'award' and d.sourcing_event = $2
       left join bridge.document_versions v
         on v.flow = d.flow and v.kind = d.kind and v.key = d.key and v.content_hash = d.delivered_hash
       where f.source = $1 and d.delivered is not null and (v.body is null or strpos(v.body, $4) > 0) order by d.delivered desc limit $3`,
      [source, entity, limit, `"reference_id":${JSON.stringify(erpKey)}`],
    );
    for (const award of delivered)
      entries.push({
        at: award.delivered,
        step: 'delivered',
        text: `the award of ${award.who ?? 'a supplier'} is ${award.reference ?? 'withdrawn'} (flow ${award.flow})`,
      });
  }
  const rows = await sql.query<{
    state: string;
    news: string;
    told: string | null;
    at: Timestamp | null;
    error: string | null;
    next: Timestamp | null;
    reference: string | null;
  }>(
    `select news_state as state, news, told, told_at as at, news_error as error, news_due as next,
       told_reference as reference
     from bridge.intake_records where intake = $1 and erp_key = $2 and news is not null`,
    [intake, erpKey],
  );
  for (const { state, news, told, at, error, next, reference } of rows) {
    if (told !== null && at !== null)
      entries.push({
        at,
        step: 'told',
        text: `the ERP shows at ${reference ?? ''}: ${newsText({}, JSON.parse(told) as News)}`,
      });
    if (state !== 'told' && error !== null && next !== null)
      entries.push({
        at: next,
        step: 'not told',
        text: `${newsText({}, JSON.parse(news) as News)}; ${error}; tried again then`,
      });
  }
  return entries;
}
