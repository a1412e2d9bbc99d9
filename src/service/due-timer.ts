/**
 * Wakes a lane's work on time. What is due stands in SQL, where the sweep finds it after any crash. But the sweep runs
 * only every few seconds, so each process also sleeps until the next work becomes due. When this timer fails, the sweep
 * does the work later.
 */
import { microsFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { Signals } from '#platform/queue.ts';
import type { SweptLane } from '#platform/sweep.ts';

/** A timer of Node's takes no more than 24 days, so a long wait is done in pieces. */
const waitMaxMs = 3_600_000;

export interface DueTimer {
  /** Call it when due times have changed: it ends the wait and looks for the next due time again. */
  lookAgain: () => void;
  /** Ends the wait. */
  close: () => Promise<void>;
}

/** Starts to wait at once. `nextMoment` returns the first moment after `now` at which something becomes due. */
export function createDueTimer(
  deps: SweptLane & {
    nextMoment: (now: Timestamp) => Promise<Timestamp | undefined>;
    signals: Pick<Signals, 'wakeHere'>;
    clock: Clock;
    log: Logger;
  },
): DueTimer {
  const { lane, due, nextMoment, signals, clock, log } = deps;
  const closing = new AbortController();
  let waiting = new AbortController();

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      waiting = new AbortController();
      const signal = AbortSignal.any([waiting.signal, closing.signal]);
      const waitMs = await wakeDue();
      await clock.sleep(waitMs, signal).catch(() => undefined);
    }
  }

  /**
   * Wakes what is due and returns how long to wait for the next due time. While the database is down it returns the
   * longest wait; the first sweep that reaches the database again has the timer look again.
   */
  async function wakeDue(): Promise<number> {
    try {
      // In this order: what becomes due between the two statements is found by the second.
      const moment = await nextMoment(timestampNow(clock));
      signals.wakeHere(lane, await due());
      if (moment === undefined) return waitMaxMs;
      // The moment may have passed while the database was asked what is due: then the wait is 0.
      return Math.min(waitMaxMs, Math.max(0, Math.ceil(microsFromTimestamp(moment) / 1000) - clock.nowMs()));
    } catch (error) {
      log.warn({ lane, error: errorText(error) }, "could not read a lane's next due time");
      return waitMaxMs;
    }
  }

  const running = run();
  return {
    lookAgain: () => waiting.abort(),
    async close() {
      closing.abort();
      await running;
    },
  };
}
