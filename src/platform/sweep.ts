/**
 * The sweep: every so often it asks SQL what is due and signals it. The queue may lose everything at any moment; what
 * the sweep finds is all that is needed to go on.
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
  /** Sweeps once; rejects when the database is away. */
  now(): Promise<void>;
  /** Stops, after the sweep that is running. */
  close(): Promise<void>;
}

/** Sweeps now and every `everyMs`. One that fails is logged, and the next one tries again. */
export function createSweep(options: {
  signals: Signals;
  lanes: readonly SweptLane[];
  everyMs: number;
  log: Logger;
  /** Housekeeping that comes along. */
  also?: () => Promise<void>;
}): Sweep {
  const { signals, lanes, log } = options;
  const sweepOnce = async () => {
    for (const { lane, due } of lanes) {
      const keys = await due();
      if (keys.length > 0) await signals.signal(lane, keys);
    }
    await options.also?.();
  };
  let running: Promise<void> | undefined;
  const run = () => {
    running ??= sweepOnce()
      .catch((err: unknown) => log.warn({ err }, 'sweep failed'))
      .finally(() => {
        running = undefined;
      });
  };
  const timer = setInterval(run, options.everyMs);
  run();
  return {
    now: sweepOnce,
    close: async () => {
      clearInterval(timer);
      await running;
    },
  };
}
