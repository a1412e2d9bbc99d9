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

/**
 * Reads from the headers of a refused request when its limit is free again, in milliseconds: `t` of those limits in
 * `RateLimit` of which nothing is left (draft-ietf-httpapi-ratelimit-headers-10), else `RateLimit-Reset` of earlier
 * drafts. Both are seconds. Undefined when neither says it, or when it is more than a day: that is no number of seconds.
 */
export function readRateLimitMs(headers: Readonly<Record<string, string | undefined>>): number | undefined {
  const spent = (headers['ratelimit'] ?? '').split(',').filter((limit) => /;\s*r=0\s*(;|$)/.test(limit));
  const waits = spent.flatMap((limit) => /;\s*t=(\d+)\s*(;|$)/.exec(limit)?.[1] ?? []);
  const earlier = /^\s*(\d+)\s*$/.exec(headers['ratelimit-reset'] ?? '')?.[1];
  const ms = Math.max(...(waits.length > 0 ? waits : [earlier]).map((seconds) => Number(seconds) * 1000));
  return ms <= dayMs ? ms : undefined;
}
