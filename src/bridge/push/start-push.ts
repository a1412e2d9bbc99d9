/** The pushing part of a process: one worker for each flow, which brings the flow's ERP in step. */
import { abortGraceMs } from '#bridge/connectors/connector-calls.ts';
import type { OpenFlow } from '#bridge/connectors/open-flows.ts';
import { createAttemptPruning } from '#bridge/ledger/attempts/prune-attempts.ts';
import { bringForwardDocuments } from '#bridge/ledger/flows/bring-forward.ts';
import { flowsConfiguredElsewhere, flowsWithDue } from '#bridge/ledger/flows/flow-state.ts';
import { resumeOnSettingsChange } from '#bridge/ledger/flows/resume-on-settings-change.ts';
import type { AcquireLease } from '#bridge/ledger/leases/lease.ts';
import { catchUp } from '#bridge/ledger/lost-commits/catch-up.ts';
import type { LossWatch } from '#bridge/ledger/lost-commits/watch-loss.ts';
import type { SourceClients } from '#bridge/mirror/source/source-clients.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '#bridge/settings/bridge-deps.ts';
import { createProcessIdentity } from '#bridge/settings/process-identity.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { Counter } from '#platform/metrics.ts';
import { createFileLoader } from './batch/file-loader.ts';
import { createFlowPush } from './push-flow.ts';

/**
 * Starts the workers; they end with `deps.signals`. The flows must have been registered before. Rejects when the
 * database is not available.
 */
export async function startPush(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  clientOf: SourceClients['clientOf'],
  flows: readonly OpenFlow[],
  lossWatch: LossWatch,
): Promise<WorkingPart> {
  const { database, signals, clock, log } = deps;
  const settings = flows.map(({ flow }) => flow);
  for (const name of await resumeOnSettingsChange(database, settings, deps.secrets, timestampNow(clock)))
    log.info({ flow: name }, 'flow resumed: the settings of its connector have changed');
  // Not awaited: a connector that does not answer must not delay the other flows.
  for (const openFlow of flows) void warnOfFailedChecks(openFlow, deps);
  const outcomes = new Counter({
    name: 'bridge_outcomes_total',
    help: 'Outcomes of pushed documents',
    labelNames: ['flow', 'status'] as const,
    registers: [deps.registry],
  });
  const processIdentity = deps.processIdentity ?? createProcessIdentity();
  const pushes = new Map(
    flows.map(({ flow, connector, session, secrets }) => {
      const files = flow.documents.includes('file') ? createFileLoader(clientOf(flow.source), clock) : undefined;
      const loadFiles = files && ((ids: readonly string[], signal: AbortSignal) => files.load(ids, signal));
      const { newestAttempt } = lossWatch;
      const shared = { database, acquireLease, clock, log, outcomes, processIdentity, newestAttempt };
      return [flow.name, createFlowPush({ flow, connector, session, secrets, loadFiles, ...shared })];
    }),
  );
  // As many workers as flows: a flow that waits for its ERP must not delay the others.
  signals.work(lanes.push, { concurrency: Math.max(1, flows.length) }, async (key, signal) => {
    await pushes.get(key)?.(signal);
  });
  const caught = flows.map(({ flow, connector }) => ({
    flow,
    callLimitMs: connector.capabilities.timeoutMs + abortGraceMs,
  }));
  const warnOfSettings = warnOfOtherSettings(deps, settings);
  const prune = createAttemptPruning({ database, clock, days: deps.settings.history_days });
  return {
    lanes: [
      {
        lane: lanes.push,
        due: async () => {
          await lossWatch.look();
          const { looking, ended } = await catchUp(database, deps.settings, caught, timestampNow(clock));
          for (const flow of looking)
            log.info(
              { flow },
              'its source was read again: every document is looked up in the ERP before it is written',
            );
          for (const flow of ended) log.info({ flow }, 'it has caught up with what the database had lost');
          return flowsWithDue(database, settings, timestampNow(clock), lossWatch.newestAttempt.id());
        },
      },
    ],
    housekeeping: async () => {
      const brought = await bringForwardDocuments(database, timestampNow(clock));
      if (brought > 0)
        log.warn(
          { documents: brought },
          'documents were due later than any wait lasts, by a clock that was ahead: they are due now',
        );
      await warnOfSettings();
      await prune();
    },
  };
}

/**
 * Returns a function that warns of flows for which another process's settings are in force. It warns once for each
 * flow, and again only after this process's settings have been in force in between.
 */
function warnOfOtherSettings({ database, log }: BridgeDeps, flows: readonly FlowSettings[]): () => Promise<void> {
  let warned = new Set<string>();
  return async () => {
    const others = await flowsConfiguredElsewhere(database, flows);
    for (const flow of others)
      if (!warned.has(flow))
        log.warn({ flow }, 'a process that started later has other settings for this flow: it is not pushed from here');
    warned = new Set(others);
  };
}

/** Logs what the connector's own check finds wrong. Never rejects. */
async function warnOfFailedChecks({ flow, session }: OpenFlow, { log }: BridgeDeps): Promise<void> {
  const results = await session.check().catch((err: unknown) => {
    log.warn({ err, flow: flow.name }, 'the connector could not be checked');
    return [];
  });
  for (const { name, ok, message } of results) if (!ok) log.warn({ flow: flow.name, check: name }, message);
}
