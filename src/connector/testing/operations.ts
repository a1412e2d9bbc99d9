/** Operations as the bridge gives them, and outcomes in words. */
import { createHash, randomUUID } from 'node:crypto';
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import type { Sample } from './sample-documents.ts';

export function operation(
  action: Operation['action'],
  sample: Sample,
  document: Document,
  reference?: string,
): Operation {
  return {
    action,
    document,
    contentHash: sampleHash(document),
    idempotencyKey: randomUUID(),
    reference,
    ...(sample.file && action !== 'cancel' ? { file: sample.file } : {}),
  };
}

export function sampleHash(document: Document): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}

/** Slices of at most `size`. */
export function slices<T>(list: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, n) => list.slice(n * size, (n + 1) * size));
}

export function referenceOf(outcome: Outcome | undefined): string | undefined {
  return outcome && 'reference' in outcome ? outcome.reference : undefined;
}

/** One line for a person. */
export function shownOutcome(outcome: Outcome | undefined): string {
  if (!outcome) return 'no outcome';
  if ('reference' in outcome) return `"${outcome.status}" (${outcome.reference})`;
  return 'error' in outcome
    ? `"${outcome.status}", ${outcome.error.type}: ${outcome.error.message}`
    : `"${outcome.status}": ${outcome.message}`;
}
