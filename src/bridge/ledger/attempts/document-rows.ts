/** The rows of documents as find, history and show read them: with names, state, and what was tried last. */
import type { Subject } from '#bridge/mirror/subjects.ts';
import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type DocumentFacts, type DocumentState, stateOf } from './document-state.ts';

/** What people have written down of a document that was refused. */
export interface DocumentNote {
  /** Who looks after it; null: nobody is named. */
  readonly lookedAfterBy: string | null;
  readonly decision: string | null;
  readonly notedBy: string;
  readonly noted: Timestamp;
}

export interface DocumentPlace {
  readonly flow: string;
  readonly kind: DocumentKind;
  readonly key: string;
}

/** A document of a flow, as a person looks at it. */
export interface ShownDocument extends DocumentPlace, Subject, DocumentState {
  readonly source: string;
  /** The ERP's reference of the object that it holds, or held last. */
  readonly reference: string | null;
  /** When the ERP last took it. */
  readonly delivered: Timestamp | null;
  readonly pull: string | null;
  readonly documentNote: DocumentNote | null;
}

/** `d`: a row of `bridge.flow_documents`, `f`: its flow. The names are those that the source shows now. */
export const subjectJoins = `
  left join lateral (select name, reference, folded from bridge.subjects s
    where s.source = f.source and s.kind = 'event' and s.id = d.sourcing_event) e on true
  left join lateral (
    select id, name, reference, folded from bridge.subjects s
    where s.source = f.source and s.kind = 'supplier' and s.id = coalesce(d.supplier, case when d.kind = 'supplier' then d.key end)
    union all
    select id, name, reference, folded from bridge.subjects s
    where d.kind = 'supplier' and s.source = f.source and s.kind = 'supplier' and s.reference = d.key and s.reference <> ''
    limit 1) s on true`;

/**
 * The condition that the event or the supplier of a document is named with a pattern of `folded`, a parameter. It reads
 * the names once, however many documents there are, and uses `d` and `f` only.
 */
export function isNamedLike(folded: string): string {
  const named = (kind: string, id: string) =>
    `(select ${id} from bridge.subjects s where s.kind = '${kind}' and s.folded like ${folded})`;
  return `(d.sourcing_event in ${named('event', 's.id')} or d.supplier in ${named('supplier', 's.id')}
    or d.kind = 'supplier' and (d.key in ${named('supplier', 's.id')}
      or (f.source, d.key) in ${named('supplier', 's.source, s.reference')}))`;
}

/** What `shownDocumentOf` needs of the row. */
export const shownColumns = `d.flow, d.kind, d.key, f.source, d.sourcing_event as "sourcingEvent", e.name as "eventName",
  nullif(e.reference, '') as "eventReference", coalesce(d.supplier, s.id) as supplier,
  nullif(s.name, '') as "supplierName", nullif(s.reference, '') as "supplierExternalId",
  d.due, d.waiting_since as "waitingSince", d.dead_since as "deadSince", d.attempts, d.error_type as "errorType",
  d.last_error as "lastError", d.delivered, d.delivered_hash is not null as "isHeld", d.reference,
  d.intent_at as "intentAt", d.call_ended as "callEnded", d.withdraws is not distinct from d.wanted as "isWithdrawal",
  d.kind = any(f.kinds) as "isTaken", f.paused_reason as "pausedReason", f.circuit_until as "circuitUntil",
  f.throttled_until as "throttledUntil", d.pull, d.note as "documentNote"`;

/** Documents that need a look first, then those with the latest change. */
const order = `(d.due is null and d.dead_since is null), greatest(d.delivered, d.waiting_since, d.dead_since) desc nulls last,
  d.flow, d.kind, d.key`;

export type DocumentRow = DocumentPlace &
  Subject &
  DocumentFacts &
  Pick<ShownDocument, 'source' | 'pull' | 'documentNote'>;

/**
 * Reads the documents for which `condition` holds, which may use `d` and `f`. The names are looked up for the page, not
 * for every document that fits.
 */
export async function readDocuments(
  sql: Sql,
  { with: prefix = '', condition, params }: { with?: string; condition: string; params: readonly unknown[] },
  { now, limit, skip = 0 }: { now: Timestamp; limit: number; skip?: number },
): Promise<ShownDocument[]> {
  const rows = await sql.query<DocumentRow>(
    `${prefix} select ${shownColumns} from (
       select d.* from bridge.flow_documents d join bridge.flows f on f.name = d.flow where ${condition}
       order by ${order} limit ${Math.trunc(limit)} offset ${Math.trunc(skip)}
     ) d join bridge.flows f on f.name = d.flow ${subjectJoins} order by ${order}`,
    params,
  );
  return rows.map((row) => shownDocumentOf(row, now));
}

/** Returns the document of a row of `shownColumns`, with its state. */
export function shownDocumentOf(row: DocumentRow, now: Timestamp): ShownDocument {
  const { flow, kind, key, source, reference, delivered, pull, documentNote } = row;
  const { sourcingEvent, eventName, eventReference, supplier, supplierName, supplierExternalId } = row;
  const subject = { sourcingEvent, eventName, eventReference, supplier, supplierName, supplierExternalId };
  return { flow, kind, key, source, ...subject, reference, delivered, pull, documentNote, ...stateOf(row, now) };
}
