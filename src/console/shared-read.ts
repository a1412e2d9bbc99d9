/**
 * One read for any number of viewers: requests during it, or soon after it, get the same result. Who has changed something
 * sees it at once: after `forget`, nothing is returned whose read began before.
 */
import type { Clock } from '#platform/clock.ts';

/** What took long to read is kept longer, so that viewers cost a tenth of one connection at most. */
const keptFactor = 10;

export interface SharedRead<T> {
  /** Reads, or returns what was read last while it is fresh. A failed read is not kept. */
  readonly read: () => Promise<T>;
  readonly forget: () => void;
}

/** Shares `read`; its result is fresh for `freshMs` (500), and for ten times as long as the read took. */
export function shareRead<T>(read: () => Promise<T>, clock: Clock, freshMs = 500): SharedRead<T> {
  let latest: { readonly result: Promise<T>; untilMs: number } | undefined;
  const begin = () => {
    const startedMs = clock.nowMs();
    const begun = { result: read(), untilMs: Number.POSITIVE_INFINITY };
    latest = begun;
    begun.result.then(
      () => {
        const tookMs = clock.nowMs() - startedMs;
        begun.untilMs = clock.nowMs() + Math.max(freshMs, keptFactor * tookMs);
      },
      () => {
        begun.untilMs = Number.NEGATIVE_INFINITY;
      },
    );
    return begun.result;
  };
  return {
    read: () => (latest !== undefined && clock.nowMs() < latest.untilMs ? latest.result : begin()),
    forget: () => {
      latest = undefined;
    },
  };
}
