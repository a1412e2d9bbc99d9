/**
 * The comparisons by schedule: a flow with `reconcile.every_hours` is compared as a whole as often as that says. A
 * comparison that a process could not finish goes on with the next sweep, in any process.
 */
import { openFlows } from '#bridge/connectors/open-flows.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '#bridge/settings/bridge-deps.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { reconcileFlow } from './reconcile-flow.ts';
import { bySchedule, flowsToCompare } from './reconcile-status.ts';
import { beginReconciliation, noteReconciliationFailure, pruneReconciliations } from './reconciliation-store.ts';

const dayMs = 24 * 60 * 60 * 1000;

/** Starts the worker; it ends with `deps.signals`. */
export function startReconcile(deps: BridgeDeps): WorkingPart {
  const { database, signals, settings, clock, log } = deps;
  signals.work(lanes.reconcile, { concurrency: 1 }, async (name, signal) => {
    const flow = settings.flows.find((each) => each.name === name);
    if (!flow) return;
    const asked = { flow: name, events: null, askedBy: bySchedule, goesOn: true };
    const run = await beginReconciliation(database, asked, timestampNow(clock));
    await using opened = new AsyncDisposableStack();
    try {
      // The flow's own session may be writing meanwhile: this one only reads. What `openFlows` throws holds no secret.
      for (const openFlow of await openFlows({ ...deps, settings: { ...settings, flows: [flow] } }, opened)) {
        const ended = await reconcileFlow({ database, openFlow, clock }, run, signal);
        log.info({ flow: name, documents: ended.documents, asDelivered: ended.asDelivered }, 'the ERP was compared');
      }
    } catch (error) {
      if (signal.aborted || (error instanceof AppError && error.code === 'conflict')) return;
      const text = errorText(error);
      await noteReconciliationFailure(database, run.id, text, timestampNow(clock));
      log.warn({ flow: name, error: text }, 'the ERP could not be compared to the end; it is tried again');
    }
  });
  return {
    lanes: [{ lane: lanes.reconcile, due: async () => flowsToCompare(database, settings.flows, timestampNow(clock)) }],
    housekeeping: () => pruneReconciliations(database, timestampFromMs(clock.nowMs() - settings.history_days * dayMs)),
  };
}
