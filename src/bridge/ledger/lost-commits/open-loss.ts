/** What is still to be read again and looked up after commits were lost: for the status, and for `catch-up.ts`. */
import type { Sql } from '#platform/database/sql.ts';
import type { Loss } from './note-lost-commits.ts';

/** A loss of commits that has not been caught up with. */
export interface OpenLoss extends Loss {
  /** The flows that carry the flag. */
  readonly flows: readonly LookingFlow[];
  /** The intakes that submit nothing, because their ERPs have not been read again yet. */
  readonly unreadIntakes: readonly string[];
}

export interface LookingFlow {
  readonly flow: string;
  /** Whether its source was read again; until then the flow sends nothing. */
  readonly isSourceRead: boolean;
  readonly documents: number;
  /** How many of them are looked up in the ERP before they are written; of a dead letter, when it is tried again. */
  readonly toLookUp: number;
}

/** Of `bridge.flows f`. */
const ofFlow = 'bridge.flow_documents d where d.flow = f.name and d.kind = any(f.kinds)';
/** Of `bridge.flow_documents d`: it is looked up in the ERP before it is written. */
export const isToLookUp = 'd.uncertain_since is not null and d.due is not null and d.dead_since is null';

/** Returns the loss that has not been caught up with; undefined when there is none. */
export async function readOpenLoss(sql: Sql): Promise<OpenLoss | undefined> {
  const [open] = await sql.query<OpenLoss>(
    `select l.lost, l.why, l.since,
       coalesce((select json_agg(c order by c.flow) from (
         select f.name as flow, f.source_reread is not null as "isSourceRead",
           (select count(*)::int from ${ofFlow}) as documents, (select count(*)::int from ${ofFlow} and ${isToLookUp}) as "toLookUp"
         from bridge.flows f where f.commits_lost is not null and f.kinds <> '{}') c), '[]') as flows,
       array(select i.name from bridge.intakes i where i.configured and i.last_read is null order by i.name)
         as "unreadIntakes"
     from bridge.lost_commits l where l.lost is not null and l.caught_up is null`,
  );
  return open;
}
