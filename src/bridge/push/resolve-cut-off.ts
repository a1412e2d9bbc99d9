import type { Connector, Found } from '#connector/connector.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { errorText } from '#platform/errors.ts';
import type { Claimed } from './claim-documents.ts';
import { abortGraceMs, type CallLimit, type ConnectorCalls } from './connector-calls.ts';
import { type FlowDocument, unknownContent } from './flow-document-store.ts';
import { type Settled, unknownOutcome } from './settle-outcomes.ts';

/**
 * Asks the ERP about documents whose last call was cut off. What is in place is settled; what has to wait, because the
 * call may still take effect, is settled as unknown; what remains is called, as what the ERP holds demands.
 */
export async function resolveCutOff(
  deps: { connector: Connector; calls: ConnectorCalls },
  cutOff: readonly Claimed[],
  nowMs: number,
  limit: CallLimit,
): Promise<{ settled: Settled[]; remaining: Claimed[] }> {
  const settled: Settled[] = [];
  const remaining: Claimed[] = [];
  const askable = cutOff.filter(({ document }) => {
    const afterMs = mayTakeEffectForMs(deps.connector, document, nowMs);
    if (afterMs > 0) settled.push(unknownOutcome(document, 'the call that was cut off may still take effect', afterMs));
    return afterMs <= 0;
  });
  if (askable.length === 0) return { settled, remaining };
  const documents = askable.map(({ operation }) => operation.document);
  const found = await deps.calls.lookup(documents, limit).catch(errorText);
  for (const one of askable) {
    if (typeof found === 'string') {
      settled.push(unknownOutcome(one.document, `lookup failed: ${found}`));
      continue;
    }
    const { document, operation } = one;
    const held = found.get(document.key);
    if (operation.action === 'cancel' && held === undefined)
      settled.push({ document, hash: null, outcome: { status: 'cancelled', reference: document.reference ?? '' } });
    else if (operation.action !== 'cancel' && held?.contentHash === operation.contentHash)
      settled.push({
        document,
        hash: operation.contentHash,
        outcome: { status: 'unchanged', reference: held.reference },
      });
    else remaining.push(asHeld(one, held));
  }
  return { settled, remaining };
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

/** How long the cut-off call of this document could still take effect in the ERP. */
function mayTakeEffectForMs({ capabilities }: Connector, { intentAt }: FlowDocument, nowMs: number): number {
  const { settleMs, timeoutMs } = capabilities;
  if (settleMs === 0 || intentAt === null) return 0;
  return msFromTimestamp(intentAt) + timeoutMs + abortGraceMs + settleMs - nowMs;
}
