/**
 * The quotas of one source, kept in SQL: all workers of all processes together stay within what the source allows,
 * whatever its clock says. A request counts from before it is sent until its window has passed since its answer. A
 * request whose answer was never seen, because its process died, counts from the last time at which the source can have
 * received it. So wherever the source's own window lies, it contains no more requests than the source allows.
 *
 * A refusal (429) stops all workers; other users of the API key may have caused it. After the pause one request at a
 * time is sent, until the source answers one.
 */

import { retrySchedules } from '#bridge/settings/retry-schedules.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { Bucket, Quotas, QuotaUse } from '#client/quotas.ts';
import { longestWaitMs } from '#client/send-call.ts';
import type { LimitName, Window } from '#contract/limits.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { prepared } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { sourceLimit } from './source-limit.ts';

/** A request is sent within this time after it was counted; a process that was paused for longer counts it again. */
const sendWithinMs = 5_000;

const takeQuota = prepared('select * from bridge.take_quota($1, $2, $3, $4, $5, $6, $7)');
const pauseQuota = prepared('select * from bridge.pause_quota($1, $2, $3, $4, $5, $6, $7)');
/** Ends only the pause after which the request was sent: another refusal may have come since. */
const endPause = prepared('delete from bridge.quota_pauses where source = $1 and bucket = $2 and since <= $3');

/** The share of each quota that background work may use: the rest is left for the live pull. */
const backgroundShare = 0.75;
/**
 * The share of a burst quota that background work gets in any case, once it was refused for the quota's whole window: a
 * live pull that would use all of the quota would otherwise keep a backfill from ever ending.
 */
const assuredShare = 0.2;

/** With `background`, requests wait while less than a quarter of the quota would be left for others, but not for ever. */
export function createSqlQuotas(deps: {
  source: SourceSettings;
  database: Database;
  clock: Clock;
  background?: boolean;
}): Quotas {
  const { source, database, clock, background = false } = deps;
  const holdMs = sendWithinMs + source.timeout_seconds * 1000;
  /** The requests that the next statement reports as ended, by bucket. If the process dies, they count for longer. */
  const ended = new Map<Bucket, Timestamp[]>();
  /** Of background work that was refused: from when on a request may use all of the burst quota, by bucket. */
  const assuredFromMs = new Map<Bucket, number>();

  /** Sets when background work is assured its next request, after it was let through or refused. */
  function setAssured(bucket: Bucket, burst: Window, { askedMs, taken }: { askedMs: number; taken: boolean }) {
    const fromMs = assuredFromMs.get(bucket);
    const windowMs = burst.seconds * 1000;
    if (!taken) assuredFromMs.set(bucket, fromMs ?? askedMs + windowMs);
    else if (fromMs === undefined || askedMs < fromMs) assuredFromMs.delete(bucket);
    else assuredFromMs.set(bucket, askedMs + windowMs / Math.max(1, burst.requests * assuredShare));
  }

  async function tryToTake(bucket: Bucket, askedMs: number): Promise<{ waitMs: number | null; probing: boolean }> {
    const limit = sourceLimit(source, limitNameOf(bucket));
    const windows = limit ? [limit.burst, limit.sustained] : [];
    const isAssured = askedMs >= (assuredFromMs.get(bucket) ?? Number.POSITIVE_INFINITY);
    const mostOf = (window: Window) =>
      background && !(isAssured && window === limit?.burst)
        ? Math.max(1, Math.floor(window.requests * backgroundShare))
        : window.requests;
    // A failed statement may have taken effect. The report is not repeated then: that would count too little.
    const report = ended.get(bucket) ?? [];
    ended.delete(bucket);
    const [row] = await database.query<{ wait_ms: number | null; probing: boolean }>(takeQuota, [
      source.name,
      bucket,
      timestampFromMs(askedMs),
      timestampFromMs(askedMs + holdMs),
      windows.map(mostOf),
      windows.map(({ seconds }) => seconds),
      report,
    ]);
    if (!row) throw new AppError('internal', 'A request was not counted.');
    if (background && limit) setAssured(bucket, limit.burst, { askedMs, taken: row.wait_ms === null });
    return { waitMs: row.wait_ms, probing: row.probing };
  }

  function useOf(bucket: Bucket, askedMs: number, probing: boolean): QuotaUse {
    const taken = timestampFromMs(askedMs);
    const end = () => {
      const list = ended.get(bucket) ?? [];
      list.push(timestampFromMs(askedMs + holdMs));
      ended.set(bucket, list);
    };
    return {
      async answered() {
        end();
        // If this fails, the next request is a probe again.
        if (probing) await database.query(endPause, [source.name, bucket, taken]).catch(() => {});
      },
      async refused(retryAfterMs) {
        end();
        const now = timestampNow(clock);
        const { firstMs, mostMs } = retrySchedules.refusedRequest;
        const params = [source.name, bucket, taken, now, retryAfterMs ?? null, firstMs, mostMs];
        // While the database is away, no request can be counted, so none is sent.
        const rows = await database.query<{ wait_ms: number }>(pauseQuota, params).catch(() => []);
        return rows[0]?.wait_ms ?? Math.max(retryAfterMs ?? 0, firstMs);
      },
    };
  }

  return {
    async take(bucket, signal) {
      const untilMs = clock.nowMs() + longestWaitMs;
      let wasTooSlow = false;
      for (;;) {
        signal?.throwIfAborted();
        const askedMs = clock.nowMs();
        const { waitMs, probing } = await tryToTake(bucket, askedMs);
        if (waitMs === null) {
          const tookMs = clock.nowMs() - askedMs;
          if (tookMs <= sendWithinMs) return useOf(bucket, askedMs, probing);
          // Only once: a database that is always so slow would use up the quota without a request.
          if (wasTooSlow) throw tooSlow(bucket, tookMs);
          wasTooSlow = true;
          continue;
        }
        if (clock.nowMs() + waitMs > untilMs) throw spent(source.name, bucket, waitMs);
        await clock.sleep(waitMs, signal);
      }
    },
  };
}

/** The limit that a bucket counts against, as the API document names it. */
export function limitNameOf(bucket: string): LimitName {
  return (bucket.startsWith('feeds.') ? 'feeds' : bucket) as LimitName;
}

function tooSlow(bucket: Bucket, tookMs: number): AppError {
  return new AppError(
    'unavailable',
    `The database took ${Math.ceil(tookMs / 1000)} s to count a request of the kind ${bucket}, ` +
      "so the request is not sent. Check the database's load.",
  );
}

function spent(source: string, bucket: Bucket, waitMs: number): AppError {
  return new AppError(
    'too-many',
    `The source "${source}" allows no further request of the kind ${bucket} ` +
      `for the next ${Math.ceil(waitMs / 1000)} s.`,
    { recovery: { do: 'retry', afterMs: waitMs } },
  );
}
