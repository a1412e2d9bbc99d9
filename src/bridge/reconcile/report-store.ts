/**
 * The rows of `bridge.reports`: a comparison ends with its signed report in one transaction, so that there is never an
 * ended one without a report, and never two. The row of the signing key is locked meanwhile: the numbers have no gap, and
 * each report names the one before it.
 */
import { canonicalDecimal } from '#connector/read-back.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { ownManifest } from '#platform/own-package.ts';
import type { SealedColumn } from '#platform/sealed-columns.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { FlowSettings } from '../settings.ts';
import { findingNames } from './finding-names.ts';
import { type Reconciliation, readFindings, reconciliationColumns } from './reconciliation-store.ts';
import { differencesMax, type ReportContent, reportHash, reportText } from './report-form.ts';
import { createReportKey, type ReportKey, signReport } from './report-signature.ts';

/** The key that signs reports, as it is sealed under the master key. */
export const reportKeyColumn: SealedColumn = {
  table: 'bridge.report_keys',
  column: 'private_key',
  context: (id) => `bridge.report_keys.private_key:${id}`,
};
const keyId = 1;

/** A report without its text. */
export interface ReportHead {
  readonly number: number;
  readonly run: number | null;
  readonly flow: string;
  readonly made: Timestamp;
  readonly hash: string;
  /** Whether the text is still there. */
  readonly isKept: boolean;
}

const headColumns = 'number, run, flow, made, hash, body is not null as "isKept"';

/**
 * Writes that the run has compared everything, with its report; repeated, it changes nothing. Returns the run. Throws
 * AppError `internal` when the key was sealed under another master key.
 */
export async function endWithReport(
  database: Database,
  secrets: SecretBox,
  run: Reconciliation,
  flow: Pick<FlowSettings, 'source' | 'connector'>,
  now: Timestamp,
): Promise<Reconciliation> {
  return database.transaction(async (tx) => {
    const key = await lockKey(tx, secrets, now);
    const [ended] = await tx.query<Reconciliation>(
      `update bridge.reconciliations r set ended = $2, last_error = null, failed = null,
         differing = (select count(distinct (f.kind, f.key)) from bridge.reconciliation_findings f
           where f.run = r.id and f.finding <> 'not compared')
       where id = $1 and ended is null and given_up is null
       returning ${reconciliationColumns}`,
      [run.id, now],
    );
    if (!ended) return readRun(tx, run);
    const [previous = null] = await tx.query<{ number: number; hash: string }>(
      'select number, hash from bridge.reports order by number desc limit 1',
    );
    const report = await contentOf(tx, ended, { flow, now, previous });
    const text = reportText(signReport(report, key));
    await tx.query('insert into bridge.reports (number, run, flow, made, hash, body) values ($1, $2, $3, $4, $5, $6)', [
      report.number,
      run.id,
      run.flow,
      now,
      reportHash(text),
      text,
    ]);
    return ended;
  });
}

/** The run as another process has left it. */
async function readRun(tx: Sql, run: Reconciliation): Promise<Reconciliation> {
  const [found] = await tx.query<Reconciliation>(
    `select ${reconciliationColumns} from bridge.reconciliations where id = $1 and given_up is null`,
    [run.id],
  );
  if (found) return found;
  throw new AppError('conflict', `Another process has begun this comparison of "${run.flow}" anew.`);
}

async function contentOf(
  tx: Sql,
  run: Reconciliation,
  {
    flow,
    now,
    previous,
  }: {
    flow: Pick<FlowSettings, 'source' | 'connector'>;
    now: Timestamp;
    previous: { number: number; hash: string } | null;
  },
): Promise<ReportContent> {
  const names = findingNames.filter((name) => name !== 'not compared');
  const differences = await readFindings(tx, run.id, { names, limit: differencesMax });
  const [counted] = await tx.query<{ count: number }>(
    `select count(*)::int as count from bridge.reconciliation_findings where run = $1 and finding = any($2)`,
    [run.id, names],
  );
  return {
    format: 'sourcing-bridge report 1',
    number: (previous?.number ?? 0) + 1,
    flow: run.flow,
    source: flow.source,
    connector: flow.connector,
    program: `sourcing-bridge ${ownManifest().version}`,
    askedBy: run.askedBy,
    started: run.started,
    ended: now,
    events: run.events === null ? null : [...run.events],
    documents: run.documents,
    values: run.comparedValues,
    totals: await readTotals(tx, run.id),
    differences: differences.map(
      ({ kind, key, finding, reference, field, expected, held, changedBy, changedAt, reason }) => ({
        kind,
        key,
        finding,
        reference,
        field,
        expected,
        held,
        changedBy,
        changedAt,
        reason,
      }),
    ),
    differencesOmitted: (counted?.count ?? 0) - differences.length,
    notCompared: await readNotCompared(tx, run.id),
    previous,
  };
}

