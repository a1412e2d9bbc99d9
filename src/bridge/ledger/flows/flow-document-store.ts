/**
 * The rows of `bridge.flow_documents` as the pusher reads and writes them, one operation a function. Every function but
 * `markUncertain` runs in a transaction of the flow's lease, so that a process that has lost the lease writes nothing.
 */

import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';

/** Stands for the hash of a content that the ERP cannot tell; equal to no document's hash. */
export const unknownContent = 'unknown';

export interface FlowDocument {
  readonly kind: DocumentKind;
  readonly key: string;
  /** A version number: grows with every change of a record that the document is made of. */
  readonly wanted: number;
  /**
   * The content hash of what the ERP holds, `unknownContent` when the ERP cannot tell it; null when the ERP holds
   * nothing, or a cancelled object.
   */
  readonly deliveredHash: string | null;
  readonly reference: string | null;
  /** The idempotency key of the call that is in flight, or was interrupted; null when there is none. */
  readonly intentId: string | null;
  readonly intentHash: string | null;
  readonly intentAt: Timestamp | null;
  /** The identity of the process that makes the call. */
  readonly intentBy: string | null;
  /** How many milliseconds after `intentAt` the call ends at the latest: its time limit, and the time to stop. */
  readonly intentLimitMs: number;
  /** When a process has seen the end of the call; null while none has. */
  readonly callEnded: Timestamp | null;
  /** Whether the ERP answered the call, so that it works on it no longer. */
  readonly callAnswered: boolean;
  /** An operator asked for a replay: it is written again although nothing differs. */
  readonly forced: boolean;
  /** When the ERP last took it, or was last found to hold it. */
  readonly delivered: Timestamp | null;
  /**
   * Since when the ERP's state is uncertain: a call ended that may have reached the ERP after the call of another
   * process, or the flow got another connector.
   */
  readonly uncertainSince: Timestamp | null;
  /** Whether a claim found it to be a withdrawal, and it has not changed since. */
  readonly withdraws: boolean;
  /** Failed tries since the document last changed. */
  readonly attempts: number;
  /** The error type of the last failed try. */
  readonly errorType: string | null;
  readonly lastError: string | null;
  /** The service's ids of the event and the supplier that it is about; null where it is about none. */
  readonly sourcingEvent: string | null;
  readonly supplier: string | null;
  /** The pull that last marked it as due; null where something else did. */
  readonly pull: string | null;
}

/** The columns of a FlowDocument. */
export const documentColumns = `kind, key, wanted, delivered_hash as "deliveredHash", reference,
  intent_id as "intentId", intent_hash as "intentHash", intent_at as "intentAt", intent_by as "intentBy",
  intent_limit_ms as "intentLimitMs", call_ended as "callEnded", call_answered as "callAnswered",
  forced, delivered, uncertain_since as "uncertainSince",
  withdraws is not distinct from wanted as withdraws, attempts,
  error_type as "errorType", last_error as "lastError", sourcing_event as "sourcingEvent", supplier, pull`;

/** The documents whose calls have not ended yet: they must not be claimed a second time. All are of one kind. */
export interface InFlight {
  /** Undefined when no call is in flight. */
  readonly kind: DocumentKind | undefined;
  readonly keys: readonly string[];
}

/** Which documents of a kind are due. */
export interface DueOfKind {
  readonly kind: DocumentKind;
  /** The earliest due time of the documents that are not known to be withdrawals. */
  readonly firstWrite: Timestamp | null;
  /** The earliest due time of the documents that are known to be withdrawals. */
  readonly firstWithdrawal: Timestamp | null;
  /** Whether the ERP must be asked about some of the former. */
  readonly needsLookUp: boolean;
}

/** Returns the first of these kinds that has due documents beside those in flight; undefined when none has. */
export async function readFirstDue(
  tx: Sql,
  flow: string,
  kinds: readonly DocumentKind[],
  now: Timestamp,
  inFlight: InFlight,
): Promise<DueOfKind | undefined> {
  const [first] = await tx.query<DueOfKind>(firstDue, [flow, now, kinds, inFlight.kind ?? null, inFlight.keys]);
  return first;
}

