/** How the bridge goes on after a call: what conformance means is that this ends with the ERP holding each document once. */
import { randomUUID } from 'node:crypto';
import type { Operation, Outcome } from '#connector/connector.ts';
import { fault } from './finding.ts';
import { shownOutcome, slices } from './operations.ts';
import type { Stage } from './stage.ts';
import type { Opened } from './watched-session.ts';

const roundsMost = 6;

/**
 * Goes on until each operation is done: what is to be tried again is sent again under a new idempotency key, and of what
 * is unknown the ERP is asked first. Without `outcomes`, all are unknown: the process was killed. Gives the references.
 */
export async function finish(
  stage: Stage,
  opened: Opened,
  operations: readonly Operation[],
  outcomes?: readonly Outcome[],
): Promise<(string | undefined)[]> {
  const references: (string | undefined)[] = operations.map(() => undefined);
  let open = operations.map((operation, index) => ({ operation, index, outcome: outcomes?.[index] }));
  for (let round = 0; round < roundsMost; round += 1) {
    const next: { operation: Operation; index: number }[] = [];
    const unknown = open.filter(({ outcome }) => outcome === undefined || outcome.status === 'unknown');
    for (const slice of slices(unknown, stage.capabilities.batchMax)) {
      const found = new Map(
        (await opened.lookup(slice.map(({ operation }) => operation.document))).map((one) => [one.key, one]),
      );
      for (const { operation, index } of slice) {
        const held = found.get(operation.document.key);
        const isInPlace = operation.action === 'cancel' ? !held : held?.contentHash === operation.contentHash;
        references[index] = held?.reference ?? operation.reference;
        if (isInPlace) continue;
        const action = operation.action === 'cancel' ? 'cancel' : held ? 'amend' : 'create';
        next.push({ operation: { ...operation, action, reference: held?.reference }, index });
      }
    }
    for (const { operation, index, outcome } of open) {
      if (outcome === undefined || outcome.status === 'unknown') continue;
      if ('reference' in outcome) references[index] = outcome.reference;
      else if (outcome.status === 'retry')
        next.push({ operation: { ...operation, idempotencyKey: randomUUID() }, index });
      else
        fault({
          expected: `${operation.action} ${operation.document.kind} ${operation.document.key} is tried again or done, as nothing is wrong with the record`,
          seen: shownOutcome(outcome),
          lookAt: 'which ConnectorError is thrown for this answer: DataError and ConflictError make dead letters',
        });
    }
    if (next.length === 0) return references;
    open = [];
    for (const slice of slices(next, stage.capabilities.batchMax)) {
      const written = await opened.write(slice.map(({ operation }) => operation));
      open.push(...slice.map((one, at) => ({ ...one, outcome: written[at] })));
    }
  }
  return fault({
    expected: `after ${roundsMost} tries with nothing in the way everything is done`,
    seen: open
      .map(({ operation, outcome }) => `${operation.action} ${operation.document.key}: ${shownOutcome(outcome)}`)
      .join('; '),
    lookAt: 'whether the session recovers after a failure: a connection, a login or a transaction that is broken',
  });
}
