/**
 * The sweep: at a fixed interval a process asks SQL what is due for its own lanes, and works it. Wake-ups may be lost at any
 * moment: what the sweep finds is enough to continue all work.
 */
import { setInterval } from 'node:timers';
import { errorText } from './errors.ts';
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
  /** Stops, after the lane that is being swept: the next start sweeps the others. */
  close(): Promise<void>;
}

/**
 * Sweeps now and every `everyMs`, never twice at a time. A lane that fails is tried again by the next sweep. While sweeps
 * fail, each failure is logged once: a database that is away is one line, and its return another.
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
  /** The failures since the last sweep in which all lanes worked. */
  const told = new Set<string>();
  const tell = (lane: string, error: unknown) => {
    const text = errorText(error);
    if (told.has(text)) return;
    told.add(text);
    log.warn(
      { lane, error: text },
      'a sweep failed; the next ones try again, and the same failure is not logged again',
    );
  };
  /** Sweeps every lane, also when others fail; returns the errors. */
  const sweepOnce = async (): Promise<unknown[]> => {
    const failures: unknown[] = [];
    const attempt = async (lane: string, work: () => Promise<void>) => {
      if (isClosing) return;
      try {
        await work();
      } catch (err) {
        failures.push(err);
        tell(lane, err);
      }
    };
    for (const lane of lanes) await attempt(lane.lane, () => sweepLane(lane));
    if (options.also) await attempt('housekeeping', options.also);
    if (failures.length === 0 && told.size > 0) {
      told.clear();
      log.info('sweeps work again');
    }
    return failures;
  };
  let latest: Promise<unknown[]> = Promise.resolve([]);
  let running = 0;
  let isClosing = false;
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
      isClosing = true;
      clearInterval(timer);
      await latest;
    },
  };
}
