/** The rows of `bridge.flow_documents`, one operation a function. Every call runs in a transaction of the flow's lease. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';

export interface FlowDocument {
  readonly kind: string;
  readonly key: string;
  /** Grows with every change of a record that the document is made of. */
  readonly wanted: number;
  /** Of what the ERP holds; null when it holds nothing, or a cancelled object. */
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

/** From this commit on the ERP may have been called. */
export async function writeIntents(tx: Sql, flow: string, intents: readonly Intent[], now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.flow_documents d set intent_id = i.id, intent_hash = i.hash, intent_at = $2
     from unnest($3::text[], $4::text[], $5::uuid[], $6::text[]) as i (kind, key, id, hash)
     where d.flow = $1 and d.kind = i.kind and d.key = i.key`,
    [
      flow,
      now,
      intents.map(({ document }) => document.kind),
      intents.map(({ document }) => document.key),
      intents.map(({ id }) => id),
      intents.map(({ hash }) => hash),
    ],
  );
}

export interface Delivered {
  document: FlowDocument;
  /** Null after a cancellation. */
  hash: string | null;
  reference: string | null;
}

/** The ERP holds these now. A document that changed meanwhile stays due. */
export async function markDelivered(
  tx: Sql,
  flow: string,
  delivered: readonly Delivered[],
  now: Timestamp,
): Promise<void> {
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
      delivered.map(({ reference }) => reference),
      delivered.map(({ document }) => document.wanted),
    ],
  );
}

/** The ERP holds these already: no call was needed. They are locked since `takeDue`, so they cannot have changed. */
export async function markUnchanged(tx: Sql, flow: string, documents: readonly FlowDocument[]): Promise<void> {
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
export async function postpone(tx: Sql, flow: string, one: Postponed, now: Timestamp): Promise<void> {
  const { document } = one;
  await tx.query(
    `update bridge.flow_documents
     set last_error = $5,
         attempts = case when wanted = $4 then attempts + $8 else 0 end,
         due = case when wanted = $4 then $6::timestamptz else $9::timestamptz end,
         dead_since = case when wanted = $4 and $6::timestamptz is null then $9::timestamptz end,
         intent_id = case when $7 then intent_id end,
         intent_hash = case when $7 then intent_hash end,
         intent_at = case when $7 then intent_at end
     where flow = $1 and kind = $2 and key = $3`,
    [
      flow,
      document.kind,
      document.key,
      document.wanted,
      one.reason.slice(0, 2_000),
      one.due,
      one.unknown,
      one.failed ? 1 : 0,
      now,
    ],
  );
}

/** Until a person has acted nothing of this flow is pushed. */
export async function pauseFlow(tx: Sql, flow: string, reason: string): Promise<void> {
  await tx.query('update bridge.flows set paused_reason = $2 where name = $1', [flow, reason.slice(0, 2_000)]);
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
