import type { Clock } from './clock.ts';

/** Small corrections are no matter. */
const setBackMs = 60_000;

/**
 * Acts when the clock has been set back since it looked before: what was put off until a time of the clock as it was would
 * be waited for. Acts the first time, too, as that may have been before the process began. Rejects as `act` does, and
 * acts again the next time then.
 */
export function createClockWatch(clock: Clock): (act: () => Promise<void>) => Promise<void> {
  let beforeMs = Number.POSITIVE_INFINITY;
  return async (act) => {
    const nowMs = clock.nowMs();
    if (nowMs < beforeMs - setBackMs) await act();
    beforeMs = nowMs;
  };
}
