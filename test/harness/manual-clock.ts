/** A clock that a test controls: it stands still until the test advances it. */
import type { Clock } from '#platform/clock.ts';

export interface ManualClock extends Clock {
  /** Advances the time and ends the sleeps that are over by then. */
  advance(ms: number): void;
}

interface Sleeper {
  wakeMs: number;
  wake: () => void;
}

export function createManualClock(startMs = Date.UTC(2030, 0, 1)): ManualClock {
  let nowMs = startMs;
  const sleepers = new Set<Sleeper>();
  return {
    nowMs: () => nowMs,
    advance: (ms) => {
      nowMs += ms;
      for (const sleeper of sleepers) if (sleeper.wakeMs <= nowMs) sleeper.wake();
    },
    sleep: (ms, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const sleeper = { wakeMs: nowMs + ms, wake: resolve };
      const onAbort = () => reject(signal?.reason);
      sleepers.add(sleeper);
      if (signal?.aborted) onAbort();
      else if (ms <= 0) resolve();
      signal?.addEventListener('abort', onAbort, { once: true });
      return promise.finally(() => {
        sleepers.delete(sleeper);
        signal?.removeEventListener('abort', onAbort);
      });
    },
  };
}

/** A clock with the same time on which no sleep ever ends: a process whose timers are late. */
export function withoutTimers(clock: Clock): Clock {
  return {
    nowMs: () => clock.nowMs(),
    sleep: (_ms, signal) =>
      new Promise((_resolve, reject) => {
        if (signal?.aborted) reject(signal.reason);
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      }),
  };
}
