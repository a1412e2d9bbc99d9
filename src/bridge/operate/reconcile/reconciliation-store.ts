/**
 * The rows of `bridge.reconciliations` and of their findings, and the documents that a run compares, one operation a
 * function.
 */
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { AppError } from '#platform/errors.ts';
import { type FindingName, findingNames } from './finding-names.ts';

/** One field that differs, or another finding of a document. */
export interface LedgerFinding {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly finding: FindingName;
  readonly reference: string | null;
  readonly field: string | null;
  readonly expected: string | null;
  readonly held: string | null;
  readonly changedBy: string | null;
  readonly changedAt: string | null;
  readonly reason: string | null;
}

export interface Reconciliation {
  readonly id: number;
  readonly flow: string;
  readonly events: readonly string[] | null;
  readonly askedBy: string;
  readonly started: Timestamp;
  readonly ended: Timestamp | null;
  readonly kind: string;
  readonly key: string;
  readonly documents: number;
  readonly asDelivered: number;
  readonly comparedValues: number;
}

const reconciliationColumns = `id, flow, events, asked_by as "askedBy", started, ended, kind, key, documents,
  as_delivered as "asDelivered", compared_values as "comparedValues"`;

/** Of each flow. */
const runsKept = 50;

/**
 * Begins a run of this flow and these events; one that was interrupted is deleted, and a process that still works on it
 * stops. With `goesOn` it returns the interrupted one, if there is one.
 */
export async function beginReconciliation(
  database: Database,
  {
    flow,
    events,
    askedBy,
    goesOn,
  }: { flow: string; events: readonly string[] | null; askedBy: string; goesOn: boolean },
  now: Timestamp,
): Promise<Reconciliation> {
  const ids = events === null ? null : [...new Set(events)].sort();
  return database.transaction(async (tx) => {
    const interrupted = 'flow = $1 and events is not distinct from $2::text[] and ended is null';
    if (goesOn) {
      const [open] = await tx.query<Reconciliation>(
        `select ${reconciliationColumns} from bridge.reconciliations where ${interrupted} order by id desc limit 1`,
        [flow, ids],
      );
      if (open) return open;
    } else await tx.query(`delete from bridge.reconciliations where ${interrupted}`, [flow, ids]);
    const [begun] = await tx.query<Reconciliation>(
      `insert into bridge.reconciliations (flow, events, asked_by, started) values ($1, $2, $3, $4) returning ${reconciliationColumns}`,
      [flow, ids, askedBy, now],
    );
    if (!begun) throw new AppError('internal', 'A reconciliation was not stored.');
    await tx.query(
      `delete from bridge.reconciliations where flow = $1 and id <= (
         select id from bridge.reconciliations where flow = $1 order by id desc offset ${runsKept} limit 1)`,
      [flow],
    );
    return begun;
  });
}

/**
 * Writes that the run has compared everything; repeated, it changes nothing. Returns the run as it is then. Throws
 * AppError `conflict` when the run was begun anew.
 */
export async function endReconciliation(sql: Sql, run: Reconciliation, now: Timestamp): Promise<Reconciliation> {
  const [ended] = await sql.query<Reconciliation>(
    `update bridge.reconciliations r set ended = coalesce(ended, $2), last_error = null, failed = null,
       differing = (select count(distinct (f.kind, f.key)) from bridge.reconciliation_findings f
         where f.run = r.id and f.finding <> 'not compared')
     where id = $1 returning ${reconciliationColumns}`,
    [run.id, now],
  );
  if (!ended) throw movedOn(run);
  return ended;
}

function movedOn({ flow }: Reconciliation): AppError {
  return new AppError('conflict', `Another process goes on with this comparison of "${flow}", or began it anew.`);
}

/** A document that the ERP has taken once, as the ledger knows it. */
export interface LedgerDocument {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly reference: string | null;
  /** Null when it was withdrawn. */
  readonly deliveredHash: string | null;
  /** Whether a call for it is under way, or its outcome is not known. */
  readonly isUncertain: boolean;
  /** Changes with each call for it and with each outcome. */
  readonly state: string;
  /** The version that was delivered last, for a withdrawn document that of its withdrawal; null where it was not kept. */
  readonly document: Document | null;
}

