/** The rows of `bridge.flow_documents`, one operation a function. Every call runs in a transaction of the flow's lease. */

import { storableText } from '#bridge/storable-text.ts';
import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';

/** Equal to no document's hash. */
export const unknownContent = 'unknown';

export interface FlowDocument {
  readonly kind: DocumentKind;
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
  /** The mark of the process that makes the call. */
  readonly intentBy: string | null;
  /** Written again although nothing differs. */
  readonly forced: boolean;
  /** When the ERP took it last, or was found to hold it. */
  readonly delivered: Timestamp | null;
  /** When a call ended that may have come after that of another process, or the flow got another ERP. */
  readonly uncertainSince: Timestamp | null;
  /** Whether it was found to be a withdrawal and has not changed since. */
  readonly withdraws: boolean;
  /** Failed tries since the document last changed. */
  readonly attempts: number;
  /** Of the last of them. */
  readonly errorType: string | null;
}

/** The columns of a FlowDocument. */
export const documentColumns = `kind, key, wanted, delivered_hash as "deliveredHash", reference,
  intent_id as "intentId", intent_hash as "intentHash", intent_at as "intentAt", intent_by as "intentBy", forced, delivered,
  uncertain_since as "uncertainSince",
  withdraws is not distinct from wanted as withdraws, attempts,
  error_type as "errorType"`;

/** What is being worked on and must not be begun once more. */
export interface Busy {
  readonly kind: DocumentKind | undefined;
  readonly keys: readonly string[];
}

/** What is due of one kind. */
export interface DueOfKind {
  readonly kind: DocumentKind;
  /** The longest wait of what has not been found to be a withdrawal. */
  readonly first: Timestamp | null;
  readonly firstWithdrawal: Timestamp | null;
  /** Whether the ERP has to be asked about some of them. */
  readonly lookUp: boolean;
}

/** The first of these kinds that has something due beside what is being worked on. */
export async function readFirstDue(
  tx: Sql,
  flow: string,
  kinds: readonly DocumentKind[],
  now: Timestamp,
  busy: Busy,
): Promise<DueOfKind | undefined> {
  const due = `d.flow = $1 and d.kind = k.kind and d.due <= $2 and (d.kind is distinct from $4 or d.key <> all($5))`;
  const [first] = await tx.query<DueOfKind>(
    `select * from (
       select k.kind, k.place,
         (select d.due from bridge.flow_documents d where ${due} and (d.withdraws = d.wanted) is not true
          order by d.due limit 1) as first,
         (select d.due from bridge.flow_documents d where ${due} and d.withdraws = d.wanted
          order by d.due limit 1) as "firstWithdrawal",
         exists (select from bridge.flow_documents d where ${due} and (d.withdraws = d.wanted) is not true
           and (d.intent_id is not null or d.forced or d.uncertain_since is not null)) as "lookUp"
       from unnest($3::text[]) with ordinality as k (kind, place)) as due
     where first is not null or "firstWithdrawal" is not null order by place limit 1`,
    [flow, now, kinds, busy.kind ?? null, busy.keys],
  );
  return first;
}

export interface DueOfFlow {
  flow: string;
  now: Timestamp;
  most: number;
}

/**
 * Locks due documents of one kind, those that waited longest first. Withdrawals go before what became due later, so that
 * all that became due with them is known by then.
 */
export async function takeDue(
  tx: Sql,
  { flow, now, most }: DueOfFlow,
  { kind, first }: DueOfKind,
  which: 'plain' | 'look up' | 'withdrawals',
  busy: Busy,
): Promise<FlowDocument[]> {
  const condition = {
    plain: '(withdraws = wanted) is not true and intent_id is null and not forced and uncertain_since is null',
    'look up': '(withdraws = wanted) is not true and (intent_id is not null or forced or uncertain_since is not null)',
    withdrawals: "withdraws = wanted and due < coalesce($6, 'infinity'::timestamptz)",
  }[which];
  const params = [flow, kind, now, most, busy.kind === kind ? busy.keys : []];
  return tx.query<FlowDocument>(
    `select ${documentColumns} from bridge.flow_documents
     where flow = $1 and kind = $2 and due <= $3 and ${condition} and key <> all($5) order by due limit $4 for update`,
    which === 'withdrawals' ? [...params, first] : params,
  );
}

