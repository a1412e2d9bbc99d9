/**
 * Wakes a lane's work on time. What is due stands in SQL, where the sweep finds it after any crash; but a sweep comes
 * only every few seconds, so each process also waits for the next moment. What fails here is left to the sweep.
 */
import { microsFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from './clock.ts';
import { errorText } from './errors.ts';
import type { Logger } from './log.ts';
import type { Signals } from './queue.ts';
import type { SweptLane } from './sweep.ts';

/** Waits are cut into pieces: a timer of Node's takes no more than 24 days. */
const longestWaitMs = 3_600_000;

export interface DueTimer {
  /** To be called when the plan has changed: cuts the wait short and looks for the next moment again. */
  lookAgain: () => void;
  /** Ends the waiting. */
  close: () => Promise<void>;
}

/** Starts the waiting at once. `nextMoment` gives the first moment after `now` at which something becomes due. */
export function createDueTimer(
  deps: SweptLane & {
    nextMoment: (now: Timestamp) => Promise<Timestamp | undefined>;
    signals: Pick<Signals, 'signal'>;
    clock: Clock;
    log: Logger;
  },
): DueTimer {
  const { lane, due, nextMoment, signals, clock, log } = deps;
  const closing = new AbortController();
  let waiting = new AbortController();

  /** Wakes what is due and sleeps until the next moment. */
  async function waitForNext(): Promise<void> {
    while (!closing.signal.aborted) {
      waiting = new AbortController();
      const signal = AbortSignal.any([waiting.signal, closing.signal]);
      const waitMs = await look();
      await clock.sleep(waitMs, signal).catch(() => undefined);
    }
  }

  /** Gives how long to wait. Where the database is away, the next sweep that reaches it has it look again. */
  async function look(): Promise<number> {
    try {
      // In this order: what becomes due between the two is found by the second.
      const moment = await nextMoment(timestampNow(clock));
      await signals.signal(lane, await due());
      if (moment === undefined) return longestWaitMs;
      // Not at all, if it has passed while the database was asked what is due.
      return Math.min(longestWaitMs, Math.max(0, Math.ceil(microsFromTimestamp(moment) / 1000) - clock.nowMs()));
    } catch (error) {
      log.warn({ lane, error: errorText(error) }, 'the next moment of a lane is not known');
      return longestWaitMs;
    }
  }

  const keeping = waitForNext();
  return {
    lookAgain: () => waiting.abort(),
    async close() {
      closing.abort();
      await keeping;
    },
  };
}