const dueOfKind = `d.flow = $1 and d.kind = k.kind and d.due <= $2 and (d.kind is distinct from $4 or d.key <> all($5))`;

// Prepared: to plan it takes longer than to run it.
const firstDue = prepared(
  `select * from (
     select k.kind, k.place,
       (select d.due from bridge.flow_documents d where ${dueOfKind} and (d.withdraws = d.wanted) is not true
        order by d.due limit 1) as "firstWrite",
       (select d.due from bridge.flow_documents d where ${dueOfKind} and d.withdraws = d.wanted
        order by d.due limit 1) as "firstWithdrawal",
       exists (select from bridge.flow_documents d where ${dueOfKind} and (d.withdraws = d.wanted) is not true
         and (d.intent_id is not null or d.forced or d.uncertain_since is not null)) as "needsLookUp"
     from unnest($3::text[]) with ordinality as k (kind, place)) as due
   where "firstWrite" is not null or "firstWithdrawal" is not null order by place limit 1`,
);

export interface DueOfFlow {
  flow: string;
  now: Timestamp;
  documentsMax: number;
}

/**
 * Locks and returns due documents of one kind, those that have waited longest first. Of the withdrawals only those that
 * became due before every other document: what became due together with them has been examined by then, and all
 * withdrawals among it are counted.
 */
export async function lockDue(
  tx: Sql,
  { flow, now, documentsMax }: DueOfFlow,
  { kind, firstWrite }: DueOfKind,
  which: 'plain' | 'look up' | 'withdrawals',
  inFlight: InFlight,
): Promise<FlowDocument[]> {
  const condition = {
    plain: '(withdraws = wanted) is not true and intent_id is null and not forced and uncertain_since is null',
    'look up': '(withdraws = wanted) is not true and (intent_id is not null or forced or uncertain_since is not null)',
    withdrawals: "withdraws = wanted and due < coalesce($6, 'infinity'::timestamptz)",
  }[which];
  const params = [flow, kind, now, documentsMax, inFlight.kind === kind ? inFlight.keys : []];
  return tx.query<FlowDocument>(
    `select ${documentColumns} from bridge.flow_documents
     where flow = $1 and kind = $2 and due <= $3 and ${condition} and key <> all($5) order by due limit $4 for update`,
    which === 'withdrawals' ? [...params, firstWrite] : params,
  );
}

/**
 * Locks and returns candidates for the trial of a half-open circuit: documents with the fewest failures first. Known
 * withdrawals come after documents that may turn out to be withdrawals, so that all are counted before one is sent.
 */
export async function lockForTrial(
  tx: Sql,
  { flow, now, documentsMax }: DueOfFlow,
  kinds: readonly DocumentKind[],
): Promise<FlowDocument[]> {
  return tx.query<FlowDocument>(
    `select ${documentColumns} from bridge.flow_documents where flow = $1 and kind = any($2) and due <= $3
     order by attempts, withdraws is not distinct from wanted, array_position($2, kind), due limit $4 for update`,
    [flow, kinds, now, documentsMax],
  );
}

export interface Intent {
  document: FlowDocument;
  id: string;
  hash: string;
}

/**
 * Writes the intents. Once this has committed, the ERP may have been called. What the ERP holds before the call is
 * written with them: where `lookup` found that out, it must survive a call that fails.
 */
export async function writeIntents(
  tx: Sql,
  flow: string,
  intents: readonly Intent[],
  { by, now, limitMs }: { by: string; now: Timestamp; limitMs: number },
): Promise<void> {
  if (intents.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set intent_id = i.id, intent_hash = i.hash, intent_at = $2, intent_by = $9, intent_limit_ms = $10,
         call_ended = null, call_answered = false, delivered_hash = i.delivered_hash, reference = i.reference
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
      limitMs,
    ],
  );
}

export interface Delivered {
  document: FlowDocument;
  /** Null after a cancellation. */
  hash: string | null;
  reference: string;
}