/**
 * Locks those of which one is tried when the circuit is half open: what failed least first, and withdrawals after what
 * may turn out to be one.
 */
export async function takeToTry(
  tx: Sql,
  { flow, now, most }: DueOfFlow,
  kinds: readonly DocumentKind[],
): Promise<FlowDocument[]> {
  return tx.query<FlowDocument>(
    `select ${documentColumns} from bridge.flow_documents where flow = $1 and kind = any($2) and due <= $3
     order by attempts, withdraws is not distinct from wanted, array_position($2, kind), due limit $4 for update`,
    [flow, kinds, now, most],
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
export async function writeIntents(
  tx: Sql,
  flow: string,
  intents: readonly Intent[],
  { by, now }: { by: string; now: Timestamp },
): Promise<void> {
  if (intents.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set intent_id = i.id, intent_hash = i.hash, intent_at = $2, intent_by = $9, delivered_hash = i.delivered_hash,
         reference = i.reference,
         delivered_body = case when d.delivered_hash = i.delivered_hash then d.delivered_body end
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
      by,
    ],
  );
}

export interface Delivered {
  document: FlowDocument;
  /** Null after a cancellation. */
  hash: string | null;
  /** What was delivered; null after a cancellation, or where it is too long to be kept. */
  body: string | null;
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
     set delivered_hash = o.hash, delivered_body = o.body, reference = nullif(o.reference, ''), delivered = $2::timestamptz,
         reconciled = o.wanted,
         due = case when d.wanted = o.wanted then null else $2::timestamptz end,
         waiting_since = case when d.wanted = o.wanted then null else $2::timestamptz end,
         forced = d.forced and d.wanted <> o.wanted,
         uncertain_since = case when d.wanted <> o.wanted then d.uncertain_since end,
         withdrawn = case when o.hash is not null then null
                          when d.delivered_hash is not null
                            and (d.waiting_since <= f.withdrawals_agreed) is not true then $2::timestamptz
                          else d.withdrawn end,
         withdraws = null, intent_id = null, intent_hash = null, intent_at = null, intent_by = null, attempts = 0,
         last_error = null,
         error_type = null, dead_since = null
     from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[])
         as o (kind, key, hash, body, reference, wanted),
       bridge.flows f
     where d.flow = $1 and f.name = $1 and d.kind = o.kind and d.key = o.key`,
    [
      flow,
      now,
      delivered.map(({ document }) => document.kind),
      delivered.map(({ document }) => document.key),
      delivered.map(({ hash }) => hash),
      delivered.map(({ body }) => body),
      delivered.map(({ reference }) => reference),
      delivered.map(({ document }) => document.wanted),
    ],
  );
}

/** The ERP holds these already: no call was needed. They are locked since they were taken, so they cannot have changed. */
export async function markUnchanged(tx: Sql, flow: string, documents: readonly FlowDocument[]): Promise<void> {
  if (documents.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set reconciled = d.wanted, due = null, waiting_since = null, withdraws = null, attempts = 0, last_error = null,
         error_type = null, dead_since = null
     from unnest($2::text[], $3::text[]) as s (kind, key)
     where d.flow = $1 and d.kind = s.kind and d.key = s.key`,
    [flow, documents.map(({ kind }) => kind), documents.map(({ key }) => key)],
  );
}

export interface Held {
  document: FlowDocument;
  reason: string;
}

