/** The rows of `bridge.flow_documents`, one operation a function. Every call runs in a transaction of the flow's lease. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { storableText } from '../storable-text.ts';

/** Equal to no document's hash. */
export const unknownContent = 'unknown';

export interface FlowDocument {
  readonly kind: string;
  readonly key: string;
  /** Grows with every change of a record that the document is made of. */
  readonly wanted: number;
  /** Of what the ERP holds (`unknownContent` when it cannot tell); null when it holds nothing, or a cancelled object. */
  readonly deliveredHash: string | null;
  readonly reference: string | null;
  /** Set while a call is under way, or was cut off. */
  readonly intentId: string | null;
  readonly intentHash: string | null;
  readonly intentAt: Timestamp | null;
  /** Failed tries since the document last changed. */
  readonly attempts: number;
}

/** Locks the documents that are due, those that waited longest first. None while the flow is paused. */
export async function takeDue(tx: Sql, flow: string, now: Timestamp, most: number): Promise<FlowDocument[]> {
  return tx.query<FlowDocument>(
    `select kind, key, wanted, delivered_hash as "deliveredHash", reference, intent_id as "intentId",
       intent_hash as "intentHash", intent_at as "intentAt", attempts
     from bridge.flow_documents
     where flow = $1 and due <= $2 and exists (select from bridge.flows where name = $1 and paused_reason is null)
     order by due, key limit $3 for update`,
    [flow, now, most],
  );
}

export interface Intent {
  document: FlowDocument;
  id: string;
  hash: string;
}

/**
 * From this commit on the ERP may have been called. What it holds before the call is written, too: where `lookup` has
 * told it, that must outlast a call that fails.
 */
export async function writeIntents(tx: Sql, flow: string, intents: readonly Intent[], now: Timestamp): Promise<void> {
  if (intents.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set intent_id = i.id, intent_hash = i.hash, intent_at = $2, delivered_hash = i.delivered_hash, reference = i.reference
     from unnest($3::text[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[])
       as i (kind, key, id, hash, delivered_hash, reference)
     where d.flow = $1 and d.kind = i.kind and d.key = i.key`,
    [
      flow,
      now,
      intents.map(({ document }) => document.kind),
      intents.map(({ document }) => document.key),
      intents.map(({ id }) => id),
      intents.map(({ hash }) => hash),
      intents.map(({ document }) => document.deliveredHash),
      intents.map(({ document }) => document.reference),
    ],
  );
}

export interface Delivered {
  document: FlowDocument;
  /** Null after a cancellation. */
  hash: string | null;
  reference: string;
}

/** The ERP holds these now. A document that changed meanwhile stays due. */
export async function markDelivered(
  tx: Sql,
  flow: string,
  delivered: readonly Delivered[],
  now: Timestamp,
): Promise<void> {
  if (delivered.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set delivered_hash = o.hash, reference = o.reference, delivered = $2::timestamptz, settled = o.wanted,
         due = case when d.wanted = o.wanted then null else $2::timestamptz end,
         intent_id = null, intent_hash = null, intent_at = null, attempts = 0, last_error = null, dead_since = null
     from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[]) as o (kind, key, hash, reference, wanted)
     where d.flow = $1 and d.kind = o.kind and d.key = o.key`,
    [
      flow,
      now,
      delivered.map(({ document }) => document.kind),
      delivered.map(({ document }) => document.key),
      delivered.map(({ hash }) => hash),
      delivered.map(({ reference }) => storableText(reference)),
      delivered.map(({ document }) => document.wanted),
    ],
  );
}

/** The ERP holds these already: no call was needed. They are locked since `takeDue`, so they cannot have changed. */
export async function markUnchanged(tx: Sql, flow: string, documents: readonly FlowDocument[]): Promise<void> {
  if (documents.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d set settled = d.wanted, due = null, attempts = 0, last_error = null
     from unnest($2::text[], $3::text[]) as s (kind, key)
     where d.flow = $1 and d.kind = s.kind and d.key = s.key`,
    [flow, documents.map(({ kind }) => kind), documents.map(({ key }) => key)],
  );
}

export interface Postponed {
  document: FlowDocument;
  reason: string;
  /** When to try again; null makes it a dead letter. */
  due: Timestamp | null;
  /** Whether a call may have taken effect: then the intent stays, and `lookup` comes first. */
  unknown: boolean;
  /** Counts towards the backoff. */
  failed: boolean;
}

/** A document that changed meanwhile is due at once instead: what failed was its older state. */
export async function postpone(tx: Sql, flow: string, postponed: readonly Postponed[], now: Timestamp): Promise<void> {
  if (postponed.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set last_error = p.reason,
         attempts = case when d.wanted = p.wanted then d.attempts + p.failed else 0 end,
         due = case when d.wanted = p.wanted then p.due else $2::timestamptz end,
         dead_since = case when d.wanted = p.wanted and p.due is null then $2::timestamptz end,
         intent_id = case when p.unknown then d.intent_id end,
         intent_hash = case when p.unknown then d.intent_hash end,
         intent_at = case when p.unknown then d.intent_at end
     from unnest($3::text[], $4::text[], $5::bigint[], $6::text[], $7::timestamptz[], $8::boolean[], $9::int[])
       as p (kind, key, wanted, reason, due, unknown, failed)
     where d.flow = $1 and d.kind = p.kind and d.key = p.key`,
    [
      flow,
      now,
      postponed.map(({ document }) => document.kind),
      postponed.map(({ document }) => document.key),
      postponed.map(({ document }) => document.wanted),
      postponed.map(({ reason }) => storableText(reason)),
      postponed.map(({ due }) => due),
      postponed.map(({ unknown }) => unknown),
      postponed.map(({ failed }) => (failed ? 1 : 0)),
    ],
  );
}

/** Until a person has acted nothing of this flow is pushed. */
export async function pauseFlow(tx: Sql, flow: string, reason: string): Promise<void> {
  await tx.query('update bridge.flows set paused_reason = $2 where name = $1', [flow, storableText(reason)]);
}

/** The flows that have something due: what the sweep wakes. */
export async function flowsWithDue(sql: Sql, flows: readonly string[], now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    `select name from bridge.flows f where name = any($1) and paused_reason is null
       and exists (select from bridge.flow_documents d where d.flow = f.name and d.due <= $2)`,
    [flows, now],
  );
  return rows.map((row) => row.name);
}
