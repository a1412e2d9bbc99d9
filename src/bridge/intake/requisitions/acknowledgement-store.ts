/**
 * What the ERP is to be told of its requisitions, and was: the news in the rows of `bridge.intake_records`. One operation a
 * function.
 */
import { randomUUID } from 'node:crypto';
import { bodyJson } from '#bridge/mirror/body-json.ts';
import type { AcknowledgedStatus } from '#connector/acknowledgements.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';

/** What the ERP is to be told of a requisition. `entity` and so on: of what was made of it. */
export interface News {
  readonly status: AcknowledgedStatus;
  readonly make?: string;
  readonly entity?: string;
  readonly name?: string | null;
  readonly reference?: string | null;
  readonly reason?: string | null;
}

export interface DueNews {
  readonly erpKey: string;
  /** The idempotency key. */
  readonly id: string;
  readonly news: News;
  readonly failures: number;
}

/**
 * What is to be told now, of the intake $1 of the source $2: the newest news of each requisition, if the ERP was told
 * something else. A failed one counts only while it is a dead letter, and is in no event. What the mirror does not hold
 * is a draft. An award counts for the requisitions whose lots it names.
 */
const dueNews = `
  with placed as (
    select distinct on (m.erp_key) m.erp_key, m.live, m.made_lots, e.make, e.entity, e.name, e.reference_id
    from bridge.intake_members m join bridge.intake_events e on e.id = m.event
    where m.intake = $1 and e.state = 'made'
    order by m.erp_key, m.live desc, e.made desc, e.id),
  failed as (
    select r.erp_key, r.last_error from bridge.intake_records r
    where r.intake = $1 and r.dead_since is not null and r.error_type = 'data' and not exists (
      select from bridge.intake_members m where m.intake = $1 and m.erp_key = r.erp_key and m.live)),
  newest as (
    select erp_key, json_build_object('status', 'failed', 'reason', last_error)::text as wanted from failed
    union all
    select p.erp_key, json_build_object('status',
      case when not p.live then 'removed'
        when s.status = 'DELETED' then 'deleted'
        when exists (
          select from json_to_recordset(p.made_lots::json) as l (lot text)
          join bridge.mirror a on a.source = $2 and a.feed = 'awards' and a.sourcing_event = p.entity and a.gone is null
          where ${bodyJson('a.body')} ->> 'lot_name' = l.lot
            and case json_typeof(${bodyJson('a.body')} -> 'awards') when 'array'
              then json_array_length(${bodyJson('a.body')} -> 'awards') > 0 end) then 'awarded'
        when s.status = 'CLOSED' then 'closed'
        when coalesce(s.status, 'DRAFT') = 'DRAFT' then 'created'
        else 'published' end,
      'make', p.make, 'entity', p.entity, 'name', p.name, 'reference', p.reference_id)::text
    from placed p
    left join lateral (
      select ${bodyJson('v.body')} ->> 'status' as status from bridge.mirror v
      where v.source = $2 and v.feed = 'sourcing-events' and v.record_id = p.entity) s on true
    where not exists (select from failed f where f.erp_key = p.erp_key))
  select r.erp_key as "erpKey", coalesce(n.wanted, r.news) as wanted, r.news as before, r.news_id as id,
    r.news_failures as failures
  from bridge.intake_records r left join newest n on n.erp_key = r.erp_key
  where r.intake = $1 and case
    when r.news_state in ('intent', 'waiting') then coalesce(r.news_due, $3) <= $3
    when n.wanted is null then false
    else n.wanted is distinct from r.news
      or (r.news_state = 'dead' and r.dead_since is null and r.missing_since is null) end
  order by r.news_due nulls last, r.erp_key limit $4`;

/**
 * Commits the intent to tell the ERP the news that are due, at most `limit`. News that differ from what was to be told
 * before get a key of their own.
 */
