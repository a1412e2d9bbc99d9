import type { ProcessIdentity } from '#bridge/leases/process-identity.ts';
import type { Connector, Found } from '#connector/connector.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { errorText } from '#platform/errors.ts';
import { abortGraceMs, type CallLimit, type ConnectorCalls } from '../calls/connector-calls.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import { type FlowDocument, unknownContent } from '../claim/flow-document-store.ts';
import type { Settled } from '../settle/settle-outcomes.ts';

/**
 * Asks the ERP about documents whose last call was cut off, or that are to be written once more. What is in place is
 * settled; what has to wait, because the call may still take effect, is settled as unknown; what remains is called, as
 * what the ERP holds demands.
 */
export async function resolveCutOff(
  deps: { connector: Connector; calls: Pick<ConnectorCalls, 'lookup'>; processIdentity: ProcessIdentity },
  cutOff: readonly Claimed[],
  nowMs: number,
  limit: CallLimit,
): Promise<{ settled: Settled[]; remaining: Claimed[] }> {
  const settled: Settled[] = [];
  const remaining: Claimed[] = [];
  const askable = cutOff.filter((one) => {
    const afterMs = mayTakeEffectForMs(deps, one.document, nowMs);
    if (afterMs > 0)
      settled.push({ ...unknown(one, 'an earlier call may still take effect'), afterMs, notCalled: true });
    return afterMs <= 0;
  });
  const { batchMax } = deps.connector.capabilities;
  for (let from = 0; from < askable.length; from += batchMax) {
    const asked = askable.slice(from, from + batchMax);
    const documents = asked.map(({ operation }) => operation.document);
    const found = await deps.calls.lookup(documents, limit).catch(errorText);
    for (const one of asked) {
      const held = typeof found === 'string' ? { unclear: found } : found.get(one.document.key);
      if (held && 'unclear' in held) {
        settled.push(unknown(one, `lookup failed: ${held.unclear}`));
        continue;
      }
      const done = inPlace(one, held);
      if (done) settled.push(done);
      else remaining.push(asHeld(one, held));
    }
  }
  return { settled, remaining };
}

/** Settled, when the ERP holds what is wanted; one that is forced is written once more all the same. */
function inPlace(one: Claimed, held: Found | undefined): Settled | undefined {
  const { document, operation } = one;
  if (operation.action === 'cancel')
    return held ? undefined : { ...one, outcome: { status: 'cancelled', reference: document.reference ?? '' } };
  if (held?.contentHash !== operation.contentHash || document.forced) return undefined;
  return { ...one, outcome: { status: 'unchanged', reference: held.reference } };
}

/** The intent stays, and the ERP is asked before the next call. */
function unknown(one: Claimed, message: string): Settled {
  return { ...one, outcome: { status: 'unknown', message } };
}

/** The call that leads from what the ERP holds to what is wanted. */
function asHeld({ document, operation }: Claimed, held: Found | undefined): Claimed {
  return {
    document: {
      ...document,
      deliveredHash: held ? (held.contentHash ?? unknownContent) : null,
      reference: held?.reference ?? document.reference,
    },
    operation: {
      ...operation,
      action: operation.action === 'cancel' ? 'cancel' : held ? 'amend' : 'create',
      reference: held?.reference,
    },
  };
}

/** Clocks of the bridge's machines agree to within this (docs/bridge.md). */
const clocksDifferMs = 2_000;

/**
 * How long an earlier call for this document could still take effect in the ERP, or be missing from what it shows. A
 * process that has lost its lease, or its connection to the database, may be in the middle of one: only where it surely
 * lives no more, and the ERP does nothing by itself after a call, there is nothing to wait for.
 */
function mayTakeEffectForMs(
  { connector, processIdentity }: { connector: Connector; processIdentity: ProcessIdentity },
  { intentAt, intentBy, delivered, uncertainSince }: FlowDocument,
  nowMs: number,
): number {
  const { lateEffectMs, timeoutMs } = connector.capabilities;
  const isOwn = intentBy === processIdentity.own;
  const isOver = isOwn || (intentBy !== null && processIdentity.isOver(intentBy));
  const waits: number[] = [];
  const wait = (began: string, wholeMs: number) =>
    waits.push(Math.min(wholeMs, msFromTimestamp(began) + wholeMs - nowMs));
  if (intentAt !== null && !(lateEffectMs === 0 && isOver))
    wait(intentAt, timeoutMs + abortGraceMs + lateEffectMs + (isOwn ? 0 : clocksDifferMs));
  // Calls that have ended: with an ERP that does nothing afterwards, there is nothing more to come of them.
  if (lateEffectMs > 0)
    for (const ended of [delivered, uncertainSince]) if (ended !== null) wait(ended, lateEffectMs + clocksDifferMs);
  return Math.max(0, ...waits);
}
