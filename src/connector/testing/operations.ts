/** Operations as the bridge makes them, and outcomes in words. */
import { createHash, randomUUID } from 'node:crypto';
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import type { Sample } from './sample-documents.ts';

/** An operation for a version of a sample, with a new idempotency key. */
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

/** The content hash that `operation` uses. */
export function sampleHash(document: Document): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}

/** Splits a list into slices of at most `size` entries. */
export function slices<T>(list: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, n) => list.slice(n * size, (n + 1) * size));
}

/** The reference of an outcome that is done, else undefined. */
export function referenceOf(outcome: Outcome | undefined): string | undefined {
  return outcome && 'reference' in outcome ? outcome.reference : undefined;
}

/** The outcome on one line, for messages. */
export function outcomeText(outcome: Outcome | undefined): string {
  if (!outcome) return 'no outcome';
  if ('reference' in outcome) return `"${outcome.status}" (${outcome.reference})`;
  return 'error' in outcome
    ? `"${outcome.status}", ${outcome.error.type}: ${outcome.error.message}`
    : `"${outcome.status}": ${outcome.message}`;
}
