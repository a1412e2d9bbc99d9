/** Comparisons as a person looks at them: the latest, and one with what differs in which document. */
import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FindingName } from './finding-names.ts';

/** A run of `bridge.reconciliations`. */
export interface ShownRun {
  readonly run: number;
  readonly flow: string;
  readonly askedBy: string;
  readonly started: Timestamp;
  readonly ended: Timestamp | null;
  readonly lastError: string | null;
  /** How many events it is of; null: of everything. */
  readonly events: number | null;
  readonly documents: number;
  readonly asDelivered: number;
  /** Documents that differ or were unclear; null while it has not ended. */
  readonly differing: number | null;
}

/** Returns the latest runs, the newest first. With `flows` only those of these flows, with `run` only that one. */
export function listRuns(
  sql: Sql,
  { flows, run, limit }: { flows?: readonly string[] | undefined; run?: number; limit: number },
): Promise<ShownRun[]> {
  return sql.query<ShownRun>(
    `select r.id as run, r.flow, r.asked_by as "askedBy", r.started, r.ended, r.last_error as "lastError",
       cardinality(r.events) as events, r.documents, r.as_delivered as "asDelivered", r.differing
     from bridge.reconciliations r
     where ($1::text[] is null or r.flow = any($1)) and ($2::bigint is null or r.id = $2)
     order by r.id desc limit $3`,
    [flows ?? null, run ?? null, limit],
  );
}

/** A value that differs, or another finding of a document. */
export interface ShownFinding {
  readonly finding: FindingName;
  readonly field: string | null;
  /** The value that was delivered, and the one that the ERP holds. */
  readonly deliveredValue: string | null;
  readonly erpValue: string | null;
  readonly changedBy: string | null;
  readonly changedAt: string | null;
  readonly reason: string | null;
}

export interface DifferingDocument {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly reference: string | null;
  readonly eventName: string | null;
  readonly supplierName: string | null;
  /** Whether it was made due again since the run began: the ERP is being brought in step. */
  readonly isDue: boolean;
  readonly findings: readonly ShownFinding[];
}

/** Returns the documents of a run with findings of these names, by kind and key; at most `limit`. */
export function readDifferingDocuments(
  sql: Sql,
  run: number,
  { names, limit }: { names: readonly FindingName[]; limit: number },
): Promise<DifferingDocument[]> {
  return sql.query<DifferingDocument>(
    `select f.kind, f.key, max(f.reference) as reference, nullif(max(e.name), '') as "eventName",
       nullif(max(s.name), '') as "supplierName", coalesce(bool_or(d.due is not null), false) as "isDue",
       json_agg(json_build_object('finding', f.finding, 'field', f.field, 'deliveredValue', f.expected,
         'erpValue', f.held, 'changedBy', f.changed_by, 'changedAt', f.changed_at, 'reason', f.reason)
         order by f.number) as findings
     from bridge.reconciliation_findings f
     join bridge.reconciliations r on r.id = f.run
     left join bridge.flow_documents d on d.flow = r.flow and d.kind = f.kind and d.key = f.key
     left join bridge.flows w on w.name = r.flow
     left join bridge.subjects e on e.source = w.source and e.kind = 'event' and e.id = d.sourcing_event
     left join bridge.subjects s on s.source = w.source and s.kind = 'supplier' and s.id = d.supplier
     where f.run = $1 and f.finding = any($2) group by f.kind, f.key order by f.kind, f.key limit $3`,
    [run, names, limit],
  );
}
