/**
 * When a failed notification is sent again, when it is given up, and when its webhook is disabled.
 * Source: decisions, "Webhooks".
 */

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** The wait that repeats when the table is used up. */
const lastRetryDelayMs = 8 * hour;

/** The wait in milliseconds after the first, the second, ... failed attempt. */
const retryDelaysMs = [
  5 * second,
  30 * second,
  2 * minute,
  10 * minute,
  30 * minute,
  hour,
  2 * hour,
  4 * hour,
  lastRetryDelayMs,
];

/** A notification is given up when its next attempt would be later than this after its first attempt. */
export const givenUpAfterMs = 72 * hour;

/** A webhook is disabled when every attempt of this long has failed. */
export const disabledAfterMs = 120 * hour;

/**
 * The wait in milliseconds after so many failed attempts (1 or more), with a jitter of 20 % up or down. It is never
 * shorter than the receiver's `Retry-After`. `random` returns 0 to 1.
 */
export function retryDelayMs(failures: number, retryAfterMs: number | undefined, random: () => number): number {
  const delayMs = retryDelaysMs[Math.min(failures, retryDelaysMs.length) - 1] ?? lastRetryDelayMs;
  return Math.max(Math.round(delayMs * (0.8 + 0.4 * random())), retryAfterMs ?? 0);
}

/**
 * How long a webhook gets nothing: the longest `Retry-After` that its receiver has answered with, and up to a fifth more,
 * so that not all that wait for a receiver come at one moment. Undefined: the receiver has named no time.
 */
export function heldForMs(retryAfterMs: readonly (number | undefined)[], random: () => number): number | undefined {
  const longestMs = Math.max(0, ...retryAfterMs.map((each) => each ?? 0));
  return longestMs === 0 ? undefined : Math.round(longestMs * (1 + 0.2 * random()));
}
