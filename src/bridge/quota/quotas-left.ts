/** What is left of the sources' quotas, for the status and the metrics. */
import { effectiveLimit } from '#contract/limits.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { SourceSettings } from '../settings.ts';
import { limitNameOf } from './sql-quotas.ts';

export interface QuotaLeft {
  readonly source: string;
  /** `feeds.awards`, `suppliers`. */
  readonly bucket: string;
  readonly window: 'burst' | 'sustained';
  /** Requests that may be sent now. */
  readonly left: number;
  /** The source has refused a request, and is left alone until then. */
  readonly pausedUntil: Timestamp | undefined;
}

/** Of what was used within the longest window; a bucket that is not in the answer is full, or is not counted. */
export async function readQuotasLeft(
  sql: Sql,
  sources: readonly SourceSettings[],
  now: Timestamp,
): Promise<QuotaLeft[]> {
  const rows = await sql.query<{
    source: string;
    bucket: string;
    seconds: number;
    used: number | null;
    until: Timestamp | null;
  }>(
    `select u.source, u.bucket, u.seconds, p.until,
       sum(u.used) filter (where u.slot > $1::timestamptz - bridge.quota_stay(u.seconds)) as used
     from bridge.quota_uses u
     left join bridge.quota_pauses p on p.source = u.source and p.bucket = u.bucket and p.until > $1
     group by u.source, u.bucket, u.seconds, p.until order by u.source, u.bucket, u.seconds`,
    [now],
  );
  return rows.flatMap(({ source, bucket, seconds, used, until }) => {
    const settings = sources.find(({ name }) => name === source);
    const limit = settings && effectiveLimit(settings.quotas, limitNameOf(bucket));
    if (!limit) return [];
    const window = seconds === limit.burst.seconds ? 'burst' : 'sustained';
    const left = Math.max(0, limit[window].requests - (used ?? 0));
    return [{ source, bucket, window, left, pausedUntil: until ?? undefined }];
  });
}