export async function beginTelling(
  tx: Sql,
  {
    intake,
    source,
    now,
    limit,
    ends,
  }: { intake: string; source: string; now: Timestamp; limit: number; ends: Timestamp },
): Promise<DueNews[]> {
  const rows = await tx.query<{
    erpKey: string;
    wanted: string;
    before: string | null;
    id: string | null;
    failures: number;
  }>(dueNews, [intake, source, now, limit]);
  const due = rows.map(({ before, id, ...row }) => {
    const isSame = id !== null && row.wanted === before;
    return { ...row, id: isSame ? id : randomUUID(), failures: isSame ? row.failures : 0 };
  });
  await tx.query(
    `update bridge.intake_records r
     set news = g.news, news_id = g.id, news_state = 'intent', news_due = $6, news_failures = g.failures
     from unnest($2::text[], $3::uuid[], $4::text[], $5::int[]) as g (erp_key, id, news, failures)
     where r.intake = $1 and r.erp_key = g.erp_key`,
    [
      intake,
      due.map(({ erpKey }) => erpKey),
      due.map(({ id }) => id),
      due.map(({ wanted }) => wanted),
      due.map(({ failures }) => failures),
      ends,
    ],
  );
  return due.map(({ erpKey, id, wanted, failures }) => ({ erpKey, id, news: JSON.parse(wanted) as News, failures }));
}

interface OfRequisition {
  readonly intake: string;
  readonly erpKey: string;
}

/** The ERP has it. */
export async function storeNewsTold(
  tx: Sql,
  { intake, erpKey }: OfRequisition,
  { reference, now }: { reference: string; now: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.intake_records
     set news_state = 'told', told = news, told_reference = $3, told_at = $4, news_due = null, news_failures = 0,
       news_error = null
     where intake = $1 and erp_key = $2`,
    [intake, erpKey, reference, now],
  );
}

/** The ERP does not have it, or it is not known whether: it is told again from `next` on. */
export async function storeNewsWaiting(
  tx: Sql,
  { intake, erpKey }: OfRequisition,
  { why, next }: { why: string; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.intake_records
     set news_state = 'waiting', news_due = $3, news_failures = news_failures + 1, news_error = $4
     where intake = $1 and erp_key = $2`,
    [intake, erpKey, next, storableText(why)],
  );
}

/**
 * The ERP refuses it: the requisition is a dead letter, unless it is one already, or is missing in the ERP. While it is
 * being compared or sent, it cannot be one; the ERP is then told again from `next` on.
 */
export async function storeNewsRefused(
  tx: Sql,
  { intake, erpKey }: OfRequisition,
  { why, now, next }: { why: string; now: Timestamp; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.intake_records set dead_since = $3, error_type = 'not-told', last_error = $4
     where intake = $1 and erp_key = $2 and dead_since is null and due is null and submission is null
       and missing_since is null`,
    [intake, erpKey, now, storableText(`the ERP was not told what became of it: ${why}`)],
  );
  await tx.query(
    `update bridge.intake_records
     set news_state = case when dead_since is null and missing_since is null then 'waiting' else 'dead' end,
       news_due = case when dead_since is null and missing_since is null then $3::timestamptz end,
       news_failures = news_failures + 1, news_error = $4
     where intake = $1 and erp_key = $2`,
    [intake, erpKey, next, storableText(why)],
  );
}

/** What is due by now waits until `next`: the ERP takes nothing at present. */
export async function delayNews(
  tx: Sql,
  intake: string,
  { now, next }: { now: Timestamp; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.intake_records set news_due = $3
     where intake = $1 and news_state in ('intent', 'waiting') and news_due <= $2`,
    [intake, now, next],
  );
}

/** Nothing waits to be told while the ERP is not to be told anything: it is told all when it is again. */
export async function restNews(tx: Sql, intake: string): Promise<void> {
  await tx.query(
    `update bridge.intake_records set news_due = null
     where intake = $1 and news_state in ('intent', 'waiting') and news_due is not null`,
    [intake],
  );
}
