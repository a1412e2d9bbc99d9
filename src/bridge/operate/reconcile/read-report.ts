/**
 * The report of a comparison that has ended: what was compared, what differs, and what the documents were worth. It is
 * made of the comparison's rows whenever somebody wants it, and always has the same text.
 */
import { canonicalDecimal } from '#connector/read-back.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { type FindingName, findingNames } from './finding-names.ts';
import { type LedgerFinding, readFindings, totalColumns } from './reconciliation-store.ts';

/** How many documents of a kind are in a state, and what was delivered with them. */
export interface ReportTotal {
  readonly kind: string;
  readonly state: 'as delivered' | FindingName;
  /** ISO 4217; null where documents of this kind have no amount. */
  readonly currency: string | null;
  readonly documents: number;
  /** An exact decimal; null without a currency. */
  readonly amount: string | null;
}

export interface ReportContent {
  readonly format: 'sourcing-bridge report 2';
  /** The number of the comparison in its bridge. */
  readonly number: number;
  readonly flow: string;
  readonly source: string | null;
  readonly connector: string | null;
  readonly askedBy: string;
  readonly started: Timestamp;
  readonly ended: Timestamp;
  /** The ids of the only events that were compared; null: all that the flow has delivered. */
  readonly events: readonly string[] | null;
  readonly documents: number;
  /** How many single values were compared. */
  readonly values: number;
  /** Each document is counted once. */
  readonly totals: readonly ReportTotal[];
  /** At most `differencesMax`; `differencesOmitted` says how many more there are. */
  readonly differences: readonly LedgerFinding[];
  readonly differencesOmitted: number;
  readonly notCompared: readonly {
    readonly kind: string;
    readonly field: string | null;
    readonly reason: string | null;
    readonly documents: number;
  }[];
}

/** The most differences that a report lists one by one; all of them are counted. */
const differencesMax = 10_000;

/** Throws AppError `not-found` where the comparison has not ended, or is not kept any more. */
export async function readReport(sql: Sql, run: number): Promise<ReportContent> {
  const names = findingNames.filter((name) => name !== 'not compared');
  const differences = await readFindings(sql, run, { names, limit: differencesMax });
  const [counted] = await sql.query<{ count: number }>(
    `select count(*)::int as count from bridge.reconciliation_findings where run = $1 and finding = any($2)`,
    [run, names],
  );
  const totals = await readTotals(sql, run);
  const notCompared = await sql.query<ReportContent['notCompared'][number]>(
    `select kind, field, reason, count(distinct key)::int as documents from bridge.reconciliation_findings
     where run = $1 and finding = 'not compared' group by kind, field, reason order by kind, field, reason`,
    [run],
  );
  type Head = Pick<
    ReportContent,
    'number' | 'flow' | 'source' | 'connector' | 'askedBy' | 'started' | 'ended' | 'events' | 'documents' | 'values'
  >;
  // Read last: its findings are deleted with it, so they were all there if it still is.
  const [head] = await sql.query<Head>(
    `select r.id as number, r.flow, w.source, w.connector, r.asked_by as "askedBy", r.started, r.ended, r.events,
       r.documents, r.compared_values as "values"
     from bridge.reconciliations r left join bridge.flows w on w.name = r.flow
     where r.id = $1 and r.ended is not null`,
    [run],
  );
  if (!head) throw new AppError('not-found', 'The comparison has not ended, or is not kept any more.');
  const differencesOmitted = (counted?.count ?? 0) - differences.length;
  return { format: 'sourcing-bridge report 2', ...head, totals, differences, differencesOmitted, notCompared };
}

async function readTotals(sql: Sql, run: number): Promise<ReportTotal[]> {
  const rows = await sql.query<ReportTotal & { readonly amount: string }>(
    `select t.kind, t.state, t.currency, t.documents, t.amount::text
     from bridge.reconciliations r cross join jsonb_to_recordset(r.totals) as t (${totalColumns})
     where r.id = $1 order by t.kind, t.currency, t.state`,
    [run],
  );
  return rows.map((row) => ({ ...row, amount: row.currency === null ? null : canonicalDecimal(row.amount) }));
}

/** What the report says in two sentences, for people. */
export function statementOf({ ended, flow, documents, totals }: ReportContent): string {
  const documentsIn = (name: ReportTotal['state']) =>
    totals.filter(({ state }) => state === name).reduce((sum, total) => sum + total.documents, 0);
  const others = findingNames.filter((name) => documentsIn(name) > 0).map((name) => `${documentsIn(name)} ${name}`);
  const rest = others.length === 0 ? 'Nothing else was found.' : `The others: ${others.join(', ')}.`;
  const minute = `${ended.slice(0, 10)} ${ended.slice(11, 16)} UTC`;
  return `On ${minute} the ERP of the flow ${flow} held ${documentsIn('as delivered')} of ${documents} delivered documents as they were delivered. ${rest}`;
}
