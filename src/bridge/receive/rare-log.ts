/** Warnings that anybody on the network can cause: at most one a second is written, so that a flood does not fill the disk. */
import type { Clock } from '#platform/clock.ts';
import type { Logger } from '#platform/log.ts';

const everyMs = 1_000;

/** Gives a function that warns; `passedOver` says how many it has kept to itself since the one before. */
export function createThrottledLog({ log, clock }: { log: Logger; clock: Clock }) {
  let toldMs = Number.NEGATIVE_INFINITY;
  let passedOver = 0;
  return (facts: Record<string, unknown>, text: string): void => {
    const nowMs = clock.nowMs();
    // Also when the clock was set back.
    if (Math.abs(nowMs - toldMs) < everyMs) {
      passedOver += 1;
      return;
    }
    log.warn(passedOver === 0 ? facts : { ...facts, passedOver }, text);
    toldMs = nowMs;
    passedOver = 0;
  };
}
