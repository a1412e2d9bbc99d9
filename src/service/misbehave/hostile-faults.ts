/** The faults of a misbehaving source: which one a request meets, by the chances of its quirks. */
import type { FeedQuirks } from './feed-quirks.ts';
import type { Fraction } from './hostile-versions.ts';

export type Fault =
  | { readonly what: 'cut' }
  | { readonly what: 'refused'; readonly status: number; readonly headers: Record<string, string> }
  | { readonly what: 'instead'; readonly body: string; readonly note: string }
  | { readonly what: 'truncated' }
  | { readonly what: 'slow'; readonly delayMs: number };

/** Returns the fault that this request meets; undefined: none. */
export function pickFault(quirks: FeedQuirks, random: Fraction): Fault | undefined {
  if (random() < quirks.cut) return { what: 'cut' };
  if (random() < quirks.tooMany) {
    const headers: Record<string, string> =
      random() < quirks.retryAfter ? { 'retry-after': String(1 + Math.floor(random() * 20)) } : {};
    return { what: 'refused', status: 429, headers };
  }
  if (random() < quirks.serverError)
    return { what: 'refused', status: [500, 502, 503][Math.floor(random() * 3)] ?? 500, headers: {} };
  if (random() < quirks.errorBody)
    return { what: 'instead', body: '{"error":"upstream timed out"}', note: 'an error with status 200' };
  if (random() < quirks.truncated) return { what: 'truncated' };
  if (random() < quirks.nothing)
    return { what: 'instead', body: '{"data":[],"next":null}', note: 'no rows, although there are some' };
  if (quirks.slow > 0 && random() < quirks.slow) return { what: 'slow', delayMs: Math.ceil(random() * quirks.slowMs) };
  return undefined;
}
