import type { Connector, Found } from '#connector/connector.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { errorText } from '#platform/errors.ts';
import type { ProcessMark } from '../process-mark.ts';
import type { Claimed } from './claim-documents.ts';
import { abortGraceMs, type CallLimit, type ConnectorCalls } from './connector-calls.ts';
import { type FlowDocument, unknownContent } from './flow-document-store.ts';
import type { Settled } from './settle-outcomes.ts';

/**
 * Asks the ERP about documents whose last call was cut off, or that are to be written once more. What is in place is
 * settled; what has to wait, because the call may still take effect, is settled as unknown; what remains is called, as
 * what the ERP holds demands.
 */
export async function resolveCutOff(
  deps: { connector: Connector; calls: Pick<ConnectorCalls, 'lookup'>; processMark: ProcessMark },
  cutOff: readonly Claimed[],
  nowMs: number,
  limit: CallLimit,
): Promise<{ settled: Settled[]; remaining: Claimed[] }> {
  const settled: Settled[] = [];
  const remaining: Claimed[] = [];
  const askable = cutOff.filter((one) => {
    const afterMs = mayTakeEffectForMs(deps, one.document, nowMs);
    if (afterMs > 0)
      settled.push({ ...unknown(one, 'the call that was cut off may still take effect'), afterMs, notCalled: true });
    return afterMs <= 0;
  });
  const { batchMax } = deps.connector.capabilities;
  for (let from = 0; from < askable.length; from += batchMax) {
    const asked = askable.slice(from, from + batchMax);
    const documents = asked.map(({ operation }) => operation.document);
    const found = await deps.calls.lookup(documents, limit).catch(errorText);
    for (const one of asked) {
      const held = typeof found === 'string' ? undefined : found.get(one.document.key);
      const done = typeof found === 'string' ? unknown(one, `lookup failed: ${found}`) : inPlace(one, held);
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

/**
 * How long the cut-off call of this document could still take effect in the ERP. A process that has lost its lease, or
 * its connection to the database, may be in the middle of it: only where it surely lives no more, and the ERP does
 * nothing by itself after a call, there is nothing to wait for.
 */
function mayTakeEffectForMs(
  { connector, processMark }: { connector: Connector; processMark: ProcessMark },
  { intentAt, intentBy }: FlowDocument,
  nowMs: number,
): number {
  const { settleMs, timeoutMs } = connector.capabilities;
  if (intentAt === null) return 0;
  const isOver = intentBy !== null && (intentBy === processMark.own || processMark.isOver(intentBy));
  if (settleMs === 0 && isOver) return 0;
  return msFromTimestamp(intentAt) + timeoutMs + abortGraceMs + settleMs - nowMs;
}
