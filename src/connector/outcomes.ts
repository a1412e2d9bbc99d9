/** From what a connector throws to what it answers. */
import { errorText } from '#platform/errors.ts';
import type { Operation, Outcome } from './connector.ts';
import type { DocumentKind } from './documents.ts';
import { ConnectorError, RateLimited } from './errors.ts';

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
  { signal, atOnce = 1 }: { signal: AbortSignal; atOnce?: number },
): Promise<Outcome[]> {
  const outcomes = operations.map(() => stopped);
  let next = 0;
  let refused: Outcome | undefined;
  const attempt = async (operation: Operation<Kind>): Promise<Outcome> => {
    try {
      return await write(operation);
    } catch (error) {
      return outcomeOf(error);
    }
  };
  const work = async () => {
    while (next < operations.length) {
      const index = next;
      next += 1;
      if (signal.aborted) continue;
      const operation = operations[index] as Operation<Kind>;
      const outcome = refused ?? (await attempt(operation));
      outcomes[index] = outcome;
      if ('error' in outcome && isForAll.has(outcome.error.type)) refused = outcome;
    }
  };
  await Promise.all(Array.from({ length: Math.min(Math.max(1, atOnce), operations.length) }, work));
  return outcomes;
}

const isForAll: ReadonlySet<string> = new Set(['rate-limited', 'auth', 'config']);
