/** Waits until a source's quota is free again. */
import { AnswerError } from '#client/read-answer.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, askedToWaitMs } from '#platform/errors.ts';

/** How often, and for how long at a time, one request waits. */
const waitsMax = 20;
const waitMaxMs = 60 * 60_000;
/** What is done meanwhile is looked for as often as this. */
const meanwhileEveryMs = 2_000;

/**
 * Calls `ask` again after each wait that it asks for with `too-many`. For work that would have to begin again if it
 * ended here, and so might never come to its end. Rejects as `ask` does with any other error, after too many waits, and
 * when a single wait is longer than an hour; with the signal's reason when it is aborted. Calls `onThrottled` before a
 * wait that the source itself asked for (429), and `meanwhile` now and then during each wait; rejects as they do.
 */
export async function waitForRateLimit<T>(
  ask: () => Promise<T>,
  {
    clock,
    signal,
    meanwhile,
    onThrottled,
  }: {
    clock: Clock;
    signal: AbortSignal;
    meanwhile?: (() => Promise<void>) | undefined;
    onThrottled?: ((error: AppError, waitMs: number) => Promise<void>) | undefined;
  },
): Promise<T> {
  for (let waits = 0; ; waits += 1)
    try {
      return await ask();
    } catch (error) {
      const waitMs = error instanceof AppError && error.code === 'too-many' ? askedToWaitMs(error) : 0;
      if (waitMs === 0 || waitMs > waitMaxMs || waits === waitsMax) throw error;
      if (error instanceof AnswerError) await onThrottled?.(error, waitMs);
      if (meanwhile === undefined) await clock.sleep(waitMs, signal);
      // Counted down: the clock may be set meanwhile.
      else
        for (let leftMs = waitMs; leftMs > 0; leftMs -= meanwhileEveryMs) {
          await clock.sleep(Math.min(meanwhileEveryMs, leftMs), signal);
          await meanwhile();
        }
    }
}
