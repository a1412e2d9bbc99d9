/** When a failed notification is tried again, and what a receiver's answer means. Source: decisions, "Webhooks". */

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const steps = [5 * second, 30 * second, 2 * minute, 10 * minute, 30 * minute, hour, 2 * hour, 4 * hour, 8 * hour];

/** Nothing is tried again later than this after its first try. */
export const givenUpAfterMs = 72 * hour;
/** A webhook that has failed for this long is disabled. */
export const disabledAfterMs = 120 * hour;
export const exchangeMs = 15 * second;
export const responseBytesMax = 64 * 1024;

/**
 * The wait after the given number of failed tries (1 or more), with +-20 % jitter; never shorter than the receiver's
 * `Retry-After`. `random` gives 0 to 1.
 */
export function retryDelayMs(failures: number, retryAfterMs: number | undefined, random: () => number): number {
  const step = steps[Math.min(failures, steps.length) - 1] ?? 8 * hour;
  return Math.max(Math.round(step * (0.8 + 0.4 * random())), retryAfterMs ?? 0);
}
