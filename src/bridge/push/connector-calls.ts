/**
 * Calls to one connector's session, each within its time limit whatever the connector does. One that does not stop even
 * when it is told to is given up; until it has ended after all, the session is stuck and must not be called again: what
 * it is still doing would meet what is done next.
 */
import { z } from 'zod';
import type { Found, Operation, Outcome, PlannedOperation, Session } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { errorText } from '#platform/errors.ts';
import { createDeadline } from './deadline.ts';

/** A connector has this long to stop after it was told to. */
export const abortGraceMs = 5_000;

export interface ConnectorCalls {
  isStuck(): boolean;
  /**
   * One outcome for each operation. Whatever goes wrong on the way leaves it unknown: this never rejects. `onLateEnd` is
   * called when a call that was given up has ended after all.
   */
  write(operations: readonly Operation[], limit: CallLimit, onLateEnd: () => void): Promise<Outcome[]>;
  /** What the ERP holds, by document key. Rejects when that could not be found out. */
  lookup(documents: readonly Document[], limit: CallLimit): Promise<Map<string, Found>>;
  /** What the connector says it would do, by document key; undefined when it cannot say. Rejects when it fails. */
  plan(operations: readonly Operation[], limit: CallLimit): Promise<ReadonlyMap<string, PlannedOperation> | undefined>;
}

export interface CallLimit {
  readonly timeoutMs: number;
  /** Ends the call before its time. */
  readonly signal: AbortSignal;
}

export function createConnectorCalls(session: Session, graceMs = abortGraceMs): ConnectorCalls {
  let givenUp = 0;

  async function call<T>(
    { timeoutMs, signal }: CallLimit,
    run: (signal: AbortSignal) => Promise<T>,
    onLateEnd: () => void = () => undefined,
  ): Promise<T> {
    const stop = createDeadline(timeoutMs);
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
              onLateEnd();
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
    write: async (operations, limit, onLateEnd) => {
      try {
        const outcomes = await call(limit, (signal) => session.write(operations, signal), onLateEnd);
        if (outcomes.length !== operations.length)
          throw new Error(`the connector gave ${outcomes.length} outcomes for ${operations.length} operations`);
        return operations.map((operation, index) => readOutcome(operation, outcomes[index]));
      } catch (error) {
        return operations.map(() => ({ status: 'unknown', message: errorText(error) }));
      }
    },
    lookup: async (documents, limit) => {
      const found = foundForm.safeParse(await call(limit, (signal) => session.lookup(documents, signal)));
      if (!found.success) throw new Error(`the connector gave an answer that cannot be read${faultOf(found.error)}`);
      return new Map(found.data.map((one) => [one.key, { ...one, contentHash: one.contentHash ?? undefined }]));
    },
    plan: async (operations, limit) => {
      if (!session.plan) return undefined;
      const planned = plannedForm.safeParse(await call(limit, async (signal) => session.plan?.(operations, signal)));
      if (!planned.success) throw new Error(`the connector gave a plan that cannot be read${faultOf(planned.error)}`);
      return new Map(planned.data.map((one) => [one.key, one]));
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
      retryAfterMs: z.number().nonnegative().optional().catch(undefined),
    }),
  }),
  z.object({ status: z.literal('unknown'), message: z.string() }),
]);

const foundForm = z.array(
  z.object({ key: z.string(), reference: z.string(), contentHash: z.string().nullable().optional() }),
);

const plannedForm = z.array(
  z.object({
    key: z.string(),
    action: z.enum(['create', 'amend', 'cancel', 'none']),
    steps: z.array(z.string()),
  }),
);

/** A connector may be anybody's, and written in plain JavaScript. */
function readOutcome({ action }: Operation, given: unknown): Outcome {
  const read = outcomeForm.safeParse(given);
  if (!read.success)
    return { status: 'unknown', message: `the connector gave an outcome that cannot be read${faultOf(read.error)}` };
  const outcome = read.data as Outcome;
  const fits =
    action === 'cancel' ? outcome.status !== 'created' && outcome.status !== 'updated' : outcome.status !== 'cancelled';
  return fits ? outcome : { status: 'unknown', message: `the connector answered "${outcome.status}" to: ${action}` };
}

/** Where it is wrong, for whoever writes the connector; not what it holds. */
function faultOf({ issues: [issue] }: z.ZodError): string {
  return issue === undefined ? '' : ` (${[...issue.path, issue.message].join(': ')})`;
}
