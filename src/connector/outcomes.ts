/** From what a connector throws to what it answers. */
import { errorText } from '#platform/errors.ts';
import type { Found, Operation, Outcome, Unclear } from './connector.ts';
import type { DocumentKind, DocumentOf } from './documents.ts';
import { AuthError, ConnectorError, RateLimited } from './errors.ts';

/** The outcome of an operation that threw. What is no ConnectorError comes from who knows where: its outcome is unknown. */
export function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof ConnectorError) || error.type === 'unknown')
    return { status: 'unknown', message: errorText(error) };
  const { type, message } = error;
  if (error instanceof RateLimited) {
    const { retryAfterMs } = error;
    return {
      status: 'retry',
      error: { type: 'rate-limited', message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
    };
  }
  return { status: type === 'data' || type === 'conflict' ? 'rejected' : 'retry', error: { type, message } as never };
}

/** What is left when a write was told to stop: nothing of it was sent. */
export const stopped: Outcome = {
  status: 'retry',
  error: { type: 'transient', message: 'stopped before it was sent' },
};

/**
 * Writes operations one by one, or up to `atOnce` at a time, and gives an outcome for each: what `write` returns, or what
 * it throws. Begins none once `signal` is aborted, nor after one that was limited, or refused for want of a right or
 * setting: the others would be, too.
 */
export async function writeEach<Kind extends DocumentKind>(
  operations: readonly Operation<Kind>[],
  write: (operation: Operation<Kind>) => Promise<Outcome>,
  { signal, atOnce = 1 }: EachOptions,
): Promise<Outcome[]> {
  let refused: Outcome | undefined;
  return inTurns(operations, atOnce, async (operation) => {
    if (signal.aborted) return stopped;
    if (refused) return refused;
    let outcome: Outcome;
    try {
      outcome = await write(operation);
    } catch (error) {
      outcome = outcomeOf(error);
    }
    if ('error' in outcome && isForAll.has(outcome.error.type)) refused = outcome;
    return outcome;
  });
}

/**
 * Asks for documents one by one, or up to `atOnce` at a time; one that `find` throws for is unclear, and those beside it
 * are not. Begins none once `signal` is aborted, nor after one that was limited or not let in, nor when several in a row
 * have failed: the others are unclear for the same reason.
 */
export async function lookupEach<Kind extends DocumentKind>(
  documents: readonly DocumentOf<Kind>[],
  find: (document: DocumentOf<Kind>) => Promise<readonly Found[]>,
  { signal, atOnce = 1 }: EachOptions,
): Promise<(Found | Unclear)[]> {
  let failedInARow = 0;
  /** Why none is asked for any more. */
  let reason: string | undefined;
  const answers = await inTurns(documents, atOnce, async (document) => {
    if (signal.aborted) reason ??= 'stopped before it was asked for';
    if (reason !== undefined) return [{ key: document.key, unclear: reason }];
    try {
      const found = await find(document);
      failedInARow = 0;
      return found;
    } catch (error) {
      const unclear = errorText(error);
      failedInARow += 1;
      if (failedInARow === failuresMax || error instanceof RateLimited || error instanceof AuthError)
        reason ??= unclear;
      return [{ key: document.key, unclear }];
    }
  });
  return answers.flat();
}

interface EachOptions {
  readonly signal: AbortSignal;
  readonly atOnce?: number;
}

/** After so many an ERP is away, and not one document odd. */
const failuresMax = 5;
const isForAll: ReadonlySet<string> = new Set(['rate-limited', 'auth', 'config']);

/** Results in the order of the items, up to `atOnce` of them under way. `run` does not throw. */
async function inTurns<T, R>(items: readonly T[], atOnce: number, run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async () => {
    while (next < items.length) {
      const index = next;
      next += 1;
      results[index] = await run(items[index] as T);
    }
  };
  await Promise.all(Array.from({ length: Math.min(Math.max(1, atOnce), items.length) }, work));
  return results;
}
