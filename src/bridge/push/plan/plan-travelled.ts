/** What connectors say that they would do with documents of another time, for `bridge plan --as-of`. */

import { documentHash } from '#bridge/assemble/make-documents.ts';
import type { TravelledDocument } from '#bridge/assemble/time-travel.ts';
import type { OpenFlow } from '#bridge/flows/open-flows.ts';
import type { Operation } from '#connector/connector.ts';
import type { Clock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { createConnectorCalls } from '../calls/connector-calls.ts';

/**
 * Returns what the flow's connector, with its settings, says of each of these documents, in their order; empty where it
 * has no `plan`, or nothing would be done. It reads the ERP as it is now, and writes nothing.
 */
export async function planTravelled(
  { openFlow, clock }: { openFlow: OpenFlow; clock: Clock },
  travelled: readonly TravelledDocument[],
  signal: AbortSignal,
): Promise<string[][]> {
  const { connector, session, secrets } = openFlow;
  const { batchMax, timeoutMs, kinds } = connector.capabilities;
  const calls = createConnectorCalls(session, { secrets });
  const steps: string[][] = travelled.map(() => []);
  const asked = travelled.flatMap((one, index) => {
    const operation = operationOf(one, clock.nowMs());
    return operation && kinds.includes(one.kind) ? [{ index, operation }] : [];
  });
  for (let from = 0; from < asked.length; ) {
    signal.throwIfAborted();
    const kind = asked[from]?.operation.document.kind;
    const batch: typeof asked = [];
    // A call is for one kind, and never for one key twice: a range has several states of a document.
    for (const one of asked.slice(from, from + batchMax)) {
      const { document } = one.operation;
      if (document.kind !== kind || batch.some(({ operation }) => operation.document.key === document.key)) break;
      batch.push(one);
    }
    from += batch.length;
    const operations = batch.map(({ operation }) => operation);
    const planned = await calls.plan(operations, { timeoutMs, signal }).catch(errorText);
    for (const { index, operation } of batch)
      steps[index] =
        typeof planned === 'string'
          ? [`the connector's plan failed: ${planned}`]
          : [...(planned?.get(operation.document.key)?.steps ?? [])];
  }
  return steps;
}

function operationOf({ action, document, reference }: TravelledDocument, nowMs: number): Operation | undefined {
  if (document === undefined || (action !== 'create' && action !== 'amend')) return undefined;
  return {
    action,
    document,
    contentHash: documentHash(document),
    idempotencyKey: timeOrderedId(nowMs),
    reference: action === 'amend' ? (reference ?? undefined) : undefined,
  };
}