/** The ERP keeps what it has of these until they are marked again. */
export async function markHeld(tx: Sql, flow: string, held: readonly Held[]): Promise<void> {
  if (held.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set due = null, waiting_since = null, withdraws = null, attempts = 0, last_error = h.reason, error_type = 'held'
     from unnest($2::text[], $3::text[], $4::text[]) as h (kind, key, reason)
     where d.flow = $1 and d.kind = h.kind and d.key = h.key`,
    [
      flow,
      held.map(({ document }) => document.kind),
      held.map(({ document }) => document.key),
      held.map(({ reason }) => storableText(reason)),
    ],
  );
}

/**
 * They are withdrawals: counted before any of them is sent. Whatever is due by now, and may be one, is looked at before;
 * one that was known for a withdrawal before it changed again keeps its place.
 */
export async function markWithdrawals(
  tx: Sql,
  flow: string,
  documents: readonly FlowDocument[],
  now: Timestamp,
): Promise<void> {
  if (documents.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set withdraws = d.wanted, due = case when d.withdraws is null then $2::timestamptz else d.due end
     from unnest($3::text[], $4::text[]) as s (kind, key)
     where d.flow = $1 and d.kind = s.kind and d.key = s.key`,
    [flow, now, documents.map(({ kind }) => kind), documents.map(({ key }) => key)],
  );
}

export interface Postponed {
  document: FlowDocument;
  reason: string;
  /** The ERP's type of error, or the bridge's own: `not-yet`, `unknown`. */
  errorType: string;
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
     set last_error = p.reason, error_type = p.error_type,
         attempts = case when d.wanted = p.wanted then d.attempts + p.failed else 0 end,
         due = case when d.wanted = p.wanted then p.due else $2::timestamptz end,
         dead_since = case when d.wanted = p.wanted and p.due is null then $2::timestamptz end,
         intent_id = case when p.unknown then d.intent_id end,
         intent_hash = case when p.unknown then d.intent_hash end,
         -- One of a clock that was wrong, and is set right by now, must not be waited for all that time.
         intent_at = case when p.unknown and d.intent_at is not null then least(d.intent_at, $2::timestamptz) end,
         intent_by = case when p.unknown then d.intent_by end
     from unnest($3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::timestamptz[], $9::boolean[],
         $10::int[])
       as p (kind, key, wanted, reason, error_type, due, unknown, failed)
     where d.flow = $1 and d.kind = p.kind and d.key = p.key`,
    [
      flow,
      now,
      postponed.map(({ document }) => document.kind),
      postponed.map(({ document }) => document.key),
      postponed.map(({ document }) => document.wanted),
      postponed.map(({ reason }) => storableText(reason)),
      postponed.map(({ errorType }) => errorType),
      postponed.map(({ due }) => due),
      postponed.map(({ unknown }) => unknown),
      postponed.map(({ failed }) => (failed ? 1 : 0)),
    ],
  );
}

/**
 * Calls for these ended after another process may have called the ERP for them, too: it is to be asked what it holds.
 * The one write that needs no lease, as it only ever asks for more care.
 */
export async function markUncertain(
  sql: Sql,
  flow: string,
  documents: readonly FlowDocument[],
  now: Timestamp,
): Promise<void> {
  await sql.query(
    `update bridge.flow_documents d
     set wanted = d.wanted + 1, uncertain_since = $2, due = least(d.due, $2),
         waiting_since = coalesce(d.waiting_since, $2), dead_since = null
     from unnest($3::text[], $4::text[]) as s (kind, key)
     where d.flow = $1 and d.kind = s.kind and d.key = s.key`,
    [flow, now, documents.map(({ kind }) => kind), documents.map(({ key }) => key)],
  );
}

/**
 * The same for all that was delivered, or may have been, through another connector than the flow has now. All of it was
 * marked as due just before.
 */
export async function markDeliveredUncertain(tx: Sql, flow: string, now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.flow_documents set uncertain_since = $2
     where flow = $1 and (delivered_hash is not null or intent_id is not null)`,
    [flow, now],
  );
}
