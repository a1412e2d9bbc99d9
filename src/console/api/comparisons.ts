/** Comparisons of what was delivered with what the ERPs hold: their reports, their differences, and the repair of these. */
import { z } from 'zod';
import { findingNames } from '#bridge/operate/reconcile/finding-names.ts';
import { listRuns, readDifferingDocuments } from '#bridge/operate/reconcile/list-runs.ts';
import { readReport } from '#bridge/operate/reconcile/read-report.ts';
import { countFindings, readFoundKeys } from '#bridge/operate/reconcile/reconciliation-store.ts';
import { repairedFindings, repairRun } from '#bridge/operate/reconcile/repair-run.ts';
import { reportFiles } from '#bridge/operate/reconcile/report-files.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { maySeeFlow, type Viewer } from '../access/viewer.ts';
import {
  actionCall,
  type ConsoleApiDeps,
  type ConsoleCaller,
  flowName,
  flowsFor,
  pageRows,
  readCall,
} from './console-call.ts';
import { withUrls } from './read-overview.ts';

export type ComparisonsAnswer = Awaited<ReturnType<typeof readRuns>>;
export type ComparisonAnswer = Awaited<ReturnType<typeof readRun>>;
export type ReportAnswer = Awaited<ReturnType<typeof readReportFiles>>;

const runId = z.coerce.number().int().min(1);
const differing = findingNames.filter((name) => name !== 'not compared');
/** More are in the report itself. */
const documentsShown = 200;

async function readRuns({ database }: ConsoleApiDeps, viewer: Viewer, flow: string | undefined) {
  const flows = flowsFor(viewer, flow === undefined ? undefined : [flow]);
  return { runs: await listRuns(database, { flows, limit: pageRows }) };
}

/** Throws AppError `not-found` for a run of a flow that the viewer may not see, as for one that does not exist. */
async function findRun({ database }: ConsoleApiDeps, viewer: Viewer, id: number) {
  const [run] = await listRuns(database, { run: id, limit: 1 });
  if (!run || !maySeeFlow(viewer, run.flow)) throw new AppError('not-found', 'There is no such comparison (any more).');
  return run;
}

async function readRun(deps: ConsoleApiDeps, viewer: Viewer, id: number) {
  const { database } = deps;
  const run = await findRun(deps, viewer, id);
  const found = await readFoundKeys(database, id, repairedFindings);
  const documents = await readDifferingDocuments(database, id, { names: differing, limit: documentsShown + 1 });
  const shown = documents.slice(0, documentsShown).map((document) => ({ ...document, flow: run.flow }));
  return {
    run,
    counts: await countFindings(database, id),
    /** How many documents a repair would write. */
    repairable: found.reduce((sum, { keys }) => sum + keys.length, 0),
    documents: await withUrls(deps, shown),
    hasMore: documents.length > documentsShown,
  };
}

async function readReportFiles(deps: ConsoleApiDeps, viewer: ConsoleCaller, id: number) {
  await findRun(deps, viewer, id);
  if (viewer.role === 'viewer-without-prices')
    throw new AppError('forbidden', 'The report names amounts, and your account shows none.');
  await deps.note(viewer, { what: 'comparison.export', object: `comparison ${id}` });
  const { json, signature, page } = reportFiles(await readReport(deps.database, id), deps.secrets);
  return { json, signature: signature.toString('base64'), page };
}

export const comparisonsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/comparisons', z.strictObject({ flow: flowName.optional() }), ({ viewer, query }) =>
    readRuns(deps, viewer, query.flow),
  );

export const comparisonCall = (deps: ConsoleApiDeps) =>
  readCall('/api/comparisons/one', z.strictObject({ run: runId }), ({ viewer, query }) =>
    readRun(deps, viewer, query.run),
  );

export const comparisonReportCall = (deps: ConsoleApiDeps) =>
  readCall('/api/comparisons/report', z.strictObject({ run: runId }), ({ viewer, query }) =>
    readReportFiles(deps, viewer, query.run),
  );

export const repairCall = (deps: ConsoleApiDeps) =>
  actionCall(
    '/api/comparisons/repair',
    z.strictObject({ run: z.int().min(1), count: z.int().min(1) }),
    async ({ viewer, body: { run: id, count } }) => {
      const { flow } = await findRun(deps, viewer, id);
      await deps.note(viewer, {
        what: 'documents.replay',
        object: `flow ${flow}`,
        details: { count, reconciliation: id },
      });
      return { replayed: await repairRun(deps.database, { id, flow }, count, timestampNow(deps.clock)) };
    },
  );
