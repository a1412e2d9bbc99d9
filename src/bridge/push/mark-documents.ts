import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { DocumentKey } from '../documents/document-keys.ts';

/**
 * Marks documents as due in every flow of their source, in the transaction that changed their records. The shared lock
 * keeps a new flow from being registered meanwhile: it would miss what this transaction has not committed yet.
 */
export async function markDocuments(
  tx: Sql,
  source: string,
  keys: readonly DocumentKey[],
  now: Timestamp,
): Promise<void> {
  if (keys.length === 0) return;
  await tx.query('select pg_advisory_xact_lock_shared($1, $2)', [...flowRegistrationLock]);
  await tx.query(
    `insert into bridge.flow_documents as d (flow, kind, key, sourcing_event, due)
     select f.name, k.kind, k.key, k.sourcing_event, $2::timestamptz
     from unnest($3::text[], $4::text[], $5::text[]) as k (kind, key, sourcing_event)
     join bridge.flows f on f.source = $1 and k.kind = any(f.kinds)
     order by f.name, k.kind, k.key
     on conflict (flow, kind, key) do update
       set wanted = d.wanted + 1, due = excluded.due, attempts = 0, dead_since = null`,
    [source, now, keys.map(({ kind }) => kind), keys.map(({ key }) => key), keys.map((key) => key.sourcingEvent)],
  );
}

/** Exclusive while flows are registered, shared while documents are marked. */
export const flowRegistrationLock = [0x5b_f1_0e5, 1] as const;
