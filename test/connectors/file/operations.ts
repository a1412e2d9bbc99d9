/** Operations as the bridge makes them. */
import { createHash, randomUUID } from 'node:crypto';
import type { Operation } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import type { Sample } from '#connector/testing/sample-documents.ts';

/** An operation for a sample, with a new idempotency key each time. */
export function operation(action: Operation['action'], { file }: Pick<Sample, 'file'>, document: Document): Operation {
  return {
    action,
    document,
    contentHash: createHash('sha256').update(JSON.stringify(document)).digest('hex'),
    idempotencyKey: randomUUID(),
    reference: undefined,
    ...(file && action !== 'cancel' ? { file } : {}),
  };
}
