/**
 * Settles the outcomes of operations: writes down what became of each document, and what that says of the ERP as a
 * whole.
 */
import { noteErpHealth, setPaused } from '#bridge/flows/flow-state.ts';
import { retrySchedules, retryWaitMs } from '#bridge/retry-schedules.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import type { Operation, Outcome, OutcomeError } from '#connector/connector.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import { markDelivered, postpone } from '../claim/flow-document-store.ts';

/** A claimed document with its outcome. */
export interface Settled extends Claimed {
  readonly outcome: Outcome;
  /** The document is not tried again before so many milliseconds have passed. */
  readonly afterMs?: number | undefined;
  /** The ERP was not called, so the outcome says nothing of whether the ERP works. */
  readonly notCalled?: boolean;
  /** The intent of an earlier, interrupted call stays, whatever the outcome is: that call still has to be looked up. */
  readonly keepIntent?: boolean;
}

/** What the settled outcomes have done to the whole flow. */
export interface SettledFlow {
  /** Why the flow is paused now; undefined when these outcomes did not pause it. */
  readonly pauseReason: string | undefined;
  readonly circuit: 'opened' | 'closed' | undefined;
}

/** Upper bound of the throttle for an ERP that limits its callers and does not say for how long. */
const throttleMostMs = 60_000;
/** Upper bound of the wait that an ERP can ask for. */
const retryAfterMostMs = 24 * 3_600_000;
/** Longer documents are not kept after their delivery; `plan` then cannot say what differs. */
const bodyCharactersMax = 32_768;

/**
 * Settles outcomes: each document is delivered, tried again later, or becomes a dead letter. Pauses the flow when
 * nothing will work until a person acts, throttles it when the ERP limits its callers, and counts failures in a row for
 * the circuit breaker.
 */
export async function settleOutcomes(
  tx: Sql,
  flow: FlowSettings,
  settled: readonly Settled[],
  nowMs: number,
): Promise<SettledFlow> {
  const now = timestampFromMs(nowMs);
  const delivered = settled.flatMap(({ document, operation, outcome }) =>
    'reference' in outcome ? [{ document, reference: outcome.reference, ...deliveredOf(operation) }] : [],
  );
  const waitsMs = new Map(settled.map((entry) => [entry, retryMs(entry)]));
  const postponed = settled.flatMap((entry) => {
    const { document, outcome } = entry;
    if ('reference' in outcome) return [];
    const error = 'error' in outcome ? outcome.error : undefined;
    const due = error && isFinal(error) ? null : timestampFromMs(nowMs + (waitsMs.get(entry) ?? 0));
    const reason = 'error' in outcome ? outcome.error.message : outcome.message;
    const keepIntent = outcome.status === 'unknown' || entry.keepIntent === true;
    const isFailure = entry.notCalled !== true;
    return [{ document, reason, errorType: error?.type ?? 'unknown', due, keepIntent, isFailure }];
  });
  await markDelivered(tx, flow.name, delivered, now);
  await postpone(tx, flow.name, postponed, now);
  const pause = settled.map(({ outcome }) => pauseOf(outcome)).find((found) => found !== undefined);
  if (pause) await setPaused(tx, flow.name, pause, now);
  const throttlesMs = settled.filter(isRateLimited).map((entry) => throttleMsOf(entry, waitsMs.get(entry) ?? 0));
  const throttleMs = Math.max(0, ...throttlesMs);
  const circuit = await noteErpHealth(tx, flow.name, {
    ...failuresOf(settled),
    throttledUntil: throttleMs > 0 ? timestampFromMs(nowMs + throttleMs) : undefined,
    circuitUntil: timestampFromMs(nowMs + flow.circuit.seconds * 1_000),
    failuresMost: flow.circuit.failures,
  });
  return { pauseReason: pause?.reason, circuit };
}

function deliveredOf({ action, contentHash, document }: Operation): { hash: string | null; body: string | null } {
  if (action === 'cancel') return { hash: null, body: null };
  const body = JSON.stringify(document);
  return { hash: contentHash, body: body.length > bodyCharactersMax ? null : body };
}

/** How long this document waits: longer with each failure, and never less than what the ERP or the lookup asked for. */
function retryMs({ document, outcome, afterMs = 0 }: Settled): number {
  const floorMs = Math.max(afterMs, retryAfterMs(outcome) ?? 0);
  return retryWaitMs(retrySchedules.document, document.attempts, { floorMs });
}

function retryAfterMs(outcome: Outcome): number | undefined {
  const error = errorOf(outcome);
  if (error?.type !== 'rate-limited' || error.retryAfterMs === undefined) return undefined;
  return Math.min(Math.ceil(error.retryAfterMs), retryAfterMostMs);
}

/** How long no document of the flow is sent after the ERP has limited this one, which itself waits `documentMs`. */
function throttleMsOf({ outcome }: Settled, documentMs: number): number {
  return retryAfterMs(outcome) ?? Math.min(documentMs, throttleMostMs);
}

/**
 * Counts failures in a row, in the order of the documents. A document that is locked in the ERP, was rate-limited or
 * was never sent says nothing of whether the ERP works.
 */
function failuresOf(settled: readonly Settled[]): { failures: number; succeeded: boolean } {
  let failures = 0;
  let succeeded = false;
  for (const { outcome, notCalled } of settled) {
    const type = errorOf(outcome)?.type;
    if ('reference' in outcome) {
      failures = 0;
      succeeded = true;
    } else if (!notCalled && type !== 'locked' && type !== 'rate-limited') failures += 1;
  }
  return { failures, succeeded };
}

function errorOf(outcome: Outcome): OutcomeError | undefined {
  return 'error' in outcome ? outcome.error : undefined;
}

function isRateLimited({ outcome }: Settled): boolean {
  return errorOf(outcome)?.type === 'rate-limited';
}

/** Whether only another state of the record, or a person, can change this. Every other error is retried for ever. */
function isFinal(error: OutcomeError): boolean {
  return error.type === 'data' || error.type === 'conflict';
}

function pauseOf(outcome: Outcome): { kind: 'auth' | 'config'; reason: string } | undefined {
  const error = errorOf(outcome);
  return error?.type === 'auth' || error?.type === 'config' ? { kind: error.type, reason: error.message } : undefined;
}
