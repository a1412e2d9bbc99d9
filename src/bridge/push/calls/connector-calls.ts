/**
 * Calls to one connector's session, each within its time limit whatever the connector does. One that does not stop even
 * when it is told to is given up; until it has ended after all, the session is stuck and must not be called again: what
 * it is still doing would meet what is done next.
 */
import { z } from 'zod';
import { storableText } from '#bridge/storable-text.ts';
import type { Found, Operation, Outcome, PlannedOperation, Session, Unclear } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { errorText } from '#platform/errors.ts';
import { rawIssuesOf } from '#platform/input.ts';
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
  /** What the ERP holds, by document key. Rejects when that could not be found out of any of them. */
  lookup(documents: readonly Document[], limit: CallLimit): Promise<ReadonlyMap<string, Found | Unclear>>;
  /** What the connector says it would do, by document key; undefined when it cannot say. Rejects when it fails. */
  plan(operations: readonly Operation[], limit: CallLimit): Promise<ReadonlyMap<string, PlannedOperation> | undefined>;
}

export interface CallLimit {
  readonly timeoutMs: number;
  /** Ends the call before its time. */
  readonly signal: AbortSignal;
}

/** `tell` makes a text of the connector's fit to be kept and shown. */
export function createConnectorCalls(
  session: Session,
  { tell, graceMs = abortGraceMs }: { tell: (text: string) => string; graceMs?: number | undefined },
): ConnectorCalls {
  let givenUp = 0;

  async function call<T>(
    { timeoutMs, signal }: CallLimit,
    run: (signal: AbortSignal) => Promise<T>,
    onLateEnd: () => void = () => undefined,
  ): Promise<T> {
    if (givenUp > 0) throw new Error('an earlier call of the connector has not ended yet');
    const stop = createDeadline(timeoutMs);
    const end = (reason: unknown) => stop.abort(reason);
    const onAbort = () => end(signal.reason);
    const timer = setTimeout(() => end(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    let graceTimer: NodeJS.Timeout | undefined;
    const { promise: tooLate, reject } = Promise.withResolvers<never>();
    const onStop = () => {
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
    };
    stop.signal.addEventListener('abort', onStop);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const running = Promise.resolve().then(() => run(stop.signal));
    try {
      return await Promise.race([running, tooLate]);
    } catch (error) {
      // Without its cause, which would tell what the text does not.
      // oxlint-disable-next-line preserve-caught-error
      throw new Error(tell(errorText(error)));
    } finally {
      clearTimeout(timer);
      clearTimeout(graceTimer);
      // Whoever keeps the signal, and asks it later, ends no call that has ended.
      stop.signal.removeEventListener('abort', onStop);
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
        return operations.map((operation, index) => readOutcome(operation, outcomes[index], tell));
      } catch (error) {
        return operations.map(() => ({ status: 'unknown', message: errorText(error) }));
      }
    },
    lookup: async (documents, limit) => {
      const answer: unknown = await call(limit, (signal) => session.lookup(documents, signal));
      if (!Array.isArray(answer)) throw new Error('the connector gave no list of what it found');
      return readFound(answer, tell);
    },
    plan: async (operations, limit) => {
      if (!session.plan) return undefined;
      const planned = plannedForm.safeParse(await call(limit, async (signal) => session.plan?.(operations, signal)));
      if (!planned.success) throw new Error(`the connector gave a plan that cannot be read${faultOf(planned.error)}`);
      return new Map(planned.data.map((one) => [one.key, { ...one, steps: one.steps.map(tell) }]));
    },
  };
}

/** Kept as it is, since the ERP must know it again: one that could only be kept otherwise is none. */
const reference = z
  .string()
  .refine((text) => storableText(text) === text, 'must have at most 2,000 characters, and no zero character');

const outcomeForm = z.union([
  z.object({ status: z.enum(['created', 'updated', 'unchanged', 'cancelled']), reference }),
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

const keyForm = z.object({ key: z.string() });

const unclearForm = z.object({ unclear: z.string() });

const foundForm = z.object({
  key: z.string(),
  reference,
  // What is no such hash tells nothing of what was written.
  contentHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional()
    .catch(undefined),
});

const plannedForm = z.array(
  z.object({
    key: z.string(),
    action: z.enum(['create', 'amend', 'cancel', 'none']),
    steps: z.array(z.string()),
  }),
);

/** A connector may be anybody's, and written in plain JavaScript. */
function readOutcome({ action }: Operation, given: unknown, tell: (text: string) => string): Outcome {
  const read = outcomeForm.safeParse(given);
  if (!read.success)
    return { status: 'unknown', message: `the connector gave an outcome that cannot be read${faultOf(read.error)}` };
  const outcome = read.data as Outcome;
  const fits =
    action === 'cancel' ? outcome.status !== 'created' && outcome.status !== 'updated' : outcome.status !== 'cancelled';
  if (!fits) return { status: 'unknown', message: `the connector answered "${outcome.status}" to: ${action}` };
  if ('message' in outcome) return { ...outcome, message: tell(outcome.message) };
  return 'error' in outcome
    ? { ...outcome, error: { ...outcome.error, message: tell(outcome.error.message) } }
    : outcome;
}

/** What is wrong with one of them is wrong with that document only. */
function readFound(answer: readonly unknown[], tell: (text: string) => string): Map<string, Found | Unclear> {
  const found = new Map<string, Found | Unclear>();
  for (const given of answer) {
    const { data: named } = keyForm.safeParse(given);
    if (!named) throw new Error('the connector found something and does not say for which key');
    const one = readOneFound(named.key, given, tell);
    const other = found.get(named.key);
    found.set(named.key, other === undefined ? one : bothFound(other, one));
  }
  return found;
}

function readOneFound(key: string, given: unknown, tell: (text: string) => string): Found | Unclear {
  const { data: none } = unclearForm.safeParse(given);
  if (none) return { key, unclear: tell(none.unclear) };
  const read = foundForm.safeParse(given);
  if (read.success) return { ...read.data, contentHash: read.data.contentHash };
  return { key, unclear: `the connector gave an answer that cannot be read${faultOf(read.error)}` };
}

/** Which of two objects is the document's is for a person to say: the other one would stay as it is. */
function bothFound(one: Found | Unclear, other: Found | Unclear): Found | Unclear {
  if ('unclear' in one) return one;
  if ('unclear' in other || one.reference === other.reference) return other;
  return {
    key: one.key,
    unclear: `the ERP holds two objects for it: ${one.reference} and ${other.reference}; cancel one of them there`,
  };
}

/** Where it is wrong, for whoever writes the connector; not what it holds. */
function faultOf({ issues }: z.ZodError): string {
  const [issue] = rawIssuesOf(issues);
  return issue === undefined ? '' : ` (${[...issue.path, issue.message].join(': ')})`;
}
