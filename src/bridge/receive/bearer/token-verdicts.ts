/** A cache of checked tokens, for a short time: the service sends the same token with many notifications. */
import { createHash } from 'node:crypto';
import type { Clock } from '#platform/clock.ts';

/** Whether a token is valid, and until when (milliseconds since 1970) that may be cached. */
export interface Verdict {
  readonly isValid: boolean;
  readonly untilMs: number;
}

const cachedMax = 1_000;

/**
 * Returns a check that answers from the cache, or calls `judge`: once for each token, however many callers wait for it.
 * When `judge` rejects, all waiting callers are rejected, and nothing is cached.
 */
export function createVerdicts(clock: Clock, judge: (token: string) => Promise<Verdict>) {
  // Under the hashes of the tokens: the tokens themselves are secrets and need not stay in memory.
  const cached = new Map<string, Verdict & { readonly sinceMs: number }>();
  const running = new Map<string, Promise<Verdict>>();

  async function judgeAndCache(id: string, token: string): Promise<Verdict> {
    try {
      const verdict = await judge(token);
      const sinceMs = clock.nowMs();
      cached.set(id, { ...verdict, sinceMs });
      for (const [cachedId, { untilMs }] of cached)
        if (untilMs <= sinceMs || cached.size > cachedMax) cached.delete(cachedId);
      return verdict;
    } finally {
      running.delete(id);
    }
  }

  return async (token: string): Promise<boolean> => {
    const id = createHash('sha256').update(token).digest('base64');
    const known = cached.get(id);
    const nowMs = clock.nowMs();
    // If the clock was set back, a verdict from the future is not used: it would be cached for too long.
    if (known && known.sinceMs <= nowMs && nowMs < known.untilMs) return known.isValid;
    const verdict = running.get(id) ?? judgeAndCache(id, token);
    running.set(id, verdict);
    return (await verdict).isValid;
  };
}
