/** `bridge reconcile`: compares what was delivered with what each ERP holds now. */
import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { openFlows } from '#bridge/connectors/open-flows.ts';
import type { FindingName } from '#bridge/operate/reconcile/finding-names.ts';
import { readReport } from '#bridge/operate/reconcile/read-report.ts';
import { reconcileFlow } from '#bridge/operate/reconcile/reconcile-flow.ts';
import {
  beginReconciliation,
  countFindings,
  type LedgerFinding,
  type Reconciliation,
  readFindings,
  readFoundKeys,
} from '#bridge/operate/reconcile/reconciliation-store.ts';
import { repairedFindings, repairRun } from '#bridge/operate/reconcile/repair-run.ts';
import { reportFiles, reportPublicKey } from '#bridge/operate/reconcile/report-files.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { replaceFile } from '#platform/durable-file.ts';
import { AppError, errorText } from '#platform/errors.ts';
import {
  type BridgeCommand,
  type BridgeCommandOptions,
  findFlow,
  requireSource,
  withBridge,
} from '../bridge-command.ts';
import { confirm } from '../confirm.ts';
import { subjectIds } from '../named-subjects.ts';
import { createProgress, moreText, oneLine, print, tableOf } from '../output.ts';

export interface ReconcileOptions extends BridgeCommandOptions {
  event?: string[];
  limit: number;
  out?: string;
  repair?: boolean;
  yes?: boolean;
}

/** What a comparison of one flow has come to. */
interface Compared {
  readonly flow: string;
  readonly run: Reconciliation;
  /** The files of its report, with --out. */
  readonly files: readonly string[];
  readonly counts: Record<FindingName, number>;
  /** The differences and what was unclear; `more` is whether there are others than those that are shown. */
  readonly findings: readonly LedgerFinding[];
  readonly more: boolean;
  readonly replayed: number;
}

const listed: readonly FindingName[] = [...repairedFindings, 'unclear'];

/** Exit code 1 when anything differs or is unclear. What could not be compared is counted, and is no difference. */
export function runReconcile(options: ReconcileOptions, name: string | undefined): Promise<number> {
  return withBridge(options, async (command) => {
    const { settings, signal } = command;
    requireSource(settings);
    const flows = name === undefined ? settings.flows : [findFlow(settings, name)];
    await using opened = new AsyncDisposableStack();
    const deps = { dataDir: command.installation.dataDir, log: command.installation.log, clock: command.clock };
    const reports: Compared[] = [];
    for (const flow of flows)
      for (const openFlow of await openFlows({ ...deps, settings: { ...settings, flows: [flow] } }, opened)) {
        const run = await compare(command, openFlow, options);
        const counts = await countFindings(command.database, run.id);
        const findings = await readFindings(command.database, run.id, { names: listed, limit: options.limit + 1 });
        const files = options.out === undefined ? [] : await writeReport(command, run, options.out);
        const replayed = options.repair ? await repair(command, run, counts, options) : 0;
        reports.push({
          flow: flow.name,
          run,
          files,
          counts,
          findings: findings.slice(0, options.limit),
          more: findings.length > options.limit,
          replayed,
        });
      }
    signal.throwIfAborted();
    print(options, { reports }, () => reports.map(textOf).join('\n\n') || 'No flow is configured.');
    return reports.some(({ counts }) => listed.some((finding) => counts[finding] > 0)) ? 1 : 0;
  });
}

async function compare(
  command: BridgeCommand,
  openFlow: Awaited<ReturnType<typeof openFlows>>[number],
  options: ReconcileOptions,
): Promise<Reconciliation> {
  const { database, clock, signal } = command;
  const { flow } = openFlow;
  const { events = null } = await subjectIds(command, [flow.source], options);
  const begun = await beginReconciliation(
    database,
    { flow: flow.name, events, askedBy: userInfo().username, goesOn: false },
    timestampNow(clock),
  );
  const total = events === null ? await countDocuments(database, flow.name) : undefined;
  const progress = createProgress(`comparing ${flow.name}`);
  try {
    return await reconcileFlow(
      { database, openFlow, clock, onPage: ({ documents }) => progress.tell(documents, total) },
      begun,
      signal,
    );
  } finally {
    progress.end();
  }
}

