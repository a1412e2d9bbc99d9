import { haltFlow, noteErpHealth } from '#bridge/flows/flow-state.ts';
import { retrySchedules, retryWaitMs } from '#bridge/retry-schedules.ts';
import type { FlowSettings } from '#bridge/settings.ts';
import type { Operation, Outcome, OutcomeError } from '#connector/connector.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import { markDelivered, postpone } from '../claim/flow-document-store.ts';

/** What became of one document. */
export interface Settled extends Claimed {
  readonly outcome: Outcome;
  /** Not tried again before this. */
  readonly afterMs?: number | undefined;
  /** Whether the outcome says nothing of the ERP: it was not called. */
  readonly notCalled?: boolean;
  /** Whether an intent that stands from before is still to be resolved, whatever the outcome says. */
  readonly keepIntent?: boolean;
}

/** What settling has done to the whole flow. */
export interface SettledFlow {
  readonly pausedBy: string | undefined;
  readonly circuit: 'opened' | 'closed' | undefined;
}

/** An ERP that does not say how long it wants to be left alone is left alone so long at most. */
const restMostMs = 60_000;
/** No answer of an ERP keeps a document waiting for longer. */
const retryAfterMostMs = 24 * 3_600_000;
/** Longer documents are not kept after their delivery; `plan` then cannot say what differs. */
const bodyCharactersMax = 32_768;

/**
 * Writes outcomes down: delivered, to be tried again, or a dead letter. Pauses the flow when nothing will work until a
 * person acts, leaves the ERP alone when it asks for it, and counts failures in a row for the circuit breaker.
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
  const waits = new Map(settled.map((one) => [one, waitMs(one)]));
  const postponed = settled.flatMap((one) => {
    const { document, outcome } = one;
    if ('reference' in outcome) return [];
    const error = 'error' in outcome ? outcome.error : undefined;
    const due = error && isFinal(error) ? null : timestampFromMs(nowMs + (waits.get(one) ?? 0));
    const reason = 'error' in outcome ? outcome.error.message : outcome.message;
    const unknown = outcome.status === 'unknown' || one.keepIntent === true;
    return [{ document, reason, errorType: error?.type ?? 'unknown', due, unknown, failed: one.notCalled !== true }];
  });
  await markDelivered(tx, flow.name, delivered, now);
  await postpone(tx, flow.name, postponed, now);
  const pause = settled.map(({ outcome }) => pauseOf(outcome)).find((one) => one !== undefined);
  if (pause) await haltFlow(tx, flow.name, pause, now);
  const restMs = Math.max(0, ...settled.filter(isRateLimited).map((one) => restFor(one, waits.get(one) ?? 0)));
  const circuit = await noteErpHealth(tx, flow.name, {
    ...failuresOf(settled),
    throttledUntil: restMs > 0 ? timestampFromMs(nowMs + restMs) : undefined,
    circuitUntil: timestampFromMs(nowMs + flow.circuit.seconds * 1_000),
    failuresMost: flow.circuit.failures,
  });
  return { pausedBy: pause?.reason, circuit };
}

function deliveredOf({ action, contentHash, document }: Operation): { hash: string | null; body: string | null } {
  if (action === 'cancel') return { hash: null, body: null };
  const body = JSON.stringify(document);
  return { hash: contentHash, body: body.length > bodyCharactersMax ? null : body };
}

/** Longer with each failure, and not before what was asked for. */
function waitMs({ document, outcome, afterMs = 0 }: Settled): number {
  const floorMs = Math.max(afterMs, retryAfterMs(outcome) ?? 0);
  return retryWaitMs(retrySchedules.document, document.attempts, { floorMs });
}

function retryAfterMs(outcome: Outcome): number | undefined {
  const error = errorOf(outcome);
  if (error?.type !== 'rate-limited' || error.retryAfterMs === undefined) return undefined;
  return Math.min(Math.ceil(error.retryAfterMs), retryAfterMostMs);
}

/** How long the ERP is left alone by everybody after it has limited this one. */
function restFor({ outcome }: Settled, documentMs: number): number {
  return retryAfterMs(outcome) ?? Math.min(documentMs, restMostMs);
}

/**
 * Failures in a row, in the order of the documents. What is locked, limited or was never sent says nothing of whether
 * the ERP works.
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

/** Only another state of the record, or a person, can change this. What passes by itself is tried for ever. */
function isFinal(error: OutcomeError): boolean {
  return error.type === 'data' || error.type === 'conflict';
}

function pauseOf(outcome: Outcome): { kind: 'auth' | 'config'; reason: string } | undefined {
  const error = errorOf(outcome);
  return error?.type === 'auth' || error?.type === 'config' ? { kind: error.type, reason: error.message } : undefined;
}
