/**
 * Follows a restore (`note-restore.ts`) until nothing is uncertain any more. A flow is held until everything that its
 * source had changed by the time of the restore is in the mirror. Then, in one transaction, all of its documents become
 * uncertain, and the ERP is asked about each of them (`confirm-documents.ts`); after that the flow is let go. The
 * restore has ended when no flow is held, no due document is uncertain, and each intake has read its ERP: what is read
 * for the first time after that, the lost bridge had not seen.
 */

import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { lockSources } from '../due/source-lock.ts';
import type { BridgeSettings } from '../settings.ts';
import { readFeedStatuses } from '../status/status.ts';
import { markPossibleDocuments } from './mark-possible.ts';
import { readOpenRestore } from './open-restore.ts';

/**
 * Begins to confirm the flows whose sources have been read again, and returns their names; ends the restore when nothing is left.
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
    `select name, source, restored from bridge.flows
     where restored is not null and confirmed_kind is null and kinds <> '{}' order by name`,
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
    if (await beginToConfirm(database, { name, source, restored }, now)) released.push(name);
  }
  if (open.heldFlows.length === 0 && open.toConfirm === 0 && open.unreadIntakes.length === 0)
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
 * it gets later was changed after the restore, when nobody but this bridge delivers. A dead letter stays one.
 */
async function beginToConfirm(
  database: Database,
  flow: { name: string; source: string; restored: Timestamp },
  now: Timestamp,
): Promise<boolean> {
  return database.transaction(async (tx) => {
    await lockSources(tx, [flow.source]);
    const mine = await tx.query(
      `update bridge.flows set confirmed_kind = '', confirmed_key = ''
       where name = $1 and restored = $2 and confirmed_kind is null returning name`,
      [flow.name, flow.restored],
    );
    if (mine.length === 0) return false;
    await markPossibleDocuments(tx, { flow: flow.name, source: flow.source, since: flow.restored }, now);
    await tx.query(
      `update bridge.flow_documents d set wanted = d.wanted + 1, uncertain_since = $3,
         due = case when d.dead_since is null then least(d.due, $2::timestamptz) else d.due end,
         waiting_since = case when d.dead_since is null then coalesce(d.waiting_since, $2::timestamptz)
                              else d.waiting_since end
       where d.flow = $1`,
      // No process ran then, so no call was begun later.
      [flow.name, now, flow.restored],
    );
    return true;
  });
}