/**
 * Writes down that the ERP holds these documents now. A document that changed since its claim stays due, and also stays
 * forced or uncertain. A withdrawal to which an operator has agreed is not counted as withdrawn.
 */
export async function markDelivered(
  tx: Sql,
  flow: string,
  delivered: readonly Delivered[],
  now: Timestamp,
): Promise<void> {
  if (delivered.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set delivered_hash = o.hash, reference = nullif(o.reference, ''),
         delivered = $2::timestamptz, reconciled = o.wanted,
         due = case when d.wanted = o.wanted then null else $2::timestamptz end,
         waiting_since = case when d.wanted = o.wanted then null else $2::timestamptz end,
         forced = d.forced and d.wanted <> o.wanted,
         uncertain_since = case when d.wanted <> o.wanted then d.uncertain_since end,
         withdrawn = case when o.hash is not null then null
                          when d.delivered_hash is not null
                            and (d.waiting_since <= f.withdrawals_agreed) is not true then $2::timestamptz
                          else d.withdrawn end,
         withdraws = null, intent_id = null, intent_hash = null, intent_at = null, intent_by = null,
         intent_limit_ms = 0, call_ended = null, call_answered = false, attempts = 0, last_error = null,
         error_type = null, dead_since = null
     from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
         as o (kind, key, hash, reference, wanted),
       bridge.flows f
     where d.flow = $1 and f.name = $1 and d.kind = o.kind and d.key = o.key`,
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

/**
 * Writes down that the ERP was found to hold documents that nothing says were ever sent. They are due at once, and still
 * uncertain: from now on their withdrawals are counted like any other.
 */
export async function markFound(tx: Sql, flow: string, found: readonly FlowDocument[], now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.flow_documents d
     set delivered_hash = f.hash, reference = f.reference, due = $2, waiting_since = coalesce(d.waiting_since, $2)
     from unnest($3::text[], $4::text[], $5::text[], $6::text[]) as f (kind, key, hash, reference)
     where d.flow = $1 and d.kind = f.kind and d.key = f.key`,
    [
      flow,
      now,
      found.map(({ kind }) => kind),
      found.map(({ key }) => key),
      found.map(({ deliveredHash }) => deliveredHash),
      found.map(({ reference }) => reference),
    ],
  );
}

/** Forgets documents that nothing says were ever sent, and that the ERP does not hold; not those that have changed. */
export async function forgetUntried(tx: Sql, flow: string, documents: readonly FlowDocument[]): Promise<void> {
  await tx.query(
    `delete from bridge.flow_documents d using unnest($2::text[], $3::text[], $4::bigint[]) as f (kind, key, wanted)
     where d.flow = $1 and d.kind = f.kind and d.key = f.key and d.wanted = f.wanted and d.intent_id is null`,
    [flow, documents.map(({ kind }) => kind), documents.map(({ key }) => key), documents.map(({ wanted }) => wanted)],
  );
}

/**
 * Writes down that the ERP holds these documents already, without a call. Their rows have been locked since they were
 * read, so they cannot have changed meanwhile.
 */
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

/** A document that is not written, although it may differ from what the ERP holds. */
export interface OnHold {
  document: FlowDocument;
  reason: string;
}