async function readTotals(tx: Sql, run: number): Promise<ReportContent['totals']> {
  const rows = await tx.query<Omit<ReportContent['totals'][number], 'amount'> & { amount: string }>(
    `select kind, nullif(currency, '') as currency, state, documents, amount::text from bridge.reconciliation_totals
     where run = $1 order by kind, currency, state`,
    [run],
  );
  return rows.map(({ kind, currency, state, documents, amount }) => ({
    kind,
    currency,
    state,
    documents,
    amount: currency === null ? null : canonicalDecimal(amount),
  }));
}

function readNotCompared(tx: Sql, run: number): Promise<ReportContent['notCompared']> {
  return tx.query(
    `select kind, field, reason, count(distinct key)::int as documents from bridge.reconciliation_findings
     where run = $1 and finding = 'not compared' group by kind, field, reason order by kind, field, reason`,
    [run],
  );
}

/** Makes the key at its first use, and locks its row until the transaction ends. */
async function lockKey(tx: Sql, secrets: SecretBox, now: Timestamp): Promise<ReportKey> {
  const context = reportKeyColumn.context(String(keyId));
  const select =
    'select public_key as "publicKey", private_key as sealed from bridge.report_keys where id = $1 for update';
  let [row] = await tx.query<{ publicKey: Buffer; sealed: Buffer }>(select, [keyId]);
  if (!row) {
    const made = createReportKey();
    await tx.query(
      `insert into bridge.report_keys (id, public_key, private_key, created) values ($1, $2, $3, $4)
       on conflict (id) do nothing`,
      [keyId, made.publicKey, secrets.seal(made.privateKey, context), now],
    );
    [row] = await tx.query<{ publicKey: Buffer; sealed: Buffer }>(select, [keyId]);
  }
  if (!row) throw new AppError('internal', 'The key that signs reports was not stored.');
  return { publicKey: row.publicKey, privateKey: secrets.open(row.sealed, context) };
}

/** Returns the public key that signs the reports, and makes the key if there is none yet. */
export function readReportPublicKey(database: Database, secrets: SecretBox, now: Timestamp): Promise<Buffer> {
  return database.transaction(async (tx) => (await lockKey(tx, secrets, now)).publicKey);
}

/** Returns the reports, the latest first; of one flow only, if it is given. */
export function listReports(
  sql: Sql,
  { flow, limit }: { flow?: string | undefined; limit: number },
): Promise<ReportHead[]> {
  return sql.query<ReportHead>(
    `select ${headColumns} from bridge.reports where $1::text is null or flow = $1 order by number desc limit $2`,
    [flow ?? null, limit],
  );
}

/** Returns the report of this number, the latest one without it, with the file's text if that is still kept. */
export async function readStoredReport(
  sql: Sql,
  { number, flow }: { number?: number | undefined; flow?: string | undefined },
): Promise<(ReportHead & { readonly body: string | null }) | undefined> {
  const [row] = await sql.query<ReportHead & { body: string | null }>(
    `select ${headColumns}, body from bridge.reports
     where ($1::bigint is null or number = $1) and ($2::text is null or flow = $2) order by number desc limit 1`,
    [number ?? null, flow ?? null],
  );
  return row;
}

/** Returns the report of a run. */
export async function readReportOfRun(sql: Sql, run: number): Promise<ReportHead | undefined> {
  const [row] = await sql.query<ReportHead>(`select ${headColumns} from bridge.reports where run = $1`, [run]);
  return row;
}

/** Deletes the texts of reports whose comparison is not kept any more; the hashes stay, for the chain. */
export async function pruneReports(sql: Sql): Promise<void> {
  await sql.query('update bridge.reports set body = null where body is not null and run is null');
}
