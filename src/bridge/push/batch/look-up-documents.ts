/**
 * Finds out what the ERP holds before a document is written again: after an interrupted call, when the ERP's state is
 * uncertain, and for a replay. This is what keeps a repeated create from making a second object.
 */
import type { CallLimit, ConnectorCalls } from '#bridge/connectors/connector-calls.ts';
import { unknownContent } from '#bridge/ledger/flows/flow-document-store.ts';
import type { ProcessIdentity } from '#bridge/settings/process-identity.ts';
import type { Connector, Found } from '#connector/connector.ts';
import { errorText } from '#platform/errors.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import type { Settled } from '../settle/settle-outcomes.ts';
import { waitForEffect } from './wait-for-effect.ts';

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
  const { capabilities } = deps.connector;
  const settled: Settled[] = [];
  const remaining: Claimed[] = [];
  const askable = claimed.filter((entry) => {
    const { waitMs, callEnd } = waitForEffect(capabilities, deps.processIdentity, entry.document, nowMs);
    if (waitMs > 0)
      settled.push({ ...unknown(entry, mayTakeEffect), step: 'wait', afterMs: waitMs, callEnd, notCalled: true });
    return waitMs <= 0;
  });
  const { batchMax } = capabilities;
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
      const inStep = settledIfInStep(entry, object, capabilities);
      if (inStep) settled.push(inStep);
      else remaining.push(asFound(entry, object));
    }
  }
  return { settled, remaining };
}

const mayTakeEffect = 'the ERP may still be working on a call that was cut off; it is asked what it holds after that';

/**
 * Returns the settled document when the ERP holds what is wanted; else undefined. A forced document is written once
 * more even then, unless it is to be cancelled and the ERP holds no object.
 */
function settledIfInStep(
  claimed: Claimed,
  found: Found | undefined,
  { leavesParts = [] }: Connector['capabilities'],
): Settled | undefined {
  const { document, operation } = claimed;
  if (operation.action === 'cancel')
    return found || (leavesParts.includes(document.kind) && mayHaveParts(claimed))
      ? undefined
      : { ...claimed, step: 'look up', outcome: { status: 'cancelled', reference: document.reference ?? '' } };
  if (found?.contentHash !== operation.contentHash || document.forced) return undefined;
  return { ...claimed, step: 'look up', outcome: { status: 'unchanged', reference: found.reference } };
}

/**
 * Whether a call that was cut off, or refused in the middle, may have left what `lookup` does not find. Not a
 * cancellation of an object that was held: it ends with that object.
 */
function mayHaveParts({ document, operation }: Claimed): boolean {
  const wasCancellation = document.deliveredHash !== null && document.intentHash === operation.contentHash;
  return document.intentId !== null && !wasCancellation;
}

/** The intent stays, and the ERP is asked again before the next call. */
function unknown(claimed: Claimed, message: string): Settled {
  return { ...claimed, step: 'look up', outcome: { status: 'unknown', message } };
}

/** Returns the document and its operation for what the ERP holds: amend an object that is there, else create it. */
function asFound(claimed: Claimed, found: Found | undefined): Claimed {
  const { document, operation } = claimed;
  return {
    ...claimed,
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
