/** Notices that the clock was set back, so that waits for a time of the wrong clock can be ended. */
import type { Clock } from './clock.ts';

/** Smaller corrections of the clock are ignored. */
const toleratedMs = 60_000;

/**
 * Returns a function that calls `act` when the clock was set back since the last call: a time that was computed before
 * lies too far in the future. The first call acts, too, as the clock may have been set back before the process started.
 * Rejects as `act` does; then the next call acts again.
 */
export function createClockWatch(clock: Clock): (act: () => Promise<void>) => Promise<void> {
  let beforeMs = Number.POSITIVE_INFINITY;
  return async (act) => {
    const nowMs = clock.nowMs();
    if (nowMs < beforeMs - toleratedMs) await act();
    beforeMs = nowMs;
  };
}
