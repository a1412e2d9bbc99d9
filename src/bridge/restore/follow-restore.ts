/**
 * Follows a restore (`note-restore.ts`) until nothing is uncertain any more. A flow is held until everything that its
 * source had changed by the time of the restore is in the mirror. Then, in one transaction, all of its documents become
 * uncertain and it is let go: from there on a document is sent only after `lookup` has told what the ERP holds. The
 * restore has ended when no flow is held and no due document is uncertain.
 */
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { lockSources } from '../due/source-lock.ts';
import type { BridgeSettings } from '../settings.ts';
import { readFeedStatuses } from '../status/status.ts';
import { readOpenRestore } from './open-restore.ts';

/**
 * Lets go the flows whose sources have been read again, and returns their names; ends the restore when nothing is left.
 * Costs one row when there is none. Any process may call it at any time, and several at once.
 */
export async function followRestore(
  database: Database,
  settings: Pick<BridgeSettings, 'sources'>,
  now: Timestamp,
): Promise<string[]> {
  const open = await readOpenRestore(database);
  if (!open) return [];
  const held = await database.query<{ name: string; source: string; restored: Timestamp }>(
    "select name, source, restored from bridge.flows where restored is not null and kinds <> '{}' order by name",
  );
  const released: string[] = [];
  const feeds = held.length > 0 ? await readFeedStatuses(database, settings, now) : [];
  for (const { name, source, restored } of held) {
    const ofSource = settings.sources.find((each) => each.name === source);
    // A process that does not know the source cannot tell whether it was read.
    if (!ofSource) continue;
    const isRead = feeds
      .filter((feed) => feed.source === source)
      .every(
        ({ lag }) => lag.seconds !== null && msFromTimestamp(now) - lag.seconds * 1000 >= msFromTimestamp(restored),
      );
    if (!isRead || (ofSource.suppliers && !(await isListRead(database, source)))) continue;
    if (await letGo(database, { name, source, restored }, now)) released.push(name);
  }
  if (held.length === 0 && open.toConfirm === 0)
    await database.query('update bridge.restores set ended = $1 where ended is null and restored = $2', [
      now,
      open.restored,
    ]);
  return released;
}

async function isListRead(sql: Sql, source: string): Promise<boolean> {
  const read = await sql.query('select from bridge.supplier_lists where source = $1 and last_pull is not null', [
    source,
  ]);
  return read.length > 0;
}

/**
 * Under the lock of the source no record is stored meanwhile: what the mirror holds has marked its documents, and what
 * it gets later was changed after the restore, when nobody but this bridge delivers. A dead letter stays one; it is
 * looked up, too, when it is tried again.
 */
async function letGo(
  database: Database,
  flow: { name: string; source: string; restored: Timestamp },
  now: Timestamp,
): Promise<boolean> {
  return database.transaction(async (tx) => {
    await lockSources(tx, [flow.source]);
    const mine = await tx.query(
      'update bridge.flows set restored = null where name = $1 and restored = $2 returning name',
      [flow.name, flow.restored],
    );
    if (mine.length === 0) return false;
    await tx.query(
      `update bridge.flow_documents d set wanted = d.wanted + 1, uncertain_since = $2,
         due = case when d.dead_since is null then least(d.due, $2::timestamptz) else d.due end,
         waiting_since = case when d.dead_since is null then coalesce(d.waiting_since, $2::timestamptz)
                              else d.waiting_since end
       where d.flow = $1`,
      [flow.name, now],
    );
    return true;
  });
}
