/**
 * The log of the pusher: one line for each attempt, with the names that a person looks for and the ids that join it with
 * the lines of its pull and with the history. The line of the pull names the notifications that it answered.
 */
import { msFromTimestamp } from '#contract/timestamp.ts';
import type { Logger } from '#platform/log.ts';
import type { Attempt, AttemptOutcome } from './attempt.ts';

const levels: Readonly<Record<AttemptOutcome, 'debug' | 'info' | 'warn'>> = {
  created: 'info',
  updated: 'info',
  unchanged: 'info',
  cancelled: 'info',
  held: 'info',
  // Each document of a first read whose event comes later has one; the history shows them.
  'not-yet': 'debug',
  waits: 'info',
  retry: 'warn',
  unknown: 'warn',
  rejected: 'warn',
};

/** Writes the lines of these attempts; called after the transaction that wrote them has committed. */
export function logAttempts(log: Logger, attempts: readonly Attempt[]): void {
  for (const attempt of attempts) {
    const level = levels[attempt.outcome];
    if (log.isLevelEnabled(level)) log[level](factsOf(attempt), textOf(attempt));
  }
}

/** What is unknown is left out, and amounts are: more people read logs than prices. The document's key stands under `document`: a value under `key` counts as a secret. */
function factsOf(attempt: Attempt): Record<string, unknown> {
  const { eventName, eventReference, supplierName, supplierExternalId } = attempt;
  return withoutNulls({
    flow: attempt.flow,
    kind: attempt.kind,
    document: attempt.key,
    event: withoutNulls({ id: attempt.sourcingEvent, name: eventName, reference: eventReference }),
    supplier: withoutNulls({ id: attempt.supplier, name: supplierName, externalId: supplierExternalId }),
    action: attempt.action,
    step: attempt.step,
    outcome: attempt.outcome,
    number: attempt.number,
    reference: attempt.reference,
    errorType: attempt.errorType,
    nextTry: attempt.nextTry,
    durationMs: msFromTimestamp(attempt.ended) - msFromTimestamp(attempt.started),
    attempt: attempt.id,
    idempotencyKey: attempt.requestId,
    pull: attempt.pull,
  });
}

function withoutNulls(facts: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== null));
}

function textOf({ kind, outcome, reference, message }: Attempt): string {
  const what = message === null ? (reference === null ? '' : `: ${reference}`) : `: ${message}`;
  return `${kind} ${outcome}${what}`;
}
