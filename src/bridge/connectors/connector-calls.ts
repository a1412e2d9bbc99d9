/**
 * Calls to the session of one connector. Each call returns within its time limit, whatever the connector does. A call
 * that does not stop when its signal aborts is abandoned. Until an abandoned call ends after all, the session is stuck
 * and must not be called again: what it still does could collide with what is done next. A connector may come from
 * anyone and be plain JavaScript, so each of its answers is checked here.
 */
import { z } from 'zod';
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import type { Found, Operation, Outcome, PlannedOperation, Session, Unclear } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { RateLimited } from '#connector/errors.ts';
import {
  isDifferent,
  isReadField,
  type ReadBack,
  type ReadField,
  readBackForm,
  readBackFormWithoutFields,
  readBackLimits,
  type TakenDocument,
} from '#connector/read-back.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { errorText } from '#platform/errors.ts';
import { rawIssuesOf } from '#platform/input.ts';
import { createDeadline } from './deadline.ts';
import type { SecretRedactor } from './secret-redactor.ts';

/** How long a connector may take to stop after the signal of a call has aborted. */
export const abortGraceMs = 5_000;

export interface ConnectorCalls {
  /** Whether an abandoned call has not ended yet. Then every call fails without calling the connector. */
  isStuck(): boolean;
  /**
   * Returns one outcome for each operation, in their order. Never rejects: when anything goes wrong, the outcomes are
   * `unknown`. `onLateEnd` is called when this call was abandoned and has ended after all.
   */
  write(operations: readonly Operation[], limit: CallLimit, onLateEnd: () => void): Promise<Outcome[]>;
  /** The same for `acknowledge`. */
  acknowledge(acknowledgements: readonly Acknowledgement[], limit: CallLimit): Promise<Outcome[]>;
  /** Returns what the ERP holds, by document key. Rejects when the connector could not tell that of any document. */
  lookup(documents: readonly Document[], limit: CallLimit): Promise<ReadonlyMap<string, Found | Unclear>>;
  /**
   * Returns what the ERP holds of these deliveries, one answer for each, in their order. An answer that cannot be read is
   * `unclear`. Rejects when the connector could not tell that of any of them; with RateLimited where it threw that.
   */
  readBack(deliveries: readonly TakenDocument[], limit: CallLimit): Promise<ReadBack[]>;
  /** Returns what the connector would do, by document key; undefined when it has no `plan`. Rejects when that fails. */
  plan(operations: readonly Operation[], limit: CallLimit): Promise<ReadonlyMap<string, PlannedOperation> | undefined>;
}

export interface CallLimit {
  readonly timeoutMs: number;
  /** Ends the call before its time limit. */
  readonly signal: AbortSignal;
}

type Secrets = Pick<SecretRedactor, 'redact' | 'removeSecrets' | 'holdsSecret'>;

/**
 * Secrets are removed from each text of the connector, so that it may be stored and shown. A reference with a secret in
 * it is not accepted, since the ERP must recognise it.
 */