/** The ERP keeps what it has of these documents until they are marked as due again. */
export async function markOnHold(tx: Sql, flow: string, onHold: readonly OnHold[]): Promise<void> {
  if (onHold.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set due = null, waiting_since = null, withdraws = null, attempts = 0, last_error = h.reason, error_type = 'held'
     from unnest($2::text[], $3::text[], $4::text[]) as h (kind, key, reason)
     where d.flow = $1 and d.kind = h.kind and d.key = h.key`,
    [
      flow,
      onHold.map(({ document }) => document.kind),
      onHold.map(({ document }) => document.key),
      onHold.map(({ reason }) => storableText(reason)),
    ],
  );
}

/**
 * Marks these documents as withdrawals, which are all counted before any of them is sent. Each becomes due anew now, so
 * that every other document that is due by now, and may be a withdrawal as well, is examined first. A document that was
 * a withdrawal before it changed again keeps its due time: one that changes all the time must have its turn, too.
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

/** The end of a call, as a process has seen it. */
export interface CallEnd {
  readonly at: Timestamp;
  /** Whether the ERP has answered, so that it works on the operation no longer. */
  readonly answered: boolean;
}

export interface Postponed {
  document: FlowDocument;
  reason: string;
  /** The error type that the ERP answered, or the bridge's own `not-yet` or `unknown`. */
  errorType: string;
  /** When to try again; null makes it a dead letter. */
  due: Timestamp | null;
  /** Whether a call may have taken effect: then the intent stays, and `lookup` is called before the next try. */
  keepIntent: boolean;
  /** The end of the call whose intent stays, where it was seen now; undefined leaves what is known of it. */
  callEnd?: CallEnd | undefined;
  /** Whether it counts as a failed try, so that the next wait is longer. */
  isFailure: boolean;
}

/**
 * Writes down when these documents are tried again, and why they were not delivered. A document that changed since its
 * claim is due at once instead: what failed was its older state.
 */
export async function postpone(tx: Sql, flow: string, postponed: readonly Postponed[], now: Timestamp): Promise<void> {
  if (postponed.length === 0) return;
  await tx.query(
    `update bridge.flow_documents d
     set last_error = p.reason, error_type = p.error_type,
         attempts = case when d.wanted = p.wanted then d.attempts + p.failures else 0 end,
         due = case when d.wanted = p.wanted then p.due else $2::timestamptz end,
         dead_since = case when d.wanted = p.wanted and p.due is null then $2::timestamptz end,
         intent_id = case when p.keep_intent then d.intent_id end,
         intent_hash = case when p.keep_intent then d.intent_hash end,
         -- A time in the future was written under a clock that ran ahead: nothing must wait until then.
         intent_at = case when p.keep_intent and d.intent_at is not null then least(d.intent_at, $2::timestamptz) end,
         intent_by = case when p.keep_intent then d.intent_by end,
         intent_limit_ms = case when p.keep_intent then d.intent_limit_ms else 0 end,
         call_ended = case when p.keep_intent and coalesce(p.ended, d.call_ended) is not null
                        then least(coalesce(p.ended, d.call_ended), $2::timestamptz) end,
         call_answered = p.keep_intent and case when p.ended is null then d.call_answered else p.answered end
     from unnest($3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::timestamptz[], $9::boolean[],
         $10::int[], $11::timestamptz[], $12::boolean[])
       as p (kind, key, wanted, reason, error_type, due, keep_intent, failures, ended, answered)
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
      postponed.map(({ keepIntent }) => keepIntent),
      postponed.map(({ isFailure }) => (isFailure ? 1 : 0)),
      postponed.map(({ callEnd }) => callEnd?.at ?? null),
      postponed.map(({ callEnd }) => callEnd?.answered ?? false),
    ],
  );
}

/**
 * Marks these documents as uncertain: their calls ended after another process may have called the ERP for them, too, so
 * the ERP must be asked what it holds. Where the intent of that call still stands, its end is written down, too, so
 * that no process waits for the end of its time limit; `intentAt` is null for a call that has not ended. This write needs no lease: at worst it causes a lookup that was
 * not necessary, and it says nothing of the call of another intent.
 */
export async function markUncertain(
  sql: Sql,
  flow: string,
  documents: readonly FlowDocument[],
  { by, intentAt, now }: { by: string; intentAt: Timestamp | null; now: Timestamp },
): Promise<void> {
  await sql.query(
    `update bridge.flow_documents d
     set wanted = d.wanted + 1, uncertain_since = $2, due = least(d.due, $2),
         waiting_since = coalesce(d.waiting_since, $2), dead_since = null,
         call_ended = case when d.intent_by = $5 and d.intent_at = $6 then coalesce(d.call_ended, $2)
                        else d.call_ended end
     from unnest($3::text[], $4::text[]) as s (kind, key)
     where d.flow = $1 and d.kind = s.kind and d.key = s.key`,
    [flow, now, documents.map(({ kind }) => kind), documents.map(({ key }) => key), by, intentAt],
  );
}
