/** What a restore from a backup still leaves uncertain, for the status and for `follow-restore.ts`. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** A restore that has not ended. */
export interface OpenRestore {
  readonly restored: Timestamp;
  /** Null where nobody has said it. */
  readonly backupMade: Timestamp | null;
  /** The flows that send nothing, because their sources have not been read again yet. */
  readonly heldFlows: readonly string[];
  /** How many documents of the other flows the ERPs have not been asked about yet. */
  readonly toConfirm: number;
}

const uncertain = `bridge.flow_documents d join bridge.flows f on f.name = d.flow and d.kind = any(f.kinds)
  where d.uncertain_since is not null and d.due is not null and d.dead_since is null`;

/** Returns the restore that has not ended; undefined when there is none. */
export async function readOpenRestore(sql: Sql): Promise<OpenRestore | undefined> {
  const [open] = await sql.query<OpenRestore>(
    `select r.restored, r.backup_made as "backupMade",
       array(select f.name from bridge.flows f where f.restored is not null and f.kinds <> '{}' order by f.name)
         as "heldFlows",
       (select count(*)::int from ${uncertain}) as "toConfirm"
     from bridge.restores r where r.ended is null`,
  );
  return open;
}
