/** The status for any number of viewers: requests during a read, or soon after it, get the same status. */
import type { BridgeStatus } from '#bridge/status/status.ts';
import type { Clock } from '#platform/clock.ts';

const freshMs = 500;
/**
 * A status that took long to read is kept longer, so that viewers cost the database a tenth of one connection at most.
 */
const keptFactor = 10;

/** Returns a function that reads the status, or returns the last one while it is fresh. A failed read is not kept. */
export function cacheStatus(read: () => Promise<BridgeStatus>, clock: Clock): () => Promise<BridgeStatus> {
  let reading: Promise<BridgeStatus> | undefined;
  let untilMs = Number.NEGATIVE_INFINITY;
  return () => {
    if (reading !== undefined && clock.nowMs() < untilMs) return reading;
    const startedMs = clock.nowMs();
    untilMs = Number.POSITIVE_INFINITY;
    reading = read().finally(() => {
      const tookMs = clock.nowMs() - startedMs;
      untilMs = clock.nowMs() + Math.max(freshMs, keptFactor * tookMs);
    });
    reading.catch(() => {
      untilMs = Number.NEGATIVE_INFINITY;
    });
    return reading;
  };
}