const stateOf = 'row(d.delivered_hash, d.delivered, d.intent_id, d.reference)::text';
const isUncertain = '(d.intent_id is not null or d.uncertain_since is not null)';

/** Returns the next documents after the run's position: all of one kind, at most `limit`. */
export async function readLedgerPage(
  sql: Sql,
  { flow, events, kind, key }: Pick<Reconciliation, 'flow' | 'events' | 'kind' | 'key'>,
  kinds: readonly DocumentKind[],
  limit: number,
): Promise<LedgerDocument[]> {
  const rows = await sql.query<Omit<LedgerDocument, 'document'> & { body: string | null }>(
    `select d.kind, d.key, d.reference, d.delivered_hash as "deliveredHash", ${isUncertain} as "isUncertain",
       ${stateOf} as state, v.body
     from (
       select * from bridge.flow_documents
       where flow = $1 and kind = any($2) and delivered is not null and (kind, key) > ($3, $4)
         and ($5::text[] is null or sourcing_event = any($5))
       order by kind, key limit $6) d
     left join lateral (
       select body from bridge.document_versions v
       where v.flow = d.flow and v.kind = d.kind and v.key = d.key and v.body is not null
         and (d.delivered_hash is null or v.content_hash = d.delivered_hash)
       order by sent desc limit 1) v on true
     order by d.kind, d.key`,
    [flow, kinds, kind, key, events, limit],
  );
  const ofFirstKind = rows.filter((row) => row.kind === rows[0]?.kind);
  return ofFirstKind.map(({ body, ...row }) => ({
    ...row,
    document: body === null ? null : (JSON.parse(body) as Document),
  }));
}

/** Returns the keys of those of these documents that were written, or began to be, since the page was read. */
export async function readMoved(
  sql: Sql,
  flow: string,
  documents: readonly LedgerDocument[],
): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ key: string }>(
    // The limit keeps the planner from reading the whole ledger for each page.
    `select w.key from unnest($2::text[], $3::text[], $4::text[]) as w (kind, key, state)
     left join lateral (
       select ${stateOf} as state, ${isUncertain} as uncertain from bridge.flow_documents d
       where d.flow = $1 and d.kind = w.kind and d.key = w.key limit 1) d on true
     where d.state is distinct from w.state or d.uncertain`,
    [flow, documents.map(({ kind }) => kind), documents.map(({ key }) => key), documents.map(({ state }) => state)],
  );
  return new Set(rows.map(({ key }) => key));
}

/** What a page has come to. */
export interface ComparedPage {
  readonly last: Pick<LedgerDocument, 'kind' | 'key'>;
  readonly documents: number;
  readonly asDelivered: number;
  readonly comparedValues: number;
  readonly findings: readonly LedgerFinding[];
  /** One for each document. */
  readonly states: readonly ComparedState[];
}

/** What a document counts as in the totals of its run. */
export interface ComparedState {
  readonly kind: DocumentKind;
  readonly state: 'as delivered' | FindingName;
  /** ISO 4217; null where the document has no amount. */
  readonly currency: string | null;
  /** What was delivered with it, as a decimal. */
  readonly amount: string | null;
}

/** The columns of a total, in the JSON of its run. */
export const totalColumns = 'kind text, currency text, state text, documents bigint, amount numeric';

/** The run's totals with those of a page, $9 to $12. Exact: `numeric` adds decimals of any length. */
const addedTotals = `(
  select coalesce(jsonb_agg(t), '[]') from (
    select kind, currency, state, sum(documents) as documents, sum(amount) as amount from (
      select * from jsonb_to_recordset(totals) as known (${totalColumns})
      union all
      select s.kind, s.currency, s.state, 1, s.amount
      from unnest($9::text[], $10::text[], $11::text[], $12::numeric[]) as s (kind, currency, state, amount)) as each
    group by kind, currency, state) as t)`;

/**
 * Writes the findings of a page, counts its documents and moves the run behind it, in one transaction. Returns the run
 * as it is then. Throws AppError `conflict` when another process has compared this page, or has begun the run anew:
 * nothing is written then.
 */
