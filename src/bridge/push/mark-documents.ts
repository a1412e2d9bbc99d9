import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { DocumentKey } from '../documents/document-keys.ts';

/**
 * Marks documents as due in every flow of their source that wants their kind, or in one flow only, in the transaction
 * that changed their records. The caller holds `lockSources`. A document that waits after a failure, or is a dead
 * letter, is tried again: it has another state now.
 */
export async function markDocuments(
  tx: Sql,
  { source, flow }: { source: string; flow?: string },
  keys: readonly DocumentKey[],
  now: Timestamp,
): Promise<void> {
  if (keys.length === 0) return;
  // One statement cannot touch a row twice.
  const distinct = [...new Map(keys.map((key) => [`${key.kind} ${key.key}`, key])).values()];
  await tx.query(
    `insert into bridge.flow_documents as d (flow, kind, key, sourcing_event, due)
     select f.name, k.kind, k.key, k.sourcing_event, $3::timestamptz
     from unnest($4::text[], $5::text[], $6::text[]) as k (kind, key, sourcing_event)
     join bridge.flows f on f.source = $1 and ($2::text is null or f.name = $2) and k.kind = any(f.kinds)
     order by f.name, k.kind, k.key
     on conflict (flow, kind, key) do update
       set wanted = d.wanted + 1, due = excluded.due, attempts = 0, dead_since = null`,
    [
      source,
      flow ?? null,
      now,
      distinct.map(({ kind }) => kind),
      distinct.map(({ key }) => key),
      distinct.map((key) => key.sourcingEvent),
    ],
  );
}

/** The same for all that was ever made of these events' records: it shows something of the event itself. */
export async function markDocumentsOfEvents(
  tx: Sql,
  source: string,
  events: readonly string[],
  now: Timestamp,
): Promise<void> {
  await tx.query(
    `update bridge.flow_documents d set wanted = d.wanted + 1, due = $3, attempts = 0, dead_since = null
     from bridge.flows f
     where f.name = d.flow and f.source = $1 and d.kind = any(f.kinds) and d.sourcing_event = any($2)`,
    [source, events, now],
  );
}

/** The same for all that was ever made for this flow, also what nobody has won any more. */
export async function markDocumentsOfFlow(tx: Sql, flow: string, now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.flow_documents d set wanted = d.wanted + 1, due = $2, attempts = 0, dead_since = null
     from bridge.flows f where f.name = d.flow and d.flow = $1 and d.kind = any(f.kinds)`,
    [flow, now],
  );
}
