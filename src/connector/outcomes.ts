/** Turns what a connector throws into the outcomes that it returns. */
import { errorText } from '#platform/errors.ts';
import { mapWithLimit, meetsOthers } from './at-once.ts';
import type { Found, Outcome, Unclear } from './connector.ts';
import type { DocumentKind, DocumentOf } from './documents.ts';
import { AuthError, ConnectorError, RateLimited, UnknownOutcome } from './errors.ts';
import type { ReadBack, TakenDocument } from './read-back.ts';

/** The outcome of an operation that threw. For an error that is not a ConnectorError it is `unknown`. */
export function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof ConnectorError) || error.type === 'unknown') {
    const answered = error instanceof UnknownOutcome && error.answered;
    return { status: 'unknown', message: errorText(error), ...(answered ? { answered } : {}) };
  }
  const { type, message } = error;
  const partial = error.partial ? { partial: true } : {};
  if (error instanceof RateLimited) {
    const { retryAfterMs } = error;
    return {
      status: 'retry',
      error: { type: 'rate-limited', message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
      ...partial,
    };
  }
  const status = type === 'data' || type === 'conflict' ? 'rejected' : 'retry';
  return { status, error: { type, message } as never, ...partial };
}

/** The outcome of an operation that was not sent because its write was aborted. */
export const stopped: Outcome = {
  status: 'retry',
  error: { type: 'transient', message: 'stopped before it was sent' },
};

/**
 * Calls `write` for each operation or acknowledgement, one after another or up to `atOnce` at a time, and returns an outcome for each:
 * what `write` returns, or the outcome of what it throws. Starts no further operation once `signal` is aborted, nor
 * after one that failed with `rate-limited`, `auth` or `config`, because the others would fail in the same way.
 */
export async function writeEach<Item>(
  operations: readonly Item[],
  write: (operation: Item) => Promise<Outcome>,
  { signal, atOnce = 1 }: EachOptions,
): Promise<Outcome[]> {
  let refused: Outcome | undefined;
  return mapWithLimit(operations, atOnce, async (operation) => {
    if (signal.aborted) return stopped;
    if (refused) return refused;
    let outcome: Outcome;
    try {
      outcome = await write(operation);
    } catch (error) {
      outcome = outcomeOf(error);
    }
    // Of the others nothing was sent.
    if ('error' in outcome && meetsOthers(outcome.error.type)) refused = { status: 'retry', error: outcome.error };
    return outcome;
  });
}

/**
 * Calls `find` for each document, one after another or up to `atOnce` at a time. A document for which `find` throws is
 * unclear; the others are not affected. Starts no further one once `signal` is aborted, nor after RateLimited or
 * AuthError, nor after five failures in a row: the rest is unclear for the same reason. Never throws.
 */
export async function lookupEach<Kind extends DocumentKind>(
  documents: readonly DocumentOf<Kind>[],
  find: (document: DocumentOf<Kind>) => Promise<readonly Found[]>,
  { signal, atOnce = 1 }: EachOptions,
): Promise<(Found | Unclear)[]> {
  let failedInARow = 0;
  /** Why no further document is looked up. */
  let reason: string | undefined;
  const answers = await mapWithLimit(documents, atOnce, async (document) => {
    if (signal.aborted) reason ??= 'stopped before it was looked up';
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

/**
 * Calls `read` for each delivered document, one after another or up to `atOnce` at a time, and returns an answer for
 * each. A document for which `read` throws is unclear; the others are not affected. Throws RateLimited and AuthError at
 * once, and any other error when five documents in a row failed, or none was read.
 */
export async function readBackEach<Kind extends DocumentKind>(
  deliveries: readonly TakenDocument<Kind>[],
  read: (delivery: TakenDocument<Kind>) => Promise<ReadBack>,
  { signal, atOnce = 1 }: EachOptions,
): Promise<ReadBack[]> {
  let failedInARow = 0;
  let readAny = false;
  let failed: { error: unknown; ofAll: boolean } | undefined;
  const answers = await mapWithLimit(deliveries, atOnce, async (delivery): Promise<ReadBack> => {
    const { key } = delivery.document;
    if (signal.aborted) failed ??= { error: signal.reason, ofAll: true };
    if (failed?.ofAll === true) return { key, status: 'unclear', reason: 'stopped before it was read' };
    try {
      const answer = await read(delivery);
      failedInARow = 0;
      readAny = true;
      return answer;
    } catch (error) {
      failedInARow += 1;
      const ofAll = failedInARow === failuresMax || error instanceof RateLimited || error instanceof AuthError;
      if (!failed || ofAll) failed = { error, ofAll };
      return { key, status: 'unclear', reason: errorText(error) };
    }
  });
  if (failed && (failed.ofAll || !readAny)) throw failed.error;
  return answers;
}

interface EachOptions {
  readonly signal: AbortSignal;
  readonly atOnce?: number;
}

/** After so many failures in a row the ERP is unavailable, rather than single documents at fault. */
const failuresMax = 5;