export async function storeComparedPage(
  database: Database,
  run: Reconciliation,
  page: ComparedPage,
): Promise<Reconciliation> {
  return database.transaction(async (tx) => {
    const [moved] = await tx.query<Reconciliation>(
      `update bridge.reconciliations set kind = $4, key = $5, documents = documents + $6,
         as_delivered = as_delivered + $7, compared_values = compared_values + $8, totals = ${addedTotals}
       where id = $1 and kind = $2 and key = $3 and ended is null returning ${reconciliationColumns}`,
      [
        run.id,
        run.kind,
        run.key,
        page.last.kind,
        page.last.key,
        page.documents,
        page.asDelivered,
        page.comparedValues,
        page.states.map(({ kind }) => kind),
        page.states.map(({ currency }) => currency),
        page.states.map(({ state }) => state),
        page.states.map(({ amount }) => amount ?? '0'),
      ],
    );
    if (!moved) throw movedOn(run);
    if (page.findings.length > 0) await insertFindings(tx, run.id, page.findings);
    return moved;
  });
}

async function insertFindings(tx: Sql, run: number, findings: readonly LedgerFinding[]): Promise<void> {
  const column = (value: (finding: LedgerFinding) => string | null) =>
    findings.map((finding) => {
      const text = value(finding);
      return text === null ? null : storableText(text);
    });
  await tx.query(
    `insert into bridge.reconciliation_findings
       (run, kind, key, number, finding, reference, field, expected, held, changed_by, changed_at, reason)
     select $1, f.kind, f.key, row_number() over (partition by f.kind, f.key order by f.place), f.finding,
       f.reference, f.field, f.expected, f.held, f.changed_by, f.changed_at, f.reason
     from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
       $10::text[], $11::text[]) with ordinality
       as f (kind, key, finding, reference, field, expected, held, changed_by, changed_at, reason, place)`,
    [
      run,
      findings.map(({ kind }) => kind),
      findings.map(({ key }) => key),
      column(({ finding }) => finding),
      findings.map(({ reference }) => reference),
      column(({ field }) => field),
      column(({ expected }) => expected),
      column(({ held }) => held),
      column(({ changedBy }) => changedBy),
      column(({ changedAt }) => changedAt),
      column(({ reason }) => reason),
    ],
  );
}

/** Returns how many documents have each finding. */
export async function countFindings(sql: Sql, run: number): Promise<Record<FindingName, number>> {
  const rows = await sql.query<{ finding: FindingName; count: number }>(
    `select finding, count(distinct (kind, key))::int as count from bridge.reconciliation_findings
     where run = $1 group by finding`,
    [run],
  );
  const counts = new Map(rows.map(({ finding, count }) => [finding, count]));
  return Object.fromEntries(findingNames.map((name) => [name, counts.get(name) ?? 0])) as Record<FindingName, number>;
}

/** Returns the findings of a run by document, those of these names only; at most `limit` rows. */
export function readFindings(
  sql: Sql,
  run: number,
  { names, limit }: { names: readonly FindingName[]; limit: number },
): Promise<LedgerFinding[]> {
  return sql.query<LedgerFinding>(
    `select kind, key, finding, reference, field, expected, held, changed_by as "changedBy",
       changed_at as "changedAt", reason
     from bridge.reconciliation_findings where run = $1 and finding = any($2) order by kind, key, number limit $3`,
    [run, names, limit],
  );
}

/** Returns the documents of a run with one of these findings. */
export function readFoundKeys(
  sql: Sql,
  run: number,
  names: readonly FindingName[],
): Promise<{ kind: DocumentKind; keys: string[] }[]> {
  return sql.query(
    `select kind, array_agg(distinct key) as keys from bridge.reconciliation_findings
     where run = $1 and finding = any($2) group by kind order by kind`,
    [run, names],
  );
}

/** Notes why the run could not go on; one that has ended is left as it is. */
export async function noteReconciliationFailure(sql: Sql, run: number, text: string, now: Timestamp): Promise<void> {
  await sql.query('update bridge.reconciliations set last_error = $2, failed = $3 where id = $1 and ended is null', [
    run,
    storableText(text),
    now,
  ]);
}

/** Deletes the runs that began before then, with their findings. */
export async function pruneReconciliations(sql: Sql, before: Timestamp): Promise<void> {
  await sql.query('delete from bridge.reconciliations where started < $1', [before]);
}
