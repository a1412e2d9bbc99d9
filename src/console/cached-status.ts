/** The status for any number of watchers: whoever asks while it is being read, or soon after, gets the same one. */
import type { BridgeStatus } from '#bridge/status/status.ts';
import type { Clock } from '#platform/clock.ts';

const freshMs = 500;
/** A reading that took long is kept longer, so that watching costs the database a tenth of one connection at most. */
const keptFactor = 10;

export function cacheStatus(read: () => Promise<BridgeStatus>, clock: Clock): () => Promise<BridgeStatus> {
  let reading: Promise<BridgeStatus> | undefined;
  let untilMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (reading !== undefined && clock.nowMs() < untilMs) return reading;
    const beganMs = clock.nowMs();
    untilMs = Number.POSITIVE_INFINITY;
    reading = read().finally(() => {
      const tookMs = clock.nowMs() - beganMs;
      untilMs = clock.nowMs() + Math.max(freshMs, keptFactor * tookMs);
    });
    // One that failed is not kept.
    reading.catch(() => {
      untilMs = Number.NEGATIVE_INFINITY;
    });
    return reading;
  };
}
