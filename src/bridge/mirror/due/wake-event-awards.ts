import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/**
 * Makes due now the `event-awards` documents that wait until the feed of awards has been read further; call it when a pull
 * of that feed ends. It only saves time: each of them is looked at again after ten minutes, whatever happens to this call.
 * Returns whether any waited.
 */
export async function wakeEventAwards(tx: Sql, source: string, now: Timestamp): Promise<boolean> {
  const woken = await tx.query(
    `update bridge.flow_documents d set due = $2
     from bridge.flows f
     where f.source = $1 and 'event-awards' = any(f.kinds) and d.flow = f.name and d.kind = 'event-awards'
       and d.due > $2 and d.error_type = 'not-yet'
     returning 1`,
    [source, now],
  );
  return woken.length > 0;
}
