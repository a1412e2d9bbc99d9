import type { FileContent, Outcome } from '#connector/connector.ts';
import { errorText } from '#platform/errors.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import type { Settled } from '../settle/settle-outcomes.ts';

/**
 * Loads files of the sourcing service by their ids. A file that the service does not know is left out of the result.
 * Rejects when the service cannot be asked.
 */
export type LoadFiles = (ids: readonly string[], signal: AbortSignal) => Promise<ReadonlyMap<string, FileContent>>;

/** Whether the operation needs the bytes of a file. */
export function needsFile({ operation }: Claimed): boolean {
  return operation.document.kind === 'file' && operation.action !== 'cancel';
}

/**
 * Attaches the bytes of files to the operations that need them. The files are asked for just before they are written,
 * as download links are short-lived. A file that the service does not know settles its document as rejected. When the
 * service cannot be asked, all documents that need a file are settled as `retry`. Never rejects.
 */
export async function attachFiles(
  claimed: readonly Claimed[],
  load: LoadFiles | undefined,
  signal: AbortSignal,
): Promise<{ settled: Settled[]; remaining: Claimed[] }> {
  const ids = claimed.filter(needsFile).map(({ document }) => document.key);
  if (ids.length === 0) return { settled: [], remaining: [...claimed] };
  const files = await (load?.(ids, signal) ?? Promise.resolve(new Map<string, FileContent>())).catch(errorText);
  const settled: Settled[] = [];
  const remaining: Claimed[] = [];
  for (const entry of claimed) {
    const file = typeof files === 'string' ? undefined : files.get(entry.document.key);
    if (!needsFile(entry)) remaining.push(entry);
    else if (file) remaining.push({ ...entry, operation: { ...entry.operation, file } });
    else
      settled.push({
        ...entry,
        step: 'load',
        outcome: typeof files === 'string' ? notLoaded(files) : notFound,
        notCalled: true,
        keepIntent: true,
      });
  }
  return { settled, remaining };
}

const notFound: Outcome = {
  status: 'rejected',
  error: { type: 'data', message: 'the sourcing service does not know this file (any more)' },
};

function notLoaded(reason: string): Outcome {
  return { status: 'retry', error: { type: 'transient', message: `the file could not be loaded: ${reason}` } };
}
