/** The first page: is all well, the way through with the state of each part, and what happened last. */

import { listDocuments } from '#bridge/operate/history/list-documents.ts';
import type { BridgeStatus } from '#bridge/operate/status/status.ts';
import { timestampNow } from '#platform/clock.ts';
import { maySeeFlow, type Viewer } from '../access/viewer.ts';
import { type ConsoleApiDeps, flowsFor, noQuery, readCall, sourcesFor } from './console-call.ts';
import { shownIntakes } from './shown-intakes.ts';

const latestRows = 8;

export type OverviewAnswer = Awaited<ReturnType<typeof readOverview>>;

export const overviewCall = (deps: ConsoleApiDeps) =>
  readCall('/api/overview', noQuery, ({ viewer }) => readOverview(deps, viewer));

async function readOverview(deps: ConsoleApiDeps, viewer: Viewer) {
  const { database, clock, settings } = deps;
  const now = timestampNow(clock);
  const flows = flowsFor(viewer, undefined);
  const status = await statusFor(deps, viewer);
  const latest = await listDocuments(database, { flows, state: 'delivered' }, { now, limit: latestRows });
  const refused = await listDocuments(database, { flows, state: 'dead letter' }, { now, limit: latestRows });
  return {
    status,
    sources: settings.sources
      .filter(({ name }) => sourcesFor(viewer, settings).includes(name))
      .map(({ name, base_url: url }) => ({ name, host: new URL(url).host })),
    intakes: shownIntakes(status.intakes, settings),
    connectors: Object.fromEntries(
      settings.flows.filter(({ name }) => maySeeFlow(viewer, name)).map(({ name, connector }) => [name, connector]),
    ),
    latest: await withUrls(deps, latest.documents),
    refused: await withUrls(deps, refused.documents),
  };
}

/** The status, with only the flows that the viewer may see and the feeds of their sources. */
export async function statusFor(
  deps: Pick<ConsoleApiDeps, 'settings' | 'status'>,
  viewer: Viewer,
): Promise<BridgeStatus> {
  const status = await deps.status();
  if (viewer.flows === 'all') return status;
  const sources = sourcesFor(viewer, deps.settings);
  const ofFlow = ({ flow }: { flow: string }) => maySeeFlow(viewer, flow);
  const ofSource = ({ source }: { source: string }) => sources.includes(source);
  const subjects = new Set([
    ...status.flows.filter(ofFlow).map(({ flow }) => `flow ${flow}`),
    ...status.feeds.filter(ofSource).map(({ source, feed }) => `feed ${source}/${feed}`),
  ]);
  return {
    ...status,
    feeds: status.feeds.filter(ofSource),
    flows: status.flows.filter(ofFlow),
    comparisons: status.comparisons.filter(ofFlow),
    lostCommits: status.lostCommits && {
      ...status.lostCommits,
      flows: status.lostCommits.flows.filter(ofFlow),
      unreadIntakes: [],
    },
    intakes: [],
    backfills: status.backfills.filter(ofSource),
    audits: status.audits.filter(ofSource),
    delivered: status.delivered.filter(ofFlow),
    waiting: status.waiting.filter(ofFlow),
    deadLetters: status.deadLetters.filter(ofFlow),
    conditions: status.conditions.filter(({ subject }) => subjects.has(subject)),
  };
}

/** Adds where a person sees the object in the ERP. */
export function withUrls<Row extends { flow: string; reference: string | null }>(
  { urlOf }: Pick<ConsoleApiDeps, 'urlOf'>,
  rows: readonly Row[],
): Promise<(Row & { url: string | null })[]> {
  return Promise.all(rows.map(async (row) => ({ ...row, url: (await urlOf(row.flow, row.reference)) ?? null })));
}