/** How many documents there are to compare, as a figure for the progress alone. */
async function countDocuments(database: Database, flow: string): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    'select count(*)::int as count from bridge.flow_documents where flow = $1 and delivered is not null',
    [flow],
  );
  return row?.count ?? 0;
}

/** Writes the signed report of the run. Returns the names of the files; the last one is the public key. */
async function writeReport(
  { database, installation: { secrets } }: BridgeCommand,
  { id }: Reconciliation,
  folder: string,
): Promise<string[]> {
  const { json, signature, page } = reportFiles(await readReport(database, id), secrets);
  const files = [
    { file: join(folder, `report-${id}.json`), content: json },
    { file: join(folder, `report-${id}.json.sig`), content: signature },
    { file: join(folder, `report-${id}.html`), content: page },
    { file: join(folder, 'report-key.pem'), content: reportPublicKey(secrets) },
  ];
  try {
    await mkdir(folder, { recursive: true });
    for (const { file, content } of files) await replaceFile(file, content, 0o600);
  } catch (cause) {
    throw new AppError('invalid', `The report cannot be written to ${folder}: ${errorText(cause)}.`, { cause });
  }
  return files.map(({ file }) => file);
}

/** Replays what differs once the operator agrees: the ERP is asked again before anything is written. */
async function repair(
  { database, clock, signal, perform }: BridgeCommand,
  { id, flow }: Reconciliation,
  counts: Compared['counts'],
  options: ReconcileOptions,
): Promise<number> {
  const found = await readFoundKeys(database, id, repairedFindings);
  const count = found.reduce((sum, { keys }) => sum + keys.length, 0);
  if (count === 0) return 0;
  const what = repairedFindings.filter((name) => counts[name] > 0).map((name) => `${counts[name]} ${name}`);
  const question = `Write ${count} documents of ${flow} to the ERP as the source has them now (${what.join(', ')})? What people have changed there is lost.`;
  if (!(await confirm(question, options, signal))) return 0;
  return perform({ what: 'documents.replay', object: `flow ${flow}`, details: { count, reconciliation: id } }, () =>
    repairRun(database, { id, flow }, count, timestampNow(clock)),
  );
}

/** What stands in place of the table where it is empty: nothing is promised of what could not be compared. */
function nothingText({ asDelivered }: Reconciliation, counts: Compared['counts']): string {
  if (counts['not compared'] === 0) return 'Nothing differs.';
  return asDelivered === 0
    ? 'Nothing could be compared: the connector reads nothing of this back, or what was delivered is not kept.'
    : 'Of what could be compared, nothing differs.';
}

function textOf({ flow, run, files, counts, findings, more, replayed }: Compared): string {
  const named = Object.entries(counts).filter(([, count]) => count > 0);
  const summary = `${flow}: ${run.documents} documents compared, ${run.asDelivered} as they were delivered (${run.comparedValues} values)${named
    .map(([finding, count]) => `, ${count} ${finding}`)
    .join('')}`;
  const table = tableOf(
    ['finding', 'kind', 'in the ERP as', 'field', 'delivered', 'the ERP holds', 'changed by', 'why', 'key'],
    findings.map(({ finding, kind, reference, field, expected, held, changedBy, changedAt, reason, key }) => [
      finding,
      kind,
      reference,
      field,
      expected,
      held,
      [changedBy, changedAt].filter(Boolean).join(' '),
      reason === null ? null : oneLine(reason),
      key,
    ]),
    nothingText(run, counts),
  );
  return [
    summary,
    table,
    ...(more ? [moreText] : []),
    ...(files.length > 0 ? [`Written: ${files.join(', ')}`] : []),
    ...(replayed > 0
      ? [
          `${replayed === 1 ? '1 document is' : `${replayed} documents are`} due again: a process with the role push writes them, or bridge run.`,
        ]
      : []),
  ].join('\n');
}
