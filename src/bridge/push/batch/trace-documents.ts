/**
 * The call for a batch as spans: one for each document, in the trace of the pull that brought its change, and one for
 * the call itself. The call of a single document is part of its span; a call for many has a trace of its own that links
 * to each of them.
 */
import { readPullTraces } from '#bridge/mirror/pull-traces.ts';
import type { Database } from '#platform/database/database.ts';
import { failSpan, isTraced, type Span, startSpan, traced, traceparentOf } from '#platform/telemetry.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import type { Settled } from '../settle/settle-outcomes.ts';

/** Makes the call; without an SDK of OpenTelemetry, it does nothing else. `settledOf` returns what the call has settled. */
export async function traceDocuments<T>(
  { database, flow }: { database: Database; flow: string },
  call: 'write' | 'lookup',
  claimed: readonly Claimed[],
  work: () => Promise<T>,
  settledOf: (result: T) => readonly Settled[],
): Promise<T> {
  if (!isTraced()) return work();
  const pulls = claimed.flatMap(({ document: { pull } }) => pull ?? []);
  const traces = pulls.length > 0 ? await readPullTraces(database, pulls).catch(() => undefined) : undefined;
  const spans = new Map<string, Span>();
  for (const { document, operation } of claimed) {
    const span = startSpan(`${operation.action} ${document.kind}`, {
      kind: 'internal',
      parent: (document.pull !== null && traces?.get(document.pull)) || null,
      attributes: {
        'sourcing.flow': flow,
        'sourcing.kind': document.kind,
        'sourcing.document': document.key,
        'sourcing.idempotency_key': operation.idempotencyKey,
        'sourcing.pull': document.pull ?? undefined,
      },
    });
    spans.set(document.key, span);
  }
  const places = [...spans.values()].flatMap((span) => traceparentOf(span) ?? []);
  const [only] = places;
  const place = places.length === 1 ? { parent: only } : { parent: null, links: places };
  try {
    const attributes = { 'sourcing.flow': flow, 'sourcing.documents': claimed.length };
    const result = await traced(`erp ${call}`, { kind: 'internal', attributes, ...place }, work);
    for (const { document, outcome } of settledOf(result)) {
      const span = spans.get(document.key);
      if (!span) continue;
      span.setAttribute('sourcing.outcome', outcome.status);
      if ('reference' in outcome) span.setAttribute('sourcing.reference', outcome.reference);
      if ('error' in outcome || outcome.status === 'unknown') failSpan(span, outcome.status);
    }
    return result;
  } finally {
    for (const span of spans.values()) span.end();
  }
}
