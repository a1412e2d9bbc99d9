/**
 * Limits on the number of requests that one process sends to a target in a second and in a minute. All sessions with
 * the same target share one count, whichever flow or intake they belong to. Requests take their turns in the order in
 * which they ask.
 */
import type { Clock } from '#platform/clock.ts';

export interface RequestLimits {
  readonly perSecond?: number | undefined;
  readonly perMinute?: number | undefined;
}

/** The times of the newest turns of a target, the oldest first, also of those that are still to come. */
interface Turns {
  readonly takenMs: number[];
  keptMax: number;
  askedMs: number;
}

/** By clock and target: a process has one clock, and each test its own. */
const shared = new WeakMap<Clock, Map<string, Turns>>();

/** Requests do not all take equally long to arrive: those that leave a second apart may arrive in less. */
const jitterMs = 50;

/**
 * Returns the function that each request to the target calls before it is sent: it resolves when the request may go, and
 * rejects with the signal's reason when it is aborted first.
 */
export function requestTurns(
  target: string,
  { perSecond, perMinute }: RequestLimits,
  clock: Clock,
): (signal: AbortSignal) => Promise<void> {
  const ofClock = shared.get(clock) ?? new Map<string, Turns>();
  shared.set(clock, ofClock);
  const turns = ofClock.get(target) ?? { takenMs: [], keptMax: 0, askedMs: 0 };
  ofClock.set(target, turns);
  const windows = [
    { max: perSecond, ms: 1_000 + jitterMs },
    { max: perMinute, ms: 60_000 + jitterMs },
  ].flatMap(({ max, ms }) => (max === undefined ? [] : [{ max, ms }]));
  turns.keptMax = Math.max(turns.keptMax, ...windows.map(({ max }) => max));
  return async (signal) => {
    const nowMs = clock.nowMs();
    const { takenMs } = turns;
    // The clock was set back: what was taken before must not wait for it to catch up.
    const backMs = Math.max(0, turns.askedMs - nowMs);
    if (backMs > 0) takenMs.forEach((ms, index) => void (takenMs[index] = ms - backMs));
    turns.askedMs = nowMs;
    const turnMs = Math.max(nowMs, ...windows.map(({ max, ms }) => (takenMs.at(-max) ?? -Infinity) + ms));
    takenMs.push(turnMs);
    if (takenMs.length > turns.keptMax) takenMs.shift();
    if (turnMs > nowMs) await clock.sleep(turnMs - nowMs, signal);
  };
}
