/** What was found out of tokens, kept for a short while: the service sends the same one with many notifications. */
import { createHash } from 'node:crypto';
import type { Clock } from '#platform/clock.ts';

/** Whether it is good, and until when (milliseconds since 1970) that may be believed. */
export interface Verdict {
  readonly good: boolean;
  readonly untilMs: number;
}

const keptMax = 1_000;

/**
 * Gives the kept verdict, or asks `judge`: once for each token, however many wait for the answer. What `judge` throws
 * goes to all who wait, and is not kept.
 */
export function createVerdicts(clock: Clock, judge: (token: string) => Promise<Verdict>) {
  // Not under the tokens themselves: they are secrets, and need not lie about.
  const kept = new Map<string, Verdict & { readonly sinceMs: number }>();
  const underWay = new Map<string, Promise<Verdict>>();

  async function find(id: string, token: string): Promise<Verdict> {
    try {
      const verdict = await judge(token);
      const sinceMs = clock.nowMs();
      kept.set(id, { ...verdict, sinceMs });
      for (const [other, { untilMs }] of kept) if (untilMs <= sinceMs || kept.size > keptMax) kept.delete(other);
      return verdict;
    } finally {
      underWay.delete(id);
    }
  }

  return async (token: string): Promise<boolean> => {
    const id = createHash('sha256').update(token).digest('base64');
    const known = kept.get(id);
    const nowMs = clock.nowMs();
    // Not for longer when the clock was set back.
    if (known && known.sinceMs <= nowMs && nowMs < known.untilMs) return known.good;
    const asked = underWay.get(id) ?? find(id, token);
    underWay.set(id, asked);
    return (await asked).good;
  };
}
