/**
 * Finds out what the ERP holds before a document is written again: after an interrupted call, when the ERP's state is
 * uncertain, and for a replay. This is what keeps a repeated create from making a second object.
 */
import type { ProcessIdentity } from '#bridge/leases/process-identity.ts';
import type { Connector, Found } from '#connector/connector.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { errorText } from '#platform/errors.ts';
import { abortGraceMs, type CallLimit, type ConnectorCalls } from '../calls/connector-calls.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import { type FlowDocument, unknownContent } from '../claim/flow-document-store.ts';
import type { Settled } from '../settle/settle-outcomes.ts';

/**
 * Asks the ERP about these documents. `settled` holds those that need no call: the ERP holds them already (`unchanged`,
 * `cancelled`), or they have to wait, because an earlier call may still take effect or the lookup failed (`unknown`).
 * `remaining` holds the others, each with the operation that leads from what the ERP holds to what is wanted. Never
 * rejects.
 */
export async function lookUpDocuments(
  deps: { connector: Connector; calls: Pick<ConnectorCalls, 'lookup'>; processIdentity: ProcessIdentity },
  claimed: readonly Claimed[],
  nowMs: number,
  limit: CallLimit,
): Promise<{ settled: Settled[]; remaining: Claimed[] }> {
  const settled: Settled[] = [];
  const remaining: Claimed[] = [];
  const askable = claimed.filter((entry) => {
    const afterMs = mayTakeEffectForMs(deps, entry.document, nowMs);
    if (afterMs > 0)
      settled.push({ ...unknown(entry, 'an earlier call may still take effect'), afterMs, notCalled: true });
    return afterMs <= 0;
  });
  const { batchMax } = deps.connector.capabilities;
  for (let from = 0; from < askable.length; from += batchMax) {
    const asked = askable.slice(from, from + batchMax);
    const documents = asked.map(({ operation }) => operation.document);
    const found = await deps.calls.lookup(documents, limit).catch(errorText);
    for (const entry of asked) {
      const object = typeof found === 'string' ? { unclear: found } : found.get(entry.document.key);
      if (object && 'unclear' in object) {
        settled.push(unknown(entry, `lookup failed: ${object.unclear}`));
        continue;
      }
      const inStep = settledIfInStep(entry, object);
      if (inStep) settled.push(inStep);
      else remaining.push(asFound(entry, object));
    }
  }
  return { settled, remaining };
}

/**
 * Returns the settled document when the ERP holds what is wanted; else undefined. A forced document is written once
 * more even then, unless it is to be cancelled and the ERP holds no object.
 */
function settledIfInStep(claimed: Claimed, found: Found | undefined): Settled | undefined {
  const { document, operation } = claimed;
  if (operation.action === 'cancel')
    return found ? undefined : { ...claimed, outcome: { status: 'cancelled', reference: document.reference ?? '' } };
  if (found?.contentHash !== operation.contentHash || document.forced) return undefined;
  return { ...claimed, outcome: { status: 'unchanged', reference: found.reference } };
}

/** The intent stays, and the ERP is asked again before the next call. */
function unknown(claimed: Claimed, message: string): Settled {
  return { ...claimed, outcome: { status: 'unknown', message } };
}

/** Returns the document and its operation for what the ERP holds: amend an object that is there, else create it. */
function asFound({ document, operation }: Claimed, found: Found | undefined): Claimed {
  return {
    document: {
      ...document,
      deliveredHash: found ? (found.contentHash ?? unknownContent) : null,
      reference: found?.reference ?? document.reference,
    },
    operation: {
      ...operation,
      action: operation.action === 'cancel' ? 'cancel' : found ? 'amend' : 'create',
      reference: found?.reference,
    },
  };
}

/** The clocks of the bridge's machines agree to within this (docs/bridge.md). */
const clockDifferenceMs = 2_000;

/**
 * For how many milliseconds an earlier call for this document could still take effect in the ERP, or its object be
 * missing from `lookup`. A process that has lost its lease, or its connection to the database, may still be in the
 * middle of a call. There is nothing to wait for only when that process has surely ended, or is this one, and the ERP
 * does nothing by itself after a call (`lateEffectMs` 0).
 */
function mayTakeEffectForMs(
  { connector, processIdentity }: { connector: Connector; processIdentity: ProcessIdentity },
  { intentAt, intentBy, delivered, uncertainSince }: FlowDocument,
  nowMs: number,
): number {
  const { lateEffectMs, timeoutMs } = connector.capabilities;
  const isOwn = intentBy === processIdentity.own;
  const isOver = isOwn || (intentBy !== null && processIdentity.isOver(intentBy));
  const waitsMs: number[] = [];
  // Never longer than `wholeMs`, as a clock that ran ahead may have written a time in the future.
  const waitFrom = (began: string, wholeMs: number) =>
    waitsMs.push(Math.min(wholeMs, msFromTimestamp(began) + wholeMs - nowMs));
  if (intentAt !== null && !(lateEffectMs === 0 && isOver))
    waitFrom(intentAt, timeoutMs + abortGraceMs + lateEffectMs + (isOwn ? 0 : clockDifferenceMs));
  // These calls have ended. When the ERP does nothing by itself afterwards, their effect is visible already.
  if (lateEffectMs > 0)
    for (const ended of [delivered, uncertainSince])
      if (ended !== null) waitFrom(ended, lateEffectMs + clockDifferenceMs);
  return Math.max(0, ...waitsMs);
}
