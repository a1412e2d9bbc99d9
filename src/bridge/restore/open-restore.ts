/** What a restore from a backup still leaves uncertain, for the status and for `follow-restore.ts`. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** A restore that has not ended. */
export interface OpenRestore {
  readonly restored: Timestamp;
  /** Null where nobody has said it. */
  readonly backupMade: Timestamp | null;
  /** The flows that send nothing: their sources have not been read again yet, or their ERPs are being asked. */
  readonly heldFlows: readonly string[];
  /** Of these, the flows whose ERPs are being asked about each document. */
  readonly confirming: readonly ConfirmingFlow[];
  /** How many documents of all flows the ERPs have not been asked about yet. */
  readonly toConfirm: number;
  /** The intakes that submit nothing, because their ERPs have not been read again yet. */
  readonly unreadIntakes: readonly string[];
}

/** How far the ERP of a flow was asked. */
export interface ConfirmingFlow {
  readonly flow: string;
  readonly documents: number;
  readonly toConfirm: number;
  /** Why the ERP could not be asked the last time; null where it could. */
  readonly error: string | null;
}

const uncertain = `bridge.flow_documents d join bridge.flows f on f.name = d.flow and d.kind = any(f.kinds)
  where d.uncertain_since is not null and d.due is not null and d.dead_since is null`;

/** Returns the restore that has not ended; undefined when there is none. */
export async function readOpenRestore(sql: Sql): Promise<OpenRestore | undefined> {
  const [open] = await sql.query<OpenRestore>(
    `select r.restored, r.backup_made as "backupMade",
       array(select f.name from bridge.flows f where f.restored is not null and f.kinds <> '{}' order by f.name)
         as "heldFlows",
       coalesce((select json_agg(c order by c.flow) from (
         select f.name as flow, f.confirm_error as error,
           (select count(*)::int from bridge.flow_documents d where d.flow = f.name and d.kind = any(f.kinds)) as documents,
           (select count(*)::int from bridge.flow_documents d where d.flow = f.name and d.kind = any(f.kinds)
              and d.uncertain_since is not null and (d.kind, d.key) > (f.confirmed_kind, f.confirmed_key)) as "toConfirm"
         from bridge.flows f where f.restored is not null and f.confirmed_kind is not null and f.kinds <> '{}') c), '[]')
         as confirming,
       (select count(*)::int from ${uncertain}) as "toConfirm",
       array(select i.name from bridge.intakes i where i.configured and i.last_read is null order by i.name)
         as "unreadIntakes"
     from bridge.restores r where r.ended is null`,
  );
  return open;
}
