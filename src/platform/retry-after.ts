/** `Retry-After` as milliseconds, from seconds or an HTTP date; undefined where it is missing or unreadable. At most a day. */
export function readRetryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(0, ms), 24 * 60 * 60 * 1000);
}
