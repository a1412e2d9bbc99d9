import type { Outcome, OutcomeError } from '#connector/connector.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { backoffMs } from '../backoff.ts';
import { type FlowDocument, markDelivered, pauseFlow, postpone } from './flow-document-store.ts';

/** What became of one document. */
export interface Settled {
  readonly document: FlowDocument;
  readonly outcome: Outcome;
  /** What the ERP holds after a success; null after a cancellation. */
  readonly hash: string | null;
  /** Not tried again before this. */
  readonly afterMs?: number | undefined;
}

const backoff = { firstMs: 1_000, mostMs: 10 * 60_000 };

/** The intent stays, and the ERP is asked before the next call. */
export function unknownOutcome(document: FlowDocument, message: string, afterMs?: number): Settled {
  return { document, outcome: { status: 'unknown', message }, hash: null, afterMs };
}

/**
 * Writes outcomes down: delivered, to be tried again, or a dead letter. Pauses the flow and gives the reason when
 * nothing will work until a person acts.
 */
export async function settleOutcomes(
  tx: Sql,
  flow: string,
  settled: readonly Settled[],
  nowMs: number,
): Promise<string | undefined> {
  const now = timestampFromMs(nowMs);
  const delivered = settled.flatMap(({ document, outcome, hash }) =>
    'reference' in outcome ? [{ document, hash, reference: outcome.reference }] : [],
  );
  const postponed = settled.flatMap(({ document, outcome, afterMs = 0 }) => {
    if ('reference' in outcome) return [];
    const error = 'error' in outcome ? outcome.error : undefined;
    const floorMs = Math.max(afterMs, retryAfterOf(error));
    const waitMs = backoffMs({ ...backoff, failures: document.attempts, floorMs });
    const due = error && isFinal(error) ? null : timestampFromMs(nowMs + waitMs);
    const reason = 'error' in outcome ? outcome.error.message : outcome.message;
    return [{ document, reason, due, unknown: outcome.status === 'unknown', failed: true }];
  });
  await markDelivered(tx, flow, delivered, now);
  await postpone(tx, flow, postponed, now);
  const pauseReason = settled.map(({ outcome }) => pauseReasonOf(outcome)).find((reason) => reason !== undefined);
  if (pauseReason !== undefined) await pauseFlow(tx, flow, pauseReason);
  return pauseReason;
}

/** Only another state of the record, or a person, can change this. What passes by itself is tried for ever. */
function isFinal(error: OutcomeError): boolean {
  return error.type === 'data' || error.type === 'conflict';
}

function pauseReasonOf(outcome: Outcome): string | undefined {
  const error = 'error' in outcome ? outcome.error : undefined;
  return error?.type === 'auth' || error?.type === 'config' ? error.message : undefined;
}

function retryAfterOf(error: OutcomeError | undefined): number {
  return error?.type === 'rate-limited' ? (error.retryAfterMs ?? 0) : 0;
}
