/**
 * Pushes one batch, from its claim to the settled outcomes. Each step runs under the lease and commits what it has
 * found out before the ERP is called. Only marking documents as uncertain needs no lease.
 */
import { abortGraceMs, type ConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import type { SecretRedactor } from '#bridge/connectors/secret-redactor.ts';
import { logAttempts } from '#bridge/ledger/attempts/log-attempts.ts';
import { forgetUntried, markFound, markUncertain } from '#bridge/ledger/flows/flow-document-store.ts';
import { readSendingFlow } from '#bridge/ledger/flows/flow-state.ts';
import { type Lease, LeaseLost } from '#bridge/ledger/leases/lease.ts';
import type { NewestAttempt } from '#bridge/ledger/lost-commits/watch-loss.ts';
import type { ProcessIdentity } from '#bridge/settings/process-identity.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Connector, Operation, Outcome } from '#connector/connector.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { type Claimed, commitIntents } from '../claim/claim-documents.ts';
import { isUntried } from '../claim/decide-operation.ts';
import { type Settled, settleOutcomes } from '../settle/settle-outcomes.ts';
import { attachFiles, type LoadFiles } from './attach-files.ts';
import { lookUpDocuments } from './look-up-documents.ts';
import { traceDocuments } from './trace-documents.ts';

export interface BatchDeps {
  flow: FlowSettings;
  connector: Connector;
  database: Database;
  clock: Clock;
  processIdentity: ProcessIdentity;
  log: Logger;
  outcomes: Counter<'flow' | 'status'>;
  /** Where the newest attempt of this process is remembered. */
  newestAttempt?: NewestAttempt | undefined;
  /** Removes the secrets of the connector's settings from what is stored and logged. */
  secrets: Pick<SecretRedactor, 'redact' | 'removeSecrets' | 'holdsSecret'>;
  /** Needed by flows that take `file` documents. */
  loadFiles?: LoadFiles | undefined;
}

export interface Batch {
  readonly claimed: readonly Claimed[];
  /** When its intents were committed; undefined when they have not been. */
  readonly intentMs: number | undefined;
}

/** How often the database is tried: losing an outcome costs a lookup, so a short outage is waited for. */
const outcomeTries = 4;

export function createBatchPush(deps: BatchDeps, calls: ConnectorCalls, lease: Lease) {
  const { flow, connector, database, clock, log, processIdentity } = deps;
  const { timeoutMs, lateEffectMs, visibleAfterMs = lateEffectMs, leavesParts = [] } = connector.capabilities;

  /**
   * Asks the ERP about these documents, settles those that need no call, and returns the others. A withdrawal of what
   * nothing says was ever sent is forgotten where the ERP does not hold it; else it is counted first. Must not run while
   * a call is in flight.
   */
  async function lookUp(claimed: readonly Claimed[], signal: AbortSignal): Promise<Claimed[]> {
    const startedMs = clock.nowMs();
    const { settled, remaining } = await lease.during((lost) => {
      const limit = { timeoutMs, signal: AbortSignal.any([signal, lost]) };
      const ask = () => lookUpDocuments({ connector, calls, processIdentity }, claimed, startedMs, limit);
      return traceDocuments({ database, flow: flow.name }, 'lookup', claimed, ask, (found) => found.settled);
    });
    const untried = new Set(
      claimed
        .filter(({ document, operation }) => operation.action === 'cancel' && isUntried(document))
        .map(({ document }) => document.key),
    );
    const isFound = ({ document }: Claimed) => untried.has(document.key);
    const isAbsent = ({ document, outcome }: Settled) => untried.has(document.key) && outcome.status === 'cancelled';
    if (untried.size > 0)
      await lease.transaction(async (tx) => {
        await forgetUntried(
          tx,
          flow.name,
          settled.filter(isAbsent).map(({ document }) => document),
        );
        await markFound(
          tx,
          flow.name,
          remaining.filter(isFound).map(({ document }) => document),
          timestampNow(clock),
        );
      });
    await settle(
      settled.filter((entry) => !isAbsent(entry)),
      startedMs,
      signal,
    );
    return remaining.filter((entry) => !isFound(entry));
  }

  /**
   * Calls the ERP for a batch and settles the outcomes. Throws when they could not be settled: then the intents stand.
   */
  async function send(batch: Batch, signal: AbortSignal): Promise<void> {
    const { claimed, intentMs } = batch.intentMs === undefined ? await intend(batch.claimed, signal) : batch;
    if (claimed.length === 0) return;
    const startedMs = clock.nowMs();
    const settled = await lease.during((lost) => {
      const call = () => write(claimed, intentMs ?? 0, AbortSignal.any([signal, lost]));
      return traceDocuments({ database, flow: flow.name }, 'write', claimed, call, (outcomes) => outcomes);
    });
    try {
      await settle(settled, startedMs, signal);
    } catch (error) {
      // Another process relies on what its lookup has found, and this call may have reached the ERP after that lookup.
      const wasCalled = settled.some(({ notCalled }) => notCalled !== true);
      if (error instanceof LeaseLost && wasCalled) await noteUncertain(claimed, intentMs ?? 0);
      throw error;
    }
  }

  /**
   * Loads the files that the batch needs and commits its intents. When the flow may not send any more, it returns an
   * empty batch: no intent is committed, and the documents stay due.
   */
  async function intend(claimed: readonly Claimed[], signal: AbortSignal): Promise<Batch> {
    const startedMs = clock.nowMs();
    const { settled, remaining } = await lease.during((lost) =>
      attachFiles(claimed, deps.loadFiles, AbortSignal.any([signal, lost, AbortSignal.timeout(timeoutMs)])),
    );
    await settle(settled, startedMs, signal);
    // Taken after the files were loaded: a process that finds the intent counts the call's time limit from this time.
    const intentMs = clock.nowMs();
    const call = { by: processIdentity.own, nowMs: intentMs, limitMs: timeoutMs + abortGraceMs };
    const intended = await lease.transaction(async (tx) => {
      // The flow may have been paused since the claim, or another call may have been rate-limited.
      if (!(await readSendingFlow(tx, flow, timestampFromMs(intentMs), deps.newestAttempt?.id()))) return [];
      await commitIntents(tx, flow.name, remaining, call);
      return remaining;
    });
    return { claimed: intended, intentMs };
  }

  /**
   * Calls the ERP. The time limit counts from the intent, because a process that finds the intent after a crash counts
   * from there, too: so a process that was frozen in between does not start a call that others believe to be over.
   */
  async function write(claimed: readonly Claimed[], intentMs: number, signal: AbortSignal): Promise<Settled[]> {
    const leftMs = Math.min(timeoutMs, intentMs + timeoutMs - clock.nowMs());
    if (signal.aborted || leftMs <= 0 || calls.isStuck())
      return claimed.map((entry) => ({
        ...entry,
        step: 'wait',
        outcome: afterEarlier(entry, notCalledOutcome),
        callEnd: { at: timestampNow(clock), answered: true },
        notCalled: true,
      }));
    const operations = claimed.map(({ operation }) => operation);
    const isDebug = log.isLevelEnabled('debug');
    if (isDebug) for (const operation of operations) logSent(operation);
    const outcomes = await calls.write(
      operations,
      { timeoutMs: leftMs, signal },
      () => void noteUncertain(claimed, intentMs),
    );
    if (isDebug) for (const [index, operation] of operations.entries()) logAnswer(operation, outcomes[index]);
    // An abandoned call has not ended.
    const endedAt = calls.isStuck() ? undefined : timestampNow(clock);
    return claimed.map((entry, index) => {
      const outcome = afterEarlier(entry, outcomes[index] as Outcome);
      const isRefused = 'error' in outcome;
      const isOpen = outcome.status === 'unknown' || (isRefused && outcome.partial === true);
      if (!isOpen || endedAt === undefined) return { ...entry, step: 'write', outcome };
      const answered = isRefused || outcome.answered === true;
      const afterMs = answered ? visibleAfterMs : lateEffectMs;
      return { ...entry, step: 'write', outcome, afterMs, callEnd: { at: endedAt, answered } };
    });
  }

  /**
   * What an earlier call may have left is not gone because this one was refused, where `lookup` may not have found it.
   */
  function afterEarlier({ document }: Claimed, outcome: Outcome): Outcome {
    const isInDoubt = document.intentId !== null && leavesParts.includes(document.kind);
    return isInDoubt && 'error' in outcome ? { ...outcome, partial: true } : outcome;
  }

  /** A long document is cut by the log. */
  function logSent(operation: Operation): void {
    const sent = deps.secrets.removeSecrets(JSON.stringify(operation.document));
    log.debug({ ...callOf(operation), sent }, `sent: ${operation.action}`);
  }

  function logAnswer(operation: Operation, outcome: Outcome | undefined): void {
    const answer = deps.secrets.redact(JSON.stringify(outcome));
    log.debug({ ...callOf(operation), answer }, `answered: ${outcome?.status}`);
  }

  function callOf({ document, idempotencyKey, contentHash }: Operation) {
    return { flow: flow.name, kind: document.kind, document: document.key, idempotencyKey, contentHash };
  }

  async function settle(settled: readonly Settled[], startedMs: number, signal: AbortSignal): Promise<void> {
    if (settled.length === 0) return;
    const endedMs = clock.nowMs();
    // Before the transaction, so that a second one after a lost answer writes the same attempts.
    const timed = settled.map((entry) => ({ ...entry, attemptId: timeOrderedId(endedMs), startedMs, endedMs }));
    const { attempts, pauseReason, circuit } = await withRetries(signal, () =>
      lease.transaction((tx) => settleOutcomes(tx, flow, timed, clock.nowMs())),
    );
    const newest = attempts.at(-1);
    if (newest) deps.newestAttempt?.note(newest.id, endedMs);
    logAttempts(log, attempts);
    for (const { outcome } of settled) deps.outcomes.inc({ flow: flow.name, status: outcome.status });
    if (pauseReason !== undefined) log.error({ flow: flow.name, state: 'paused' }, `flow paused: ${pauseReason}`);
    if (circuit === 'opened')
      log.warn(
        { flow: flow.name, state: 'circuit open', until: timestampFromMs(endedMs + flow.circuit.seconds * 1_000) },
        'circuit open: too many failures in a row',
      );
    if (circuit === 'closed') log.info({ flow: flow.name, state: 'circuit closed' }, 'circuit closed');
  }

  /**
   * Retries a write to the database. A write that has committed although its answer was lost may run a second time:
   * that is harmless, as it names the versions of the documents that were claimed.
   */
  async function withRetries<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
    for (let failures = 0; ; failures += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof LeaseLost || signal.aborted || failures + 1 === outcomeTries) throw error;
        await clock.sleep(retryWaitMs(retrySchedules.outcome, failures), signal).catch(() => undefined);
      }
    }
  }

  /**
   * Marks the documents as uncertain. Never rejects: when the database does not take it, that is logged; the documents
   * then still have their intents, or another process has settled them.
   */
  async function noteUncertain(claimed: readonly Claimed[], intentMs: number): Promise<void> {
    const documents = claimed.map(({ document }) => document);
    // The end of an abandoned call is noted when it has ended.
    const intentAt = calls.isStuck() ? null : timestampFromMs(intentMs);
    const call = { by: processIdentity.own, intentAt, now: timestampNow(clock) };
    const mark = () => markUncertain(database, flow.name, documents, call);
    // Retried also while the process is stopping, as no other process knows of these calls.
    await withRetries(new AbortController().signal, mark).catch((err: unknown) =>
      log.error(
        { err, flow: flow.name },
        'documents whose call ended late could not be marked as uncertain: replay them',
      ),
    );
  }

  return { lookUp, send };
}

const notCalledOutcome: Outcome = {
  status: 'retry',
  error: {
    type: 'transient',
    message: 'the ERP was not called: the process was stopping or frozen, or an earlier call has not ended',
  },
};
