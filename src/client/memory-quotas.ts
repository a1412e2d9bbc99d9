/**
 * The service's limits, counted in this process: enough for one program with a key of its own. A request waits for a
 * place of a few seconds; for a longer wait it is refused with that time, and the caller decides.
 */
import { type Limit, limits } from '#contract/limits.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Bucket, Quotas } from './quotas.ts';
import { longestWaitMs } from './send-call.ts';

/** A wait after 429 without a time from the service. */
const refusedDefaultMs = 1_000;

export function createMemoryQuotas(clock: Clock): Quotas {
  /** When the requests of each bucket were sent, the oldest first; those outside of the longest window are forgotten. */
  const sent = new Map<Bucket, number[]>();
  /** Until when the service wants no request. */
  const closed = new Map<Bucket, number>();

  function waitMs(bucket: Bucket, times: readonly number[], nowMs: number): number {
    const { burst, sustained } = limitOf(bucket);
    const waits = [burst, sustained].map(({ requests, seconds }) => {
      const first = times.at(-requests);
      return first === undefined ? 0 : first + seconds * 1_000 - nowMs;
    });
    return Math.max(0, (closed.get(bucket) ?? 0) - nowMs, ...waits);
  }

  return {
    take: async (bucket, signal) => {
      for (;;) {
        const nowMs = clock.nowMs();
        const keptFromMs = nowMs - limitOf(bucket).sustained.seconds * 1_000;
        const times = (sent.get(bucket) ?? []).filter((time) => time > keptFromMs);
        sent.set(bucket, times);
        const wait = waitMs(bucket, times, nowMs);
        if (wait <= 0) {
          times.push(nowMs);
          break;
        }
        if (wait > longestWaitMs)
          throw new AppError(
            'too-many',
            `The limit ${bucket} of the service is used up for ${Math.ceil(wait / 1_000)} s.`,
            {
              recovery: { do: 'retry', afterMs: wait },
            },
          );
        await clock.sleep(wait, signal);
      }
      return {
        answered: async () => undefined,
        refused: async (retryAfterMs = refusedDefaultMs) => {
          closed.set(bucket, clock.nowMs() + retryAfterMs);
          return retryAfterMs;
        },
      };
    },
  };
}

function limitOf(bucket: Bucket): Limit {
  return bucket.startsWith('feeds.') ? limits.feeds : limits[bucket as keyof typeof limits];
}
