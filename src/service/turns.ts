/**
 * Fair turns of organisations in a lane. An organisation's work is one queue of its own, and may be endless. So a worker
 * works on it for one turn, then puts its key back behind the keys that wait, and goes on with the next one.
 *
 * Example with one worker: A has 1,000 jobs of 100 ms, and B gets one. With turns of 250 ms the worker runs three jobs of
 * A, then the one of B, and then A's again.
 */
import type { Clock } from '#platform/clock.ts';
import type { Signals, Work } from '#platform/queue.ts';
import type { ServiceLane } from './unit-of-work.ts';

/** Does the next piece of work of a key; returns false when there is none. */
export type WorkOnNext = (key: string, signal: AbortSignal) => Promise<boolean>;

/**
 * Creates the worker of a lane: it works on a key until nothing is left, or until the piece in which the turn ends. Then
 * it wakes the key, which is worked again after those that wait.
 */
export function inTurns(
  { signals, clock }: { signals: Pick<Signals, 'wakeHere'>; clock: Pick<Clock, 'nowMs'> },
  { lane, turnMs }: { lane: ServiceLane; turnMs: number },
  workOnNext: WorkOnNext,
): Work {
  return async (key, signal) => {
    const beganMs = clock.nowMs();
    while (!signal.aborted && (await workOnNext(key, signal))) {
      // A clock that was set back ends the turn, too.
      const isOver = Math.abs(clock.nowMs() - beganMs) >= turnMs;
      if (!isOver || signal.aborted) continue;
      signals.wakeHere(lane, [key]);
      return;
    }
  };
}
