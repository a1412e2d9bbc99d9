/**
 * The push of one flow: reconcile, don't replay. Each due document is made from the mirror, compared with what was last
 * delivered, and the connector is called only for a difference.
 *
 * A document's way through one round, and what a kill leaves behind:
 * 1. claim: its intent is committed. Killed before that: nothing happened.
 * 2. resolve: a document that has an intent already was cut off in an earlier round; `lookup` says what became of it.
 * 3. write: the ERP is called. Killed from here to 4: the intent stands, and a later round begins at 2.
 * 4. settle: the outcome is committed and the intent cleared.
 */
import { randomUUID } from 'node:crypto';
import type { Connector, Found, Operation, Outcome, OutcomeError, Session } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { msFromTimestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import type { AcquireLease, Lease } from '../lease.ts';
import type { FlowSettings } from '../settings.ts';
import {
  type FlowDocument,
  markDelivered,
  markUnchanged,
  type Postponed,
  pauseFlow,
  postpone,
  takeDue,
  writeIntents,
} from './flow-document-store.ts';
import { hashOf, makeDocuments } from './make-documents.ts';

export interface PushDeps {
  flow: FlowSettings;
  connector: Connector;
  session: Session;
  acquireLease: AcquireLease;
  clock: Clock;
  log: Logger;
  outcomes: Counter<'flow' | 'status'>;
}

/** A document whose call is to be made. */
interface Claimed {
  document: FlowDocument;
  operation: Operation;
}

interface Settled {
  document: FlowDocument;
  outcome: Outcome;
  /** What the ERP holds after a success; null after a cancellation. */
  hash: string | null;
  /** Not tried again before this. */
  afterMs?: number | undefined;
}

/** How soon a document is looked at again whose records are not all here: a safety net, as those records mark it. */
const notYetMs = 60_000;
const retryFirstMs = 1_000;
const retryMostMs = 10 * 60_000;
/** A connector has this long to give up after its time limit. */
const abortGraceMs = 5_000;

/** Creates the worker of a flow: pushes everything due, and returns when nothing is, or another process does it. */
export function createFlowPush(deps: PushDeps) {
  const { flow, clock } = deps;
  return async (signal: AbortSignal): Promise<void> => {
    const lease = await deps.acquireLease(`push/${flow.name}`);
    if (!lease) return;
    try {
      while (!signal.aborted) {
        const round = await claim(deps, lease);
        if (round === 'nothing-due') return;
        const { settled, remaining } = await lease.during(() => resolveCutOff(deps, round, signal));
        const cutOff = remaining.filter(({ document }) => document.intentId !== null);
        if (cutOff.length > 0)
          await lease.transaction((tx) => writeIntents(tx, flow.name, cutOff.map(intentOf), timestampNow(clock)));
        settled.push(...(await lease.during(() => write(deps, remaining, signal))));
        for (const { outcome } of settled) deps.outcomes.inc({ flow: flow.name, status: outcome.status });
        const paused = await lease.transaction((tx) => settle(tx, deps, settled));
        if (paused) return;
      }
    } finally {
      await lease.release();
    }
  };
}

/** Picks due documents, settles those that need no call, and commits an intent for those that were not cut off. */
async function claim(deps: PushDeps, lease: Lease): Promise<Claimed[] | 'nothing-due'> {
  const { flow, connector, clock } = deps;
  return lease.transaction(async (tx) => {
    const nowMs = clock.nowMs();
    const now = timestampFromMs(nowMs);
    const due = await takeDue(tx, flow.name, now, connector.capabilities.batchMax);
    if (due.length === 0) return 'nothing-due';
    const made = await makeDocuments(
      tx,
      flow,
      due.map(({ key }) => key),
    );
    const claimed: Claimed[] = [];
    const unchanged: FlowDocument[] = [];
    for (const document of due) {
      const result = made.get(document.key);
      if (result?.made === 'document') {
        const operation = operationFor(document, result.document);
        if (operation) claimed.push({ document, operation });
        else unchanged.push(document);
        continue;
      }
      const rejected = result?.made === 'rejected';
      await postpone(
        tx,
        flow.name,
        {
          document,
          reason: result?.reason ?? 'it could not be made',
          due: rejected ? null : timestampFromMs(nowMs + notYetMs),
          unknown: document.intentId !== null,
          failed: rejected,
        },
        now,
      );
    }
    await markUnchanged(tx, flow.name, unchanged);
    const fresh = claimed.filter(({ document }) => document.intentId === null);
    await writeIntents(tx, flow.name, fresh.map(intentOf), now);
    return claimed;
  });
}

function intentOf({ document, operation }: Claimed) {
  return { document, id: operation.idempotencyKey, hash: operation.contentHash };
}

/** What has to be called for this document; undefined when the ERP holds it already. */
function operationFor(document: FlowDocument, content: Document): Operation | undefined {
  const contentHash = hashOf(content);
  const wanted = content.lines.length > 0;
  const cutOff = document.intentId !== null;
  if (!cutOff && document.deliveredHash === (wanted ? contentHash : null)) return undefined;
  const repeated = cutOff && document.intentHash === contentHash;
  return {
    action: wanted ? (document.deliveredHash === null ? 'create' : 'amend') : 'cancel',
    document: content,
    contentHash,
    idempotencyKey: repeated && document.intentId !== null ? document.intentId : randomUUID(),
    reference: document.reference ?? undefined,
  };
}

/**
 * Asks the ERP about documents whose last call was cut off. What is in place is settled; what has to wait, because the
 * call may still take effect, is settled as unknown; what remains is called, as what the ERP holds demands.
 */
async function resolveCutOff(
  deps: PushDeps,
  claimed: readonly Claimed[],
  signal: AbortSignal,
): Promise<{ settled: Settled[]; remaining: Claimed[] }> {
  const { connector, session, clock } = deps;
  const cutOff = claimed.filter(({ document }) => document.intentId !== null);
  const settled: Settled[] = [];
  const remaining = claimed.filter(({ document }) => document.intentId === null);
  if (cutOff.length === 0) return { settled, remaining };
  const askable = cutOff.filter(({ document }) => {
    const afterMs = mayTakeEffectForMs(connector, document, clock.nowMs());
    if (afterMs <= 0) return true;
    settled.push(unknown(document, 'the call that was cut off may still take effect', afterMs));
    return false;
  });
  let found: Map<string, Found>;
  try {
    const held = await session.lookup(
      askable.map(({ operation }) => operation.document),
      AbortSignal.any([signal, AbortSignal.timeout(connector.capabilities.timeoutMs)]),
    );
    found = new Map(held.map((one) => [one.key, one]));
  } catch (error) {
    settled.push(...askable.map(({ document }) => unknown(document, `lookup failed: ${errorText(error)}`)));
    return { settled, remaining };
  }
  for (const { document, operation } of askable) {
    const held = found.get(document.key);
    if (operation.action === 'cancel' && held === undefined)
      settled.push({ document, outcome: { status: 'cancelled', reference: document.reference ?? '' }, hash: null });
    else if (held?.contentHash === operation.contentHash)
      settled.push({
        document,
        outcome: { status: 'unchanged', reference: held.reference },
        hash: operation.action === 'cancel' ? null : operation.contentHash,
      });
    else if (operation.action === 'cancel')
      remaining.push({ document, operation: { ...operation, reference: held?.reference } });
    else
      remaining.push({
        document,
        operation: { ...operation, action: held ? 'amend' : 'create', reference: held?.reference },
      });
  }
  return { settled, remaining };
}

/** How long the cut-off call of this document could still take effect in the ERP. */
function mayTakeEffectForMs({ capabilities }: Connector, { intentAt }: FlowDocument, nowMs: number): number {
  if (capabilities.settleMs === 0 || intentAt === null) return 0;
  return msFromTimestamp(intentAt) + capabilities.timeoutMs + capabilities.settleMs - nowMs;
}

function unknown(document: FlowDocument, message: string, afterMs?: number): Settled {
  return { document, outcome: { status: 'unknown', message }, hash: null, afterMs };
}

/** Calls the ERP. Whatever goes wrong on the way leaves the outcome unknown, and is looked up before the next call. */
async function write(deps: PushDeps, claimed: readonly Claimed[], signal: AbortSignal): Promise<Settled[]> {
  if (claimed.length === 0) return [];
  const { timeoutMs } = deps.connector.capabilities;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const operations = claimed.map(({ operation }) => operation);
  try {
    const outcomes = await within(timeoutMs + abortGraceMs, deps.session.write(operations, limit));
    if (outcomes.length !== operations.length)
      throw new Error(`the connector gave ${outcomes.length} outcomes for ${operations.length} operations`);
    return claimed.map(({ document, operation }, index) => ({
      document,
      outcome: outcomes[index] as Outcome,
      hash: operation.action === 'cancel' ? null : operation.contentHash,
    }));
  } catch (error) {
    return claimed.map(({ document }) => unknown(document, errorText(error)));
  }
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`the connector did not answer within ${ms} ms`)), ms);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Commits the outcomes; true when the flow was paused. */
async function settle(tx: Sql, deps: PushDeps, settled: readonly Settled[]): Promise<boolean> {
  const { flow, clock, log } = deps;
  const nowMs = clock.nowMs();
  const now = timestampFromMs(nowMs);
  await markDelivered(
    tx,
    flow.name,
    settled.flatMap(({ document, outcome, hash }) =>
      'reference' in outcome ? [{ document, hash, reference: outcome.reference }] : [],
    ),
    now,
  );
  let pauseReason: string | undefined;
  for (const { document, outcome, afterMs } of settled) {
    if ('reference' in outcome) continue;
    const error = 'error' in outcome ? outcome.error : undefined;
    if (error?.type === 'auth' || error?.type === 'config') pauseReason ??= error.message;
    const waitMs = Math.max(afterMs ?? 0, retryAfterOf(error), backoffMs(document.attempts));
    const postponed: Postponed = {
      document,
      reason: error?.message ?? (outcome as { message: string }).message,
      due: error && isFinal(error) ? null : timestampFromMs(nowMs + waitMs),
      unknown: outcome.status === 'unknown',
      failed: true,
    };
    await postpone(tx, flow.name, postponed, now);
  }
  if (pauseReason === undefined) return false;
  await pauseFlow(tx, flow.name, pauseReason);
  log.error({ flow: flow.name }, `flow paused: ${pauseReason}`);
  return true;
}

/** Only another state of the record, or a person, can change this. What passes by itself is tried for ever. */
function isFinal(error: OutcomeError): boolean {
  return error.type === 'data' || error.type === 'conflict';
}

function retryAfterOf(error: OutcomeError | undefined): number {
  return error?.type === 'rate-limited' ? (error.retryAfterMs ?? 0) : 0;
}

function backoffMs(attempts: number): number {
  return Math.min(retryMostMs, retryFirstMs * 2 ** Math.min(attempts, 20));
}
