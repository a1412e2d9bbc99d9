/** The requisitions of an intake, for a person: which event each is in. */
import { bodyJson } from '#bridge/mirror/body-json.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface ListedRequisition {
  readonly erpKey: string;
  /** Null where its record cannot be read. */
  readonly name: string | null;
  readonly open: boolean;
  /** The ERP has it no more. */
  readonly missing: boolean;
  /** When its newest version was read. */
  readonly seen: Timestamp;
  /** The type of the dead letter that it is. */
  readonly errorType: string | null;
  /** The event that it is in, or was in last, as `intake_events` has it; null before it is in any. */
  readonly event: {
    readonly state: string;
    readonly make: string;
    readonly name: string | null;
    /** The service's id. */
    readonly entity: string | null;
    /** As the service shows it; null while it has not been read. */
    readonly status: string | null;
    /** Whether the requisition is still in it. */
    readonly live: boolean;
  } | null;
}

/** Returns those whose number or name has the text, the ones that changed last first. */
export async function listRequisitions(
  sql: Sql,
  { intake, text, limit }: { intake: string; text?: string | undefined; limit: number },
): Promise<ListedRequisition[]> {
  const rows = await sql.query<Omit<ListedRequisition, 'event'> & { event: string | null }>(
    `select r.erp_key as "erpKey", ${bodyJson('r.body')} ->> 'name' as name, coalesce(r.open, false) as open,
       r.missing_since is not null as missing, r.seen, case when r.dead_since is not null then r.error_type end as "errorType",
       e.event::text as event
     from bridge.intake_records r
     left join lateral (
       select json_build_object('state', e.state, 'make', e.make, 'name', e.name, 'entity', e.entity, 'live', m.live,
         'status', (select ${bodyJson('v.body')} ->> 'status' from bridge.mirror v
                    where v.source = r.source and v.feed = 'sourcing-events' and v.record_id = e.entity)) as event
       from bridge.intake_members m join bridge.intake_events e on e.id = m.event
       where m.intake = r.intake and m.erp_key = r.erp_key order by m.live desc, e.created desc, e.id limit 1) e on true
     where r.intake = $1
       and ($2::text is null or strpos(lower(r.erp_key), lower($2)) > 0
         or strpos(lower(${bodyJson('r.body')} ->> 'name'), lower($2)) > 0)
     order by r.seen desc, r.erp_key limit $3`,
    [intake, text ?? null, limit],
  );
  return rows.map(({ event, ...row }) => ({
    ...row,
    event: event === null ? null : (JSON.parse(event) as ListedRequisition['event']),
  }));
}
