import type { FileContent, Outcome } from '#connector/connector.ts';
import { errorText } from '#platform/errors.ts';
import type { Claimed } from '../claim/claim-documents.ts';
import type { Settled } from '../settle/settle-outcomes.ts';

/** Loads files of the sourcing service by their ids; one that is left out of the answer was not found. */
export type LoadFiles = (ids: readonly string[], signal: AbortSignal) => Promise<ReadonlyMap<string, FileContent>>;

/** Whether the operation needs the bytes of a file. */
export function isLoaded({ operation }: Claimed): boolean {
  return operation.document.kind === 'file' && operation.action !== 'cancel';
}

/**
 * Gives the operations of `file` documents their bytes, asked for just before they are written, as links do not live
 * long. What the service does not know is settled as rejected; when it cannot be asked, all are tried again later.
 */
export async function attachFiles(
  claimed: readonly Claimed[],
  load: LoadFiles | undefined,
  signal: AbortSignal,
): Promise<{ settled: Settled[]; remaining: Claimed[] }> {
  const ids = claimed.filter(isLoaded).map(({ document }) => document.key);
  if (ids.length === 0) return { settled: [], remaining: [...claimed] };
  const files = await (load?.(ids, signal) ?? Promise.resolve(new Map<string, FileContent>())).catch(errorText);
  const settled: Settled[] = [];
  const remaining: Claimed[] = [];
  for (const one of claimed) {
    const file = typeof files === 'string' ? undefined : files.get(one.document.key);
    if (!isLoaded(one)) remaining.push(one);
    else if (file) remaining.push({ ...one, operation: { ...one.operation, file } });
    else
      settled.push({
        ...one,
        outcome: typeof files === 'string' ? notNow(files) : notFound,
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

function notNow(reason: string): Outcome {
  return { status: 'retry', error: { type: 'transient', message: `the file could not be loaded: ${reason}` } };
}
