/**
 * Ends what `note-lost-commits.ts` began. A flow sends nothing until everything that its source had changed by then is in
 * the mirror. Then, in one transaction, all of its documents become uncertain and due, so that the pusher looks each up
 * in the ERP before it writes; what the mirror gets from then on is looked up, too (`mark-documents.ts`). The flag is
 * cleared when nothing of what the flow held then is uncertain any more. A document of which the ERP cannot say what it
 * holds keeps the flag: it is shown, and holds no other up.
 */
import { lockSources } from '#bridge/mirror/due/source-lock.ts';
import { readFeedStatuses } from '#bridge/mirror/feed-statuses.ts';
import type { BridgeSettings, FlowSettings } from '#bridge/settings/settings.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { markPossibleDocuments } from './mark-possible.ts';
import { isToLookUp, type OpenLoss, readOpenLoss } from './open-loss.ts';

/** A flow that this process pushes. */
export interface CaughtFlow {
  readonly flow: Pick<FlowSettings, 'name'>;
  /** How long a call to its ERP takes at most, with the time to stop. */
  readonly callLimitMs: number;
}

interface FlaggedFlow {
  readonly name: string;
  readonly source: string;
  readonly lost: Timestamp;
}

export interface CaughtUp {
  /** The flows whose sources were read again now: their documents are looked up. */
  readonly looking: readonly string[];
  /** The flows that have caught up now. */
  readonly ended: readonly string[];
}

/** Takes each flow a step further where it can be. Any process may call it at any time; without a loss it costs one row. */
export async function catchUp(
  database: Database,
  settings: Pick<BridgeSettings, 'sources'>,
  flows: readonly CaughtFlow[],
  now: Timestamp,
): Promise<CaughtUp> {
  const loss = await readOpenLoss(database);
  if (!loss) return { looking: [], ended: [] };
  const flagged = await database.query<FlaggedFlow>(
    `select name, source, commits_lost as lost from bridge.flows
     where commits_lost is not null and source_reread is null and kinds <> '{}' and name = any($1) order by name`,
    [flows.map(({ flow }) => flow.name)],
  );
  const looking: string[] = [];
  const feeds = flagged.length > 0 ? await readFeedStatuses(database, settings, now) : [];
  for (const flow of flagged) {
    const source = settings.sources.find(({ name }) => name === flow.source);
    // A process that does not know the source cannot tell whether it was read.
    if (!source || mayStillCall(loss, flow, flows, now)) continue;
    const isRead = feeds
      .filter((feed) => feed.source === flow.source)
      .every(
        ({ lag }) => lag.seconds !== null && msFromTimestamp(now) - lag.seconds * 1000 >= msFromTimestamp(flow.lost),
      );
    if (!isRead || (source.suppliers && !(await isListRead(database, flow.source)))) continue;
    if (await beginToLookUp(database, flow, { seenSince: rereadSince(loss, flow.lost), now })) looking.push(flow.name);
  }
  const ended = await endFlags(database);
  if (ended.length > 0 || (loss.flows.length === 0 && loss.unreadIntakes.length === 0))
    await database.query(
      `update bridge.lost_commits set caught_up = $1 where caught_up is null
         and not exists (select from bridge.flows where commits_lost is not null and kinds <> '{}')
         and not exists (select from bridge.intakes where configured and last_read is null)`,
      [now],
    );
  return { looking, ended };
}

/**
 * The intents of calls that were under way are among what is lost, so the ERP is asked when the longest of them is over.
 * Before a restore no process ran.
 */
function mayStillCall(loss: OpenLoss, flow: FlaggedFlow, flows: readonly CaughtFlow[], now: Timestamp): boolean {
  const limitMs = flows.find((each) => each.flow.name === flow.name)?.callLimitMs ?? 0;
  return loss.why !== 'restored' && msFromTimestamp(now) < msFromTimestamp(flow.lost) + limitMs;
}

/** Before a loss is noticed, what was lost may have been read again already: every process looks far more often. */
const noticedWithinMs = 60 * 60_000;

function rereadSince({ why }: OpenLoss, lost: Timestamp): Timestamp {
  return why === 'restored' ? lost : timestampFromMs(msFromTimestamp(lost) - noticedWithinMs);
}

async function isListRead(sql: Sql, source: string): Promise<boolean> {
  const read = await sql.query('select from bridge.supplier_lists where source = $1 and last_pull is not null', [
    source,
  ]);
  return read.length > 0;
}

/** Under the lock of the source no record is stored meanwhile. A dead letter stays one, and is looked up when it is retried. */
async function beginToLookUp(
  database: Database,
  flow: FlaggedFlow,
  { seenSince, now }: { seenSince: Timestamp; now: Timestamp },
): Promise<boolean> {
  return database.transaction(async (tx) => {
    await lockSources(tx, [flow.source]);
    const mine = await tx.query(
      `update bridge.flows set source_reread = $3
       where name = $1 and commits_lost = $2 and source_reread is null returning name`,
      [flow.name, flow.lost, now],
    );
    if (mine.length === 0) return false;
    await markPossibleDocuments(tx, { flow: flow.name, source: flow.source, since: seenSince }, now);
    await tx.query(
      `update bridge.flow_documents d set wanted = d.wanted + 1, uncertain_since = $3,
         due = case when d.dead_since is null then least(d.due, $2::timestamptz) else d.due end,
         waiting_since = case when d.dead_since is null then coalesce(d.waiting_since, $2::timestamptz)
                              else d.waiting_since end
       where d.flow = $1`,
      [flow.name, now, flow.lost],
    );
    return true;
  });
}

async function endFlags(sql: Sql): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    `update bridge.flows f set commits_lost = null, source_reread = null
     where f.source_reread is not null and not exists (
       select from bridge.flow_documents d where d.flow = f.name and d.kind = any(f.kinds)
         and ${isToLookUp} and d.waiting_since <= f.source_reread)
     returning f.name`,
  );
  return rows.map(({ name }) => name);
}
