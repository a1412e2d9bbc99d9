/** The pushing part of a process: workers that bring the flows' ERPs in step. */
import { timestampNow } from '#platform/clock.ts';
import { Counter } from '#platform/metrics.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '../bridge-deps.ts';
import { flowsConfiguredElsewhere, flowsWithDue } from '../flows/flow-state.ts';
import type { OpenFlow } from '../flows/open-flows.ts';
import { resumeOnSettingsChange } from '../flows/resume-on-settings-change.ts';
import type { AcquireLease } from '../leases/lease.ts';
import { createProcessIdentity } from '../leases/process-identity.ts';
import type { FlowSettings } from '../settings.ts';
import { createSourceClients } from '../source-clients.ts';
import { createFileLoader } from './batch/file-loader.ts';
import { createFlowPush } from './push-flow.ts';

export { type OpenFlow, openFlows } from '../flows/open-flows.ts';

/** Starts the workers; they end with `deps.signals`. The flows are registered by now. */
export async function startPush(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  flows: readonly OpenFlow[],
): Promise<WorkingPart> {
  const { database, signals, clock, log } = deps;
  const settings = flows.map(({ flow }) => flow);
  for (const name of await resumeOnSettingsChange(database, settings, deps.secrets, timestampNow(clock)))
    log.info({ flow: name }, 'flow goes on: the settings of its connector have changed');
  // Beside: a connector that does not answer keeps no other flow from its work.
  for (const open of flows) void warnOfFailedChecks(open, deps);
  const outcomes = new Counter({
    name: 'bridge_outcomes_total',
    help: 'What became of the documents that were pushed',
    labelNames: ['flow', 'status'] as const,
    registers: [deps.registry],
  });
  const clientOf = createSourceClients(deps);
  const processIdentity = deps.processIdentity ?? createProcessIdentity();
  const pushes = new Map(
    flows.map(({ flow, connector, session, secrets }) => {
      const files = flow.documents.includes('file') ? createFileLoader(clientOf(flow.source), clock) : undefined;
      const loadFiles = files && ((ids: readonly string[], signal: AbortSignal) => files.load(ids, signal));
      const edges = { database, acquireLease, clock, log, outcomes, processIdentity };
      return [flow.name, createFlowPush({ flow, connector, session, secrets, loadFiles, ...edges })];
    }),
  );
  // Each flow has a worker of its own: one that waits for its ERP keeps no other waiting.
  signals.work(lanes.push, { concurrency: Math.max(1, flows.length) }, async (key, signal) => {
    await pushes.get(key)?.(signal);
  });
  return {
    lanes: [{ lane: lanes.push, due: () => flowsWithDue(database, settings, timestampNow(clock)) }],
    housekeeping: warnOfOtherSettings(deps, settings),
  };
}

/** Says it once for each flow, and again when it has been in force meanwhile. */
function warnOfOtherSettings({ database, log }: BridgeDeps, flows: readonly FlowSettings[]): () => Promise<void> {
  let known = new Set<string>();
  return async () => {
    const others = await flowsConfiguredElsewhere(database, flows);
    for (const flow of others)
      if (!known.has(flow))
        log.warn({ flow }, 'a process that started later has other settings for this flow: it is not pushed from here');
    known = new Set(others);
  };
}

/** Never rejects. */
async function warnOfFailedChecks({ flow, session }: OpenFlow, { log }: BridgeDeps): Promise<void> {
  const results = await session.check().catch((err: unknown) => {
    log.warn({ err, flow: flow.name }, 'the connector could not be checked');
    return [];
  });
  for (const { name, ok, message } of results) if (!ok) log.warn({ flow: flow.name, check: name }, message);
}
