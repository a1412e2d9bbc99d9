/**
 * Calls to one connector's session, each within its time limit whatever the connector does. One that does not stop even
 * when it is told to is given up; until it has ended after all, the session is stuck and must not be called again, as it
 * was promised one call at a time.
 */
import { z } from 'zod';
import type { Found, Operation, Outcome, Session } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { errorText } from '#platform/errors.ts';

/** A connector has this long to stop after it was told to. */
export const abortGraceMs = 5_000;

export interface ConnectorCalls {
  isStuck(): boolean;
  /** One outcome for each operation. Whatever goes wrong on the way leaves it unknown: this never rejects. */
  write(operations: readonly Operation[], limit: CallLimit): Promise<Outcome[]>;
  /** What the ERP holds, by document key. Rejects when that could not be found out. */
  lookup(documents: readonly Document[], limit: CallLimit): Promise<Map<string, Found>>;
}

export interface CallLimit {
  readonly timeoutMs: number;
  /** Ends the call before its time. */
  readonly signal: AbortSignal;
}

export function createConnectorCalls(session: Session, graceMs = abortGraceMs): ConnectorCalls {
  let givenUp = 0;

  async function call<T>({ timeoutMs, signal }: CallLimit, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const stop = new AbortController();
    const end = (reason: unknown) => stop.abort(reason);
    const onAbort = () => end(signal.reason);
    const timer = setTimeout(() => end(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    let graceTimer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<never>((_resolve, reject) => {
      stop.signal.addEventListener('abort', () => {
        graceTimer = setTimeout(() => {
          givenUp += 1;
          running
            .catch(() => undefined)
            .finally(() => {
              givenUp -= 1;
            });
          reject(new Error(`the connector did not stop (${errorText(stop.signal.reason)})`));
        }, graceMs);
      });
    });
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const running = Promise.resolve().then(() => run(stop.signal));
    try {
      return await Promise.race([running, tooLate]);
    } finally {
      clearTimeout(timer);
      clearTimeout(graceTimer);
      signal.removeEventListener('abort', onAbort);
    }
  }

  return {
    isStuck: () => givenUp > 0,
    write: async (operations, limit) => {
      try {
        const outcomes = await call(limit, (signal) => session.write(operations, signal));
        if (outcomes.length !== operations.length)
          throw new Error(`the connector gave ${outcomes.length} outcomes for ${operations.length} operations`);
        return outcomes.map(readOutcome);
      } catch (error) {
        return operations.map(() => ({ status: 'unknown', message: errorText(error) }));
      }
    },
    lookup: async (documents, limit) => {
      const found = await call(limit, (signal) => session.lookup(documents, signal));
      return new Map(found.map((one) => [one.key, one]));
    },
  };
}

const outcomeForm = z.union([
  z.object({ status: z.enum(['created', 'updated', 'unchanged', 'cancelled']), reference: z.string() }),
  z.object({
    status: z.enum(['rejected', 'retry']),
    error: z.object({
      type: z.enum(['transient', 'rate-limited', 'locked', 'data', 'conflict', 'auth', 'config']),
      message: z.string(),
      retryAfterMs: z.number().nonnegative().optional(),
    }),
  }),
  z.object({ status: z.literal('unknown'), message: z.string() }),
]);

/** A connector may be anybody's, and written in plain JavaScript. */
function readOutcome(given: unknown): Outcome {
  const read = outcomeForm.safeParse(given);
  return read.success
    ? (read.data as Outcome)
    : { status: 'unknown', message: 'the connector gave an outcome that cannot be read' };
}
