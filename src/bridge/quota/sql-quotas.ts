/**
 * The quotas of one source, kept in SQL: all workers of all processes together stay within what the source allows,
 * whatever its clock says. A request counts from before it is sent until its window has passed since its answer; one
 * whose answer was never seen, because its process died, counts from the last time at which it can have arrived. So
 * wherever the source's own window lies, it holds no more requests than it allows.
 *
 * A refusal (429), which other users of the API key may have caused, stops all workers; after its time one request at a
 * time is sent until one is not refused.
 */
import type { Bucket, Quotas, QuotaUse } from '#client/quotas.ts';
import { longestWaitMs } from '#client/send-call.ts';
import { effectiveLimit, type LimitName } from '#contract/limits.ts';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { type Database, prepared } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { retrySchedules } from '../retry-schedules.ts';
import type { SourceSettings } from '../settings.ts';

/** Between the counting and the sending. A process that was stopped for longer in between counts again. */
const startMs = 5_000;

const takeQuota = prepared('select * from bridge.take_quota($1, $2, $3, $4, $5, $6, $7)');
const pauseQuota = prepared('select * from bridge.pause_quota($1, $2, $3, $4, $5, $6, $7)');
/** Only the pause that the request was sent after: another refusal may have come since. */
const endPause = prepared('delete from bridge.quota_pauses where source = $1 and bucket = $2 and since <= $3');

/** Of each quota: the rest is for what has to be quick. */
const backgroundShare = 0.75;

/** With `background` it lets through only as long as a quarter of the quota is left for others. */
export function createSqlQuotas(deps: {
  source: SourceSettings;
  database: Database;
  clock: Clock;
  background?: boolean;
}): Quotas {
  const { source, database, clock, background = false } = deps;
  const holdMs = startMs + source.timeout_seconds * 1000;
  /** By bucket, what the next statement reports as ended. Lost with the process, which counts for longer then. */
  const ended = new Map<Bucket, Timestamp[]>();

  async function tryToTake(bucket: Bucket, askedMs: number): Promise<{ waitMs: number | null; probing: boolean }> {
    const limit = effectiveLimit(source.quotas, limitNameOf(bucket));
    const windows = limit ? [limit.burst, limit.sustained] : [];
    // Not put back when the statement fails: it may have taken effect, and reporting twice would count too little.
    const report = ended.get(bucket) ?? [];
    ended.delete(bucket);
    const [row] = await database.query<{ wait_ms: number | null; probing: boolean }>(takeQuota, [
      source.name,
      bucket,
      timestampFromMs(askedMs),
      timestampFromMs(askedMs + holdMs),
      windows.map(({ requests }) => (background ? Math.max(1, Math.floor(requests * backgroundShare)) : requests)),
      windows.map(({ seconds }) => seconds),
      report,
    ]);
    if (!row) throw new AppError('internal', 'A request was not counted.');
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
        // Should it fail, the next request tries once more whether the source answers.
        if (probing) await database.query(endPause, [source.name, bucket, taken]).catch(() => {});
      },
      async refused(retryAfterMs) {
        end();
        const now = timestampNow(clock);
        const { firstMs, mostMs } = retrySchedules.refusedRequest;
        const params = [source.name, bucket, taken, now, retryAfterMs ?? null, firstMs, mostMs];
        // Without the database nothing is sent anyway.
        const rows = await database.query<{ wait_ms: number }>(pauseQuota, params).catch(() => []);
        return rows[0]?.wait_ms ?? Math.max(retryAfterMs ?? 0, firstMs);
      },
    };
  }

  return {
    async take(bucket, signal) {
      const untilMs = clock.nowMs() + longestWaitMs;
      let late = false;
      for (;;) {
        signal?.throwIfAborted();
        const askedMs = clock.nowMs();
        const { waitMs, probing } = await tryToTake(bucket, askedMs);
        if (waitMs === null) {
          const tookMs = clock.nowMs() - askedMs;
          if (tookMs <= startMs) return useOf(bucket, askedMs, probing);
          // Once: a database that is always so slow would count the quota away, and nothing would be sent.
          if (late) throw tooSlow(bucket, tookMs);
          late = true;
          continue;
        }
        if (clock.nowMs() + waitMs > untilMs) throw spent(source.name, bucket, waitMs);
        await clock.sleep(waitMs, signal);
      }
    },
  };
}

/** The row of the table of limits. */
export function limitNameOf(bucket: string): LimitName {
  return (bucket.startsWith('feeds.') ? 'feeds' : bucket) as LimitName;
}

function tooSlow(bucket: Bucket, tookMs: number): AppError {
  return new AppError(
    'unavailable',
    `The database took ${Math.ceil(tookMs / 1000)} s to count a request of the kind ${bucket}: it is not sent. Look at the database's load.`,
  );
}

function spent(source: string, bucket: Bucket, waitMs: number): AppError {
  return new AppError(
    'too-many',
    `The source "${source}" allows no further request of the kind ${bucket} for the next ${Math.ceil(waitMs / 1000)} s.`,
    { recovery: { do: 'retry', afterMs: waitMs } },
  );
}
