/**
 * Settles the outcomes of operations: writes down what became of each document, and what that says of the ERP as a
 * whole.
 */
import {
  type Attempt,
  type AttemptOutcome,
  type AttemptStep,
  amountOf,
  subjectOf,
  versionOf,
} from '#bridge/ledger/attempts/attempt.ts';
import { writeAttempts, writeVersions } from '#bridge/ledger/attempts/attempt-store.ts';
import { type CallEnd, markDelivered, postpone } from '#bridge/ledger/flows/flow-document-store.ts';
import { noteErpHealth, setPaused } from '#bridge/ledger/flows/flow-state.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Operation, Outcome, OutcomeError } from '#connector/connector.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import type { Claimed } from '../claim/claim-documents.ts';

/** A claimed document with its outcome. */
export interface Settled extends Claimed {
  readonly outcome: Outcome;
  readonly step: Exclude<AttemptStep, 'make'>;
  /** The document is not tried again before so many milliseconds have passed. */
  readonly afterMs?: number | undefined;
  /** The ERP was not called, so the outcome says nothing of whether the ERP works. */
  readonly notCalled?: boolean;
  /** The end of the call whose intent stays, where it was seen now. */
  readonly callEnd?: CallEnd | undefined;
  /** The intent of an earlier, interrupted call stays, whatever the outcome is: that call still has to be looked up. */
  readonly keepIntent?: boolean;
}

/** A settled document with its place in the history, which stays the same when it is written a second time. */
export interface TimedSettled extends Settled {
  /** Sorts by time: see `time-ordered-id.ts`. */
  readonly attemptId: string;
  readonly startedMs: number;
  readonly endedMs: number;
}

/** What the settled outcomes have done to the whole flow. */
export interface SettledFlow {
  /** The attempts as they were written, in the order of the documents. */
  readonly attempts: readonly Attempt[];
  /** Why the flow is paused now; undefined when these outcomes did not pause it. */
  readonly pauseReason: string | undefined;
  readonly circuit: 'opened' | 'closed' | undefined;
}

/** Upper bound of the throttle for an ERP that limits its callers and does not say for how long. */
const throttleMostMs = 60_000;
/** Upper bound of the wait that an ERP can ask for. */
const retryAfterMostMs = 24 * 3_600_000;

/**
 * Settles outcomes: each document is delivered, tried again later, or becomes a dead letter. Pauses the flow when
 * nothing will work until a person acts, throttles it when the ERP limits its callers, and counts failures in a row for
 * the circuit breaker. Writes each attempt into the history, and what was sent.
 */
export async function settleOutcomes(
  tx: Sql,
  flow: FlowSettings,
  settled: readonly TimedSettled[],
  nowMs: number,
): Promise<SettledFlow> {
  const now = timestampFromMs(nowMs);
  const delivered = settled.flatMap(({ document, operation, outcome }) =>
    'reference' in outcome ? [{ document, reference: outcome.reference, hash: deliveredHashOf(operation) }] : [],
  );
  const waitsMs = new Map(settled.map((entry) => [entry, retryMs(entry)]));
  const dues = new Map<Settled, Timestamp | null>();
  const postponed = settled.flatMap((entry) => {
    const { document, outcome } = entry;
    if ('reference' in outcome) return [];
    const error = 'error' in outcome ? outcome.error : undefined;
    const due = error && isFinal(error) ? null : timestampFromMs(nowMs + (waitsMs.get(entry) ?? 0));
    dues.set(entry, due);
    const reason = messageOf(outcome) ?? '';
    const keepIntent = outcome.status === 'unknown' || isPartial(outcome) || entry.keepIntent === true;
    const isFailure = entry.notCalled !== true;
    const { callEnd } = entry;
    return [{ document, reason, errorType: error?.type ?? 'unknown', due, keepIntent, callEnd, isFailure }];
  });
  await markDelivered(tx, flow.name, delivered, now);
  await postpone(tx, flow.name, postponed, now);
  const sent = settled.filter(({ step, outcome }) => step === 'write' || 'reference' in outcome);
  await writeVersions(
    tx,
    flow.name,
    sent.map(({ operation, madeOf }) => versionOf(operation, madeOf)),
    now,
  );
  const attempts = settled.map((entry) => attemptOf(flow.name, entry, dues.get(entry) ?? null));
  await writeAttempts(tx, flow.name, attempts);
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
  return { attempts, pauseReason: pause?.reason, circuit };
}

function deliveredHashOf({ action, contentHash }: Operation): string | null {
  return action === 'cancel' ? null : contentHash;
}

function attemptOf(flow: string, entry: TimedSettled, nextTry: Timestamp | null): Attempt {
  const { document, operation, outcome, step } = entry;
  const error = errorOf(outcome);
  const reference = 'reference' in outcome ? outcome.reference : (operation.reference ?? document.reference);
  return {
    id: entry.attemptId,
    flow,
    kind: document.kind,
    key: document.key,
    ...subjectOf(operation.document),
    ...amountOf(operation.document),
    action: operation.action,
    step,
    outcome: outcomeWordOf(step, outcome),
    number: document.attempts + 1,
    started: timestampFromMs(entry.startedMs),
    ended: timestampFromMs(entry.endedMs),
    nextTry,
    errorType: error?.type ?? null,
    message: shortMessage(messageOf(outcome)),
    reference: reference === '' ? null : (reference ?? null),
    contentHash: operation.contentHash,
    requestId: operation.idempotencyKey,
    pull: document.pull,
  };
}

function shortMessage(message: string | undefined): string | null {
  return message === undefined ? null : storableText(message);
}

/** Why the document is not delivered. */
function messageOf(outcome: Outcome): string | undefined {
  if ('message' in outcome) return outcome.message;
  if (!('error' in outcome)) return undefined;
  const { message } = outcome.error;
  if (!isPartial(outcome)) return message;
  return `${outcome.status === 'rejected' ? 'refused' : 'stopped'} after it had begun: ${message}`;
}

function isPartial(outcome: Outcome): boolean {
  return 'error' in outcome && outcome.partial === true;
}

function outcomeWordOf(step: AttemptStep, { status }: Outcome): AttemptOutcome {
  return step === 'wait' ? 'waits' : status;
}

/**
 * How long this document waits: longer with each failure, and never less than what the ERP or the lookup asked for. A
 * wait for the effect of an earlier call is no failure: it is not made longer.
 */
function retryMs({ document, outcome, notCalled, afterMs = 0 }: Settled): number {
  if (notCalled === true && afterMs > 0) return afterMs;
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
