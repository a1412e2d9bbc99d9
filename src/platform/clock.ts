/** The only source of time. Code that waits or reads the time takes a Clock, so that tests control it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';

export interface Clock {
  /** Milliseconds since 1970, UTC. */
  nowMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  sleep: (ms, signal) => sleep(ms, undefined, signal ? { signal } : {}),
};

export function timestampNow(clock: Clock): Timestamp {
  return timestampFromMs(clock.nowMs());
}
