/**
 * The way of one batch from its claim to its settlement. Each step is confirmed under the lease, and what a step before
 * has learned is written down before the ERP is called.
 */

import { readSendingFlow } from '#bridge/flows/flow-state.ts';
import { type Lease, LeaseLost } from '#bridge/leases/lease.ts';
import type { ProcessIdentity } from '#bridge/leases/process-identity.ts';
import { retrySchedules, retryWaitMs } from '#bridge/retry-schedules.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import type { Connector, Outcome } from '#connector/connector.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import type { ConnectorCalls } from '../calls/connector-calls.ts';
import { type Claimed, commitIntents } from '../claim/claim-documents.ts';
import { markUncertain } from '../claim/flow-document-store.ts';
import { type Settled, settleOutcomes } from '../settle/settle-outcomes.ts';
import { attachFiles, type LoadFiles } from './attach-files.ts';
import { resolveCutOff } from './resolve-cut-off.ts';

export interface BatchDeps {
  flow: FlowSettings;
  connector: Connector;
  database: Database;
  clock: Clock;
  processIdentity: ProcessIdentity;
  log: Logger;
  outcomes: Counter<'flow' | 'status'>;
  /** Needed by flows that take `file` documents. */
  loadFiles?: LoadFiles | undefined;
}

export interface Batch {
  readonly claimed: readonly Claimed[];
  /** When its intents were committed; undefined when they have not been. */
  readonly intentMs: number | undefined;
}

/** An outcome that nobody has written down yet is worth some patience with the database. */
const settleTries = 4;

export function createBatchPush(deps: BatchDeps, calls: ConnectorCalls, lease: Lease) {
  const { flow, connector, database, clock, log, processIdentity } = deps;
  const { timeoutMs } = connector.capabilities;

  /** Asks the ERP about these; settles what needs no call, and gives the others. Not while anything else runs. */
  async function lookUp(claimed: readonly Claimed[], signal: AbortSignal): Promise<Claimed[]> {
    const { settled, remaining } = await lease.during((lost) => {
      const limit = { timeoutMs, signal: AbortSignal.any([signal, lost]) };
      return resolveCutOff({ connector, calls, processIdentity }, claimed, clock.nowMs(), limit);
    });
    await settle(settled, signal);
    return remaining;
  }

  /** Calls the ERP for a batch and settles it. Throws when it could not be settled: then its intents stand. */
  async function send(batch: Batch, signal: AbortSignal): Promise<void> {
    const { claimed, intentMs } = batch.intentMs === undefined ? await intend(batch.claimed, signal) : batch;
    if (claimed.length === 0) return;
    const settled = await lease.during((lost) => write(claimed, intentMs ?? 0, AbortSignal.any([signal, lost])));
    try {
      await settle(settled, signal);
    } catch (error) {
      // Another process goes by what it has found, and this call may have come after that.
      if (error instanceof LeaseLost && settled.some(({ notCalled }) => notCalled !== true)) await doubt(claimed);
      throw error;
    }
  }

  /** Loads what the batch needs, and commits its intents, unless nothing may be sent any more: then all stays as it is. */
  async function intend(claimed: readonly Claimed[], signal: AbortSignal): Promise<Batch> {
    const { settled, remaining } = await lease.during((lost) =>
      attachFiles(claimed, deps.loadFiles, AbortSignal.any([signal, lost, AbortSignal.timeout(timeoutMs)])),
    );
    await settle(settled, signal);
    // Only now: whoever finds an intent waits for the call from the time that it names.
    const intentMs = clock.nowMs();
    const call = { by: processIdentity.own, nowMs: intentMs };
    const intended = await lease.transaction(async (tx) => {
      // It may have been paused since the claim, or another call was told to leave the ERP alone.
      if (!(await readSendingFlow(tx, flow, timestampFromMs(intentMs)))) return [];
      await commitIntents(tx, flow.name, remaining, call);
      return remaining;
    });
    return { claimed: intended, intentMs };
  }

  /**
   * Calls the ERP. The time limit counts from the intent, as whoever finds the intent after a crash counts from there: a
   * process that stood still in between does not begin a call that others believe to be over.
   */
  async function write(claimed: readonly Claimed[], intentMs: number, signal: AbortSignal): Promise<Settled[]> {
    const leftMs = Math.min(timeoutMs, intentMs + timeoutMs - clock.nowMs());
    if (signal.aborted || leftMs <= 0 || calls.isStuck())
      return claimed.map((one) => ({ ...one, outcome: stopped, notCalled: true }));
    const operations = claimed.map(({ operation }) => operation);
    const outcomes = await calls.write(operations, { timeoutMs: leftMs, signal }, () => void doubt(claimed));
    return claimed.map((one, index) => ({ ...one, outcome: outcomes[index] as Outcome }));
  }

  async function settle(settled: readonly Settled[], signal: AbortSignal): Promise<void> {
    if (settled.length === 0) return;
    const { pausedBy, circuit } = await patiently(signal, () =>
      lease.transaction((tx) => settleOutcomes(tx, flow, settled, clock.nowMs())),
    );
    for (const { outcome } of settled) deps.outcomes.inc({ flow: flow.name, status: outcome.status });
    if (pausedBy !== undefined) log.error({ flow: flow.name }, `flow paused: ${pausedBy}`);
    if (circuit === 'opened') log.warn({ flow: flow.name }, 'circuit open: too many failures in a row');
    if (circuit === 'closed') log.info({ flow: flow.name }, 'circuit closed');
  }

  /** Settling twice does no harm: what is settled is told apart by what it was claimed as. */
  async function patiently<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
    for (let failures = 0; ; failures += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof LeaseLost || signal.aborted || failures + 1 === settleTries) throw error;
        await clock.sleep(retryWaitMs(retrySchedules.outcome, failures), signal).catch(() => undefined);
      }
    }
  }

  /** Never rejects: what cannot be written down now has its intent still, or was settled by another process. */
  async function doubt(claimed: readonly Claimed[]): Promise<void> {
    const documents = claimed.map(({ document }) => document);
    const mark = () => markUncertain(database, flow.name, documents, timestampNow(clock));
    // Also when the process is stopping: nobody else knows of it.
    await patiently(new AbortController().signal, mark).catch((err: unknown) =>
      log.error({ err, flow: flow.name }, 'documents whose call ended late could not be marked: replay them'),
    );
  }

  return { lookUp, send };
}

const stopped: Outcome = {
  status: 'retry',
  error: {
    type: 'transient',
    message: 'the ERP was not called: the process was stopping, had stood still, or has a call that does not end',
  },
};
