const dayMs = 24 * 60 * 60 * 1000;

/**
 * Reads `Retry-After`, in seconds or as an HTTP date, as milliseconds from `nowMs`, at most a day. Undefined when the
 * header is missing or cannot be read.
 */
export function readRetryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, dayMs);
  // Date.parse also accepts texts that are no HTTP dates: it reads "-5" as a year, and the wait would be 0.
  const dateMs = /^[A-Z][a-z]{2,8}, .+ GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(dateMs) ? undefined : Math.min(Math.max(0, dateMs - nowMs), dayMs);
}
