/**
 * The push of one flow: reconcile, don't replay. Each due document is made from the mirror, compared with what was last
 * delivered, and the connector is called only for a difference.
 *
 * A document's way through one round, and what a kill leaves behind:
 * 1. claim: it is made and compared. Killed here: nothing happened.
 * 2. resolve: a document that has an intent was cut off in an earlier round; `lookup` says what became of it. Killed
 *    here: the old intent stands, and the next round begins here again.
 * 3. intend: the intent is committed (with the claim, when there was nothing to resolve), and the ERP is called. Killed
 *    from here to 4: the intent stands, and a later round begins at 2.
 * 4. settle: the outcome is committed and the intent cleared.
 */
import type { Connector, Outcome, Session } from '#connector/connector.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import { type AcquireLease, type Lease, LeaseLost } from '../lease.ts';
import type { FlowSettings } from '../settings.ts';
import { type Claimed, claimDocuments, commitIntents, isCutOff } from './claim-documents.ts';
import { type ConnectorCalls, createConnectorCalls } from './connector-calls.ts';
import { flowsWithDue } from './flow-document-store.ts';
import { resolveCutOff } from './resolve-cut-off.ts';
import { type Settled, settleOutcomes } from './settle-outcomes.ts';

export interface PushDeps {
  flow: FlowSettings;
  connector: Connector;
  session: Session;
  database: Database;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  outcomes: Counter<'flow' | 'status'>;
  /** How long a connector may take to stop when it is told to. */
  abortGraceMs?: number;
}

/** Creates the worker of a flow: pushes everything due, and returns when nothing is, or another process does it. */
export function createFlowPush(deps: PushDeps) {
  const { flow, database, clock, log } = deps;
  const calls = createConnectorCalls(deps.session, deps.abortGraceMs);
  const hasDue = async () => (await flowsWithDue(database, [flow.name], timestampNow(clock))).length > 0;
  return async (signal: AbortSignal): Promise<void> => {
    // Looked at again without the lease: a wake-up that came while it was held went to a worker that did not get it.
    while (!signal.aborted && !calls.isStuck() && (await hasDue())) {
      const lease = await deps.acquireLease(`push/${flow.name}`);
      if (!lease) return;
      try {
        while (!signal.aborted && !calls.isStuck() && (await pushRound(deps, calls, lease, signal)));
        if (calls.isStuck()) log.error({ flow: flow.name }, 'flow stands still until a call of its connector ends');
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        log.warn({ flow: flow.name }, error.message);
        return;
      } finally {
        await lease.release();
      }
    }
  };
}

/** False when nothing is left to do. */
async function pushRound(deps: PushDeps, calls: ConnectorCalls, lease: Lease, signal: AbortSignal): Promise<boolean> {
  const { flow, connector, clock, log, outcomes } = deps;
  const { batchMax, timeoutMs } = connector.capabilities;
  let intentMs = clock.nowMs();
  const { due, claimed, rejected } = await lease.transaction(async (tx) => {
    const claim = await claimDocuments(tx, flow, intentMs, batchMax);
    if (!claim.claimed.some(isCutOff)) await commitIntents(tx, flow.name, claim.claimed, intentMs);
    return claim;
  });
  if (rejected > 0) outcomes.inc({ flow: flow.name, status: 'rejected' }, rejected);
  if (claimed.length === 0) return due > 0;

  const settled: Settled[] = [];
  let toCall = claimed;
  const cutOff = claimed.filter(isCutOff);
  if (cutOff.length > 0) {
    const resolved = await lease.during((lost) => {
      const limit = { timeoutMs, signal: AbortSignal.any([signal, lost]) };
      return resolveCutOff({ connector, calls }, cutOff, clock.nowMs(), limit);
    });
    settled.push(...resolved.settled);
    toCall = [...claimed.filter((one) => !isCutOff(one)), ...resolved.remaining];
    // Only now: whoever finds an intent waits for the call from the time that it names.
    intentMs = clock.nowMs();
    await lease.transaction((tx) => commitIntents(tx, flow.name, toCall, intentMs));
  }
  if (toCall.length > 0)
    settled.push(
      ...(await lease.during((lost) => write(deps, calls, toCall, intentMs, AbortSignal.any([signal, lost])))),
    );

  const pausedBy = await lease.transaction((tx) => settleOutcomes(tx, flow.name, settled, clock.nowMs()));
  for (const { outcome } of settled) outcomes.inc({ flow: flow.name, status: outcome.status });
  if (pausedBy !== undefined) log.error({ flow: flow.name }, `flow paused: ${pausedBy}`);
  return pausedBy === undefined;
}

/**
 * Calls the ERP. The time limit counts from the intent, as whoever finds the intent after a crash counts from there: a
 * process that stood still in between does not begin a call that others believe to be over.
 */
async function write(
  { connector, clock }: PushDeps,
  calls: ConnectorCalls,
  claimed: readonly Claimed[],
  intentMs: number,
  signal: AbortSignal,
): Promise<Settled[]> {
  const operations = claimed.map(({ operation }) => operation);
  const timeoutMs = intentMs + connector.capabilities.timeoutMs - clock.nowMs();
  const outcomes =
    signal.aborted || timeoutMs <= 0
      ? operations.map(() => notCalled)
      : await calls.write(operations, { timeoutMs, signal });
  return claimed.map(({ document, operation }, index) => ({
    document,
    outcome: outcomes[index] as Outcome,
    hash: operation.action === 'cancel' ? null : operation.contentHash,
  }));
}

const notCalled: Outcome = {
  status: 'retry',
  error: { type: 'transient', message: 'the process was stopping or had stood still, so the ERP was not called' },
};
