/**
 * Continues after a write as the bridge does. A connector conforms when this ends with the ERP holding each document
 * once.
 */
import { randomUUID } from 'node:crypto';
import type { Operation, Outcome } from '#connector/connector.ts';
import { failCheck } from './finding.ts';
import { operation, outcomeText, referenceOf, slices } from './operations.ts';
import type { Sample } from './sample-documents.ts';
import type { Stage } from './stage.ts';
import type { WatchedSession } from './watched-session.ts';

const roundsMax = 6;

/**
 * Continues until each operation is done. An operation with `retry` is sent again under a new idempotency key. For an
 * unknown outcome, or one that is partial, `lookup` is called first. Without `outcomes`, as after a kill, all are unknown.
 * Returns the references; fails the check when an operation is rejected, or not done after six rounds.
 */
export async function finishAsBridge(
  stage: Stage,
  session: WatchedSession,
  operations: readonly Operation[],
  outcomes?: readonly Outcome[],
): Promise<(string | undefined)[]> {
  const references: (string | undefined)[] = operations.map(() => undefined);
  let open = operations.map((operation, index) => ({ operation, index, outcome: outcomes?.[index] }));
  for (let round = 0; round < roundsMax; round += 1) {
    const next: { operation: Operation; index: number }[] = [];
    const unknown = open.filter(({ outcome }) => isLookedUp(outcome));
    for (const slice of slices(unknown, stage.capabilities.batchMax)) {
      const found = new Map(
        (await session.lookup(slice.map(({ operation }) => operation.document))).map((object) => [object.key, object]),
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
      if (outcome === undefined || isLookedUp(outcome)) continue;
      if ('reference' in outcome) references[index] = outcome.reference;
      else if (outcome.status === 'retry')
        next.push({ operation: { ...operation, idempotencyKey: randomUUID() }, index });
      else
        failCheck({
          expected: `${operation.action} ${operation.document.kind} ${operation.document.key} is retried or done, as nothing is wrong with the record`,
          seen: outcomeText(outcome),
          lookAt: 'which ConnectorError is thrown for this answer: DataError and ConflictError make dead letters',
        });
    }
    if (next.length === 0) return references;
    open = [];
    for (const slice of slices(next, stage.capabilities.batchMax)) {
      const written = await session.write(slice.map(({ operation }) => operation));
      open.push(...slice.map((item, at) => ({ ...item, outcome: written[at] })));
    }
  }
  return failCheck({
    expected: `after ${roundsMax} undisturbed attempts every operation is done`,
    seen: open
      .map(({ operation, outcome }) => `${operation.action} ${operation.document.key}: ${outcomeText(outcome)}`)
      .join('; '),
    lookAt: 'whether the session recovers after a failure: from a broken connection, login or transaction',
  });
}

/**
 * Withdraws a document after a create with this outcome: cancels what was made, or may have been made, and nothing where
 * the outcome says that nothing was done.
 */
export async function withdrawAsBridge(
  stage: Stage,
  session: WatchedSession,
  sample: Sample,
  outcome: Outcome | undefined,
): Promise<void> {
  const { withdrawn } = sample;
  if (!withdrawn) return;
  const { leavesParts = [] } = stage.capabilities;
  let reference = referenceOf(outcome);
  if (isInDoubt(outcome)) {
    const [found] = await session.lookup([withdrawn]);
    if (!found && !leavesParts.includes(withdrawn.kind)) return;
    reference = found?.reference;
  } else if (reference === undefined) return;
  const cancel = operation('cancel', sample, withdrawn, reference);
  await finishAsBridge(stage, session, [cancel], await session.write([cancel]));
}

/** Whether `lookup` comes before the operation is sent again; what is rejected is not sent again. */
function isLookedUp(outcome: Outcome | undefined): boolean {
  return isInDoubt(outcome) && outcome?.status !== 'rejected';
}

/** Whether the bridge asks what the ERP holds before it sends anything again. */
function isInDoubt(outcome: Outcome | undefined): boolean {
  return outcome === undefined || outcome.status === 'unknown' || ('error' in outcome && outcome.partial === true);
}
