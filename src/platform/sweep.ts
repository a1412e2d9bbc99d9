/**
 * The sweep: at a fixed interval a process asks SQL what is due for its own lanes, and works it. Wake-ups may be lost at any
 * moment: what the sweep finds is enough to continue all work.
 */
import { setInterval } from 'node:timers';
import type { Logger } from './log.ts';
import type { Signals } from './queue.ts';

export interface SweptLane {
  lane: string;
  /** The keys that have something due now. */
  due: () => Promise<string[]>;
}

export interface Sweep {
  /** Sweeps once more, after the sweep that is running; rejects with the first error. */
  now(): Promise<void>;
  /** Stops, after the sweep that is running. */
  close(): Promise<void>;
}

/**
 * Sweeps now and every `everyMs`, never twice at a time. A lane that fails is logged, and the next sweep tries again.
 */
export function createSweep(options: {
  signals: Signals;
  lanes: readonly SweptLane[];
  everyMs: number;
  log: Logger;
  /** Housekeeping that runs after the lanes in each sweep. */
  also?: () => Promise<void>;
}): Sweep {
  const { signals, lanes, log } = options;
  const sweepLane = async ({ lane, due }: SweptLane) => {
    signals.wakeHere(lane, await due());
  };
  /** Sweeps every lane, also when others fail; returns the errors. */
  const sweepOnce = async (): Promise<unknown[]> => {
    const failures: unknown[] = [];
    const attempt = async (lane: string, work: () => Promise<void>) => {
      try {
        await work();
      } catch (err) {
        failures.push(err);
        log.warn({ err, lane }, 'a sweep failed');
      }
    };
    for (const lane of lanes) await attempt(lane.lane, () => sweepLane(lane));
    if (options.also) await attempt('housekeeping', options.also);
    return failures;
  };
  let latest: Promise<unknown[]> = Promise.resolve([]);
  let running = 0;
  const enqueue = (): Promise<unknown[]> => {
    running += 1;
    latest = latest.then(sweepOnce).finally(() => {
      running -= 1;
    });
    return latest;
  };
  const timer = setInterval(() => {
    if (running === 0) void enqueue();
  }, options.everyMs);
  void enqueue();
  return {
    now: async () => {
      const [failure] = await enqueue();
      if (failure !== undefined) throw failure;
    },
    close: async () => {
      clearInterval(timer);
      await latest;
    },
  };
}
