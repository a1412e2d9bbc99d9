/** What is left of the sources' quotas: for the status, the metrics, and the throttle of notifications. */

import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { sourceLimit } from './source-limit.ts';
import { limitNameOf } from './sql-quotas.ts';

export interface QuotaLeft {
  readonly source: string;
  /** Which limit the requests count against: `feeds.awards`, `suppliers`. */
  readonly bucket: string;
  readonly window: 'burst' | 'sustained';
  /** Requests that may be sent now. */
  readonly left: number;
  /** The source has refused a request: until then nothing is sent to it. */
  readonly pausedUntil: Timestamp | undefined;
}

/**
 * Returns the buckets that were used within their longest window. A bucket that is not listed has its full quota, or is
 * not limited.
 */
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
    const limit = settings && sourceLimit(settings, limitNameOf(bucket));
    if (!limit) return [];
    const window = seconds === limit.burst.seconds ? 'burst' : 'sustained';
    const left = Math.max(0, limit[window].requests - (used ?? 0));
    return [{ source, bucket, window, left, pausedUntil: until ?? undefined }];
  });
}
