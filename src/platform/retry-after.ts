const mostMs = 24 * 60 * 60 * 1000;

/** `Retry-After` as milliseconds, from seconds or an HTTP date; undefined where it is missing or unreadable. At most a day. */
export function readRetryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, mostMs);
  // Date.parse alone takes much for a date that is none: -5 would be a year, and "now" its wait.
  const dateMs = /^[A-Z][a-z]{2,8}, .+ GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : Math.min(Math.max(0, dateMs - nowMs), mostMs);
}