export function createConnectorCalls(
  session: Session,
  { secrets, graceMs = abortGraceMs }: { secrets: Secrets; graceMs?: number | undefined },
): ConnectorCalls {
  const { redact } = secrets;
  let abandoned = 0;

  async function call<T>(
    { timeoutMs, signal }: CallLimit,
    run: (signal: AbortSignal) => Promise<T>,
    onLateEnd: () => void = () => undefined,
  ): Promise<T> {
    if (abandoned > 0) throw new Error('an earlier call of the connector has not ended yet');
    const stop = createDeadline(timeoutMs);
    const end = (reason: unknown) => stop.abort(reason);
    const onAbort = () => end(signal.reason);
    const timer = setTimeout(() => end(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    let graceTimer: NodeJS.Timeout | undefined;
    const { promise: abandonment, reject: abandon } = Promise.withResolvers<never>();
    const onStop = () => {
      graceTimer = setTimeout(() => {
        abandoned += 1;
        running
          .catch(() => undefined)
          .finally(() => {
            abandoned -= 1;
            onLateEnd();
          });
        abandon(new Error(`the connector did not stop (${errorText(stop.signal.reason)})`));
      }, graceMs);
    };
    stop.signal.addEventListener('abort', onStop);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const running = Promise.resolve().then(() => run(stop.signal));
    try {
      return await Promise.race([running, abandonment]);
    } catch (error) {
      if (error instanceof RateLimited)
        throw new RateLimited(redact(errorText(error)), { retryAfterMs: error.retryAfterMs });
      // Without its cause, which may hold the secrets that are redacted from the text.
      // oxlint-disable-next-line preserve-caught-error
      throw new Error(redact(errorText(error)));
    } finally {
      clearTimeout(timer);
      clearTimeout(graceTimer);
      // A connector may keep the signal and read it later, when it is aborted by its deadline: that must not abandon a
      // call that has ended.
      stop.signal.removeEventListener('abort', onStop);
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Returns an outcome for each of what was asked for; all are unknown when the call fails. */
  async function outcomesOf(
    asked: readonly Pick<Operation, 'action'>[],
    run: () => Promise<readonly Outcome[]>,
  ): Promise<Outcome[]> {
    try {
      const outcomes = await run();
      if (outcomes.length !== asked.length)
        throw new Error(`the connector returned ${outcomes.length} outcomes for ${asked.length} operations`);
      return asked.map((each, index) => readOutcome(each, outcomes[index], secrets));
    } catch (error) {
      return asked.map(() => ({ status: 'unknown', message: errorText(error) }));
    }
  }

  return {
    isStuck: () => abandoned > 0,
    write: (operations, limit, onLateEnd) =>
      outcomesOf(operations, () => call(limit, (signal) => session.write(operations, signal), onLateEnd)),
    acknowledge: (acknowledgements, limit) =>
      outcomesOf(
        // It writes no document, so its outcomes are those of a write that amends.
        acknowledgements.map(() => ({ action: 'amend' })),
        () => call(limit, async (signal) => (await session.acknowledge?.(acknowledgements, signal)) ?? []),
      ),
    lookup: async (documents, limit) => {
      const answer: unknown = await call(limit, (signal) => session.lookup(documents, signal));
      if (!Array.isArray(answer)) throw new Error('the connector returned no list of what it found');
      return readFound(answer, secrets);
    },
    readBack: async (deliveries, limit) => {
      const answer: unknown = await call(limit, async (signal) => session.readBack?.(deliveries, signal));
      if (!Array.isArray(answer) || answer.length !== deliveries.length)
        throw new Error(
          `the connector returned ${Array.isArray(answer) ? answer.length : 'no list of'} answers for ${deliveries.length} documents`,
        );
      return deliveries.map(({ document }, index) => readReadBack(document.key, answer[index], secrets));
    },
    plan: async (operations, limit) => {
      if (!session.plan) return undefined;
      const planned = plannedForm.safeParse(await call(limit, async (signal) => session.plan?.(operations, signal)));
      if (!planned.success)
        throw new Error(`the connector returned a plan that cannot be read${faultOf(planned.error)}`);
      return new Map(planned.data.map((entry) => [entry.key, { ...entry, steps: entry.steps.map(redact) }]));
    },
  };
}

/**
 * Stored unchanged, since the ERP must recognise it: a reference that could not be stored unchanged is not accepted.
 */
const reference = z
  .string()
  .refine((text) => storableText(text) === text, 'must have at most 2,000 characters, and no zero character');

const secretReference =
  'the reference of the object holds a secret of the settings; change the secret, or what the ERP answers as the reference';

const outcomeForm = z.union([
  z.object({ status: z.enum(['created', 'updated', 'unchanged', 'cancelled']), reference }),
  z.object({
    status: z.enum(['rejected', 'retry']),
    error: z.object({
      type: z.enum(['transient', 'rate-limited', 'locked', 'data', 'conflict', 'auth', 'config']),
      message: z.string(),
      retryAfterMs: z.number().nonnegative().optional().catch(undefined),
    }),
    partial: z.boolean().optional().catch(undefined),
  }),
  z.object({
    status: z.literal('unknown'),
    message: z.string(),
    answered: z.boolean().optional().catch(undefined),
  }),
]);

const keyForm = z.object({ key: z.string() });

const unclearForm = z.object({ unclear: z.string() });

const foundForm = z.object({
  key: z.string(),
  reference,
  // Anything but a SHA-256 in hexadecimal says nothing of what was written.
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

/** Returns the outcome as the connector answered it; `unknown` when it cannot be read or does not fit the action. */
function readOutcome(
  { action }: Pick<Operation, 'action'>,
  answered: unknown,
  { redact, holdsSecret }: Secrets,
): Outcome {
  const read = outcomeForm.safeParse(answered);
  if (!read.success)
    return {
      status: 'unknown',
      message: `the connector returned an outcome that cannot be read${faultOf(read.error)}`,
    };
  const outcome = read.data as Outcome;
  const fits =
    action === 'cancel' ? outcome.status !== 'created' && outcome.status !== 'updated' : outcome.status !== 'cancelled';
  if (!fits) return { status: 'unknown', message: `the connector answered "${outcome.status}" to: ${action}` };
  if ('message' in outcome) return { ...outcome, message: redact(outcome.message) };
  if ('reference' in outcome && holdsSecret(outcome.reference)) return { status: 'unknown', message: secretReference };
  return 'error' in outcome
    ? { ...outcome, error: { ...outcome.error, message: redact(outcome.error.message) } }
    : outcome;
}

/** Returns what was found, by key. An entry that cannot be read makes only its own document unclear. */
function readFound(answer: readonly unknown[], secrets: Secrets): Map<string, Found | Unclear> {
  const found = new Map<string, Found | Unclear>();
  for (const item of answer) {
    const { data: named } = keyForm.safeParse(item);
    if (!named) throw new Error('the connector found an object and does not say for which key');
    const entry = readFoundEntry(named.key, item, secrets);
    const earlier = found.get(named.key);
    found.set(named.key, earlier === undefined ? entry : mergeFound(earlier, entry));
  }
  return found;
}

function readFoundEntry(key: string, item: unknown, { redact, holdsSecret }: Secrets): Found | Unclear {
  const { data: unclearEntry } = unclearForm.safeParse(item);
  if (unclearEntry) return { key, unclear: redact(unclearEntry.unclear) };
  const read = foundForm.safeParse(item);
  if (read.success && holdsSecret(read.data.reference)) return { key, unclear: secretReference };
  if (read.success) return { ...read.data, contentHash: read.data.contentHash };
  return { key, unclear: `the connector returned an answer that cannot be read${faultOf(read.error)}` };
}

/** An answer of another document is not this one's; nor is one with a secret in it, which must not be stored. */
function readReadBack(key: string, answered: unknown, { redact, removeSecrets, holdsSecret }: Secrets): ReadBack {
  const unclear = (reason: string): ReadBack => ({ key, status: 'unclear', reason });
  // `redact` would also cut long texts off, and two that differ only at their ends would be the same.
  const without = (text: string | undefined) => (text === undefined ? undefined : removeSecrets(text));
  // Objects have hundreds of fields, so these are checked one by one, and by the form only to say what is wrong with them.
  const taken = takeFields(answered);
  const read = (taken ? readBackFormWithoutFields : readBackForm).safeParse(answered);
  if (!read.success) return unclear(`the connector returned an answer that cannot be read${faultOf(read.error)}`);
  const answer = read.data as ReadBack;
  if (answer.key !== key) return unclear('the connector answered for another document');
  if (answer.status === 'unclear') return { ...answer, reason: redact(answer.reason) };
  if ('reference' in answer && holdsSecret(answer.reference)) return unclear(secretReference);
  if (answer.status !== 'held') return answer;
  if (!taken) return unclear('the connector returned fields that cannot be read');
  const { notCompared, changed } = answer;
  return {
    ...answer,
    fields: taken.differing.map(({ name, expected, held }) => ({
      name: redact(name),
      expected: without(expected),
      held: without(held),
    })),
    equalValues: (answer.equalValues ?? 0) + taken.equal,
    ...(notCompared ? { notCompared: notCompared.map(redact) } : {}),
    ...(changed ? { changed: { by: without(changed.by), at: without(changed.at) } } : {}),
  };
}

/** The fields of an answer that differ; of those that are equal only the count is kept. */
interface TakenFields {
  readonly differing: readonly ReadField[];
  readonly equal: number;
}

/** Returns undefined unless all fields of the answer are of the form. */
function takeFields(answered: unknown): TakenFields | undefined {
  const given = (answered as { readonly fields?: unknown } | null | undefined)?.fields;
  if (!Array.isArray(given) || given.length > readBackLimits.fields) return undefined;
  const fields: readonly unknown[] = given;
  if (!fields.every(isReadField)) return undefined;
  const differing = fields.filter(isDifferent);
  return { differing, equal: fields.length - differing.length };
}

/**
 * Merges two entries for one key. Two different objects make the document unclear: a person must say which of them is
 * the document's, as the other one would stay in the ERP.
 */
function mergeFound(first: Found | Unclear, second: Found | Unclear): Found | Unclear {
  if ('unclear' in first) return first;
  if ('unclear' in second || first.reference === second.reference) return second;
  return {
    key: first.key,
    unclear: `the ERP holds two objects for it: ${first.reference} and ${second.reference}; cancel one of them there`,
  };
}

/** Says for the author of the connector where the answer is wrong; never a value of it, which may be a secret. */
function faultOf({ issues }: z.ZodError): string {
  const [issue] = rawIssuesOf(issues);
  return issue === undefined ? '' : ` (${[...issue.path, issue.message].join(': ')})`;
}
