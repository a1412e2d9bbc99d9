/**
 * Marks the documents that the lost bridge may have delivered, and that nothing names any more. Example: the backup is of
 * 12:00, the bridge was lost at 13:00.
 *
 *     12:30  event 7 was closed and awarded; its award to Acme was delivered as order 4711
 *     12:50  the buyer deleted event 7, and its awards are in no feed any more
 *     13:10  restored: event 7 is read for the first time, as deleted; no record says that Acme ever won anything
 *
 * So for each event that was read since then, every supplier that takes part in it may have had a document. The
 * ERP is asked about each; what it holds is withdrawn like any other document, and what it does not hold is forgotten.
 */
import { type DocumentKey, feedDocuments, idOf, pairKey } from '#bridge/documents/document-keys.ts';
import { markDocuments } from '#bridge/mirror/due/mark-documents.ts';
import { feedNames } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** So many events are looked at together: memory does not grow with their number. */
const eventsAtOnce = 200;

/** The caller holds `lockSources`. `since`: from when on what was lost may have been read again. */
export async function markPossibleDocuments(
  tx: Sql,
  { flow, source, since }: { flow: string; source: string; since: Timestamp },
  now: Timestamp,
): Promise<void> {
  const kinds = feedNames.flatMap((feed) => feedDocuments[feed].pair?.kind ?? []);
  for (let last = ''; ; ) {
    const events = await tx.query<{ id: string }>(
      `select distinct sourcing_event as id from bridge.mirror
       where source = $1 and seen >= $2 and sourcing_event > $3 order by 1 limit $4`,
      [source, since, last, eventsAtOnce],
    );
    const versions = await tx.query<{ body: string }>(
      `select body from bridge.mirror where source = $1 and feed = 'sourcing-events' and record_id = any($2::text[])
       union all
       select body from bridge.mirror_history
       where source = $1 and feed = 'sourcing-events' and record_id = any($2::text[])`,
      [source, events.map(({ id }) => id)],
    );
    const pairs = new Map(versions.flatMap(({ body }) => participants(JSON.parse(body))));
    const keys = [...pairs].flatMap(([key, pair]) => kinds.map((kind): DocumentKey => ({ kind, key, ...pair })));
    await markDocuments(tx, { source, flow }, keys, now);
    const end = events.at(-1);
    if (end === undefined) return;
    last = end.id;
  }
}

/** The event and each of its suppliers, by the key of their documents. */
function participants(record: unknown): [string, { sourcingEvent: string; supplier: string }][] {
  const { id, suppliers } = (record ?? {}) as { id?: unknown; suppliers?: unknown };
  const sourcingEvent = idOf(id);
  if (sourcingEvent === undefined || !Array.isArray(suppliers)) return [];
  return (suppliers as unknown[]).flatMap((entry) => {
    const supplier = idOf((entry as { id?: unknown } | null)?.id);
    return supplier === undefined ? [] : [[pairKey(sourcingEvent, supplier), { sourcingEvent, supplier }]];
  });
}
