import type { Clock } from '#platform/clock.ts';
import { AppError, askedToWaitMs } from '#platform/errors.ts';

/** For one request. */
const waitsMax = 20;
const waitMsMax = 60 * 60_000;

/**
 * Asks until the source's quota lets it: for a walk that would have to begin anew if it ended here, and so might never
 * come to its end. Rejects as `ask` does with anything else, with a wait that is too long, and with the signal's reason.
 */
export async function waitForRateLimit<T>(ask: () => Promise<T>, clock: Clock, signal: AbortSignal): Promise<T> {
  for (let waits = 0; ; waits += 1)
    try {
      return await ask();
    } catch (error) {
      const waitMs = error instanceof AppError && error.code === 'too-many' ? askedToWaitMs(error) : 0;
      if (waitMs === 0 || waitMs > waitMsMax || waits === waitsMax) throw error;
      await clock.sleep(waitMs, signal);
    }
}
