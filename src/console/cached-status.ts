/**
 * The status for any number of viewers: requests during a read, or soon after it, get the same status. Who has changed
 * something sees it at once: after `forget`, no status is returned whose read began before.
 */
import type { BridgeStatus } from '#bridge/operate/status/status.ts';
import type { Clock } from '#platform/clock.ts';

const freshMs = 500;
/**
 * A status that took long to read is kept longer, so that viewers cost the database a tenth of one connection at most.
 */
const keptFactor = 10;

export interface CachedStatus {
  /** Reads the status, or returns the last one while it is fresh. A failed read is not kept. */
  readonly read: () => Promise<BridgeStatus>;
  readonly forget: () => void;
}

export function cacheStatus(read: () => Promise<BridgeStatus>, clock: Clock): CachedStatus {
  let latest: { readonly status: Promise<BridgeStatus>; untilMs: number } | undefined;
  const begin = () => {
    const startedMs = clock.nowMs();
    const begun = { status: read(), untilMs: Number.POSITIVE_INFINITY };
    latest = begun;
    begun.status.then(
      () => {
        const tookMs = clock.nowMs() - startedMs;
        begun.untilMs = clock.nowMs() + Math.max(freshMs, keptFactor * tookMs);
      },
      () => {
        begun.untilMs = Number.NEGATIVE_INFINITY;
      },
    );
    return begun.status;
  };
  return {
    read: () => (latest !== undefined && clock.nowMs() < latest.untilMs ? latest.status : begin()),
    forget: () => {
      latest = undefined;
    },
  };
}
