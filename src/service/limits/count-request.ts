/**
 * Rate limits. A request passes when fewer requests than the quota of its bucket have passed in the window that ends
 * with it; the burst window and the sustained window must both allow it. The count is exact: it is kept in SQL for each
 * API key, by all processes together, and survives a restart. Source: API document, "Limits"; decisions, "Feeds".
 *
 * Written by hand, because the maintained libraries (rate-limiter-flexible, the stores of express-rate-limit) count in
 * fixed windows, let twice the quota pass around a window's end, and count the requests that they refuse.
 */
import { effectiveLimit, type Limit, type LimitName } from '#contract/limits.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { CountedCall } from '#platform/http/endpoint.ts';
import type { KeyIdentity } from '../caller.ts';
import type { NamedWindow, Profile, WindowState } from '../profile/profile.ts';

/** Longer than the longest window, so that processes whose clocks differ do not delete each other's counts. */
const keptMicros = 25 * 3_600 * 1_000_000;

interface Counts {
  used: number[];
  free_ms: number[];
  wait_ms: number | null;
}

const count = prepared('select * from service.count_request($1, $2, $3, $4, $5)');

/**
 * Counts calls of endpoints that have a limit, and returns the refusal (`too-many`) of a call that exceeds it. Does not
 * query the database when the organisation's limits are off.
 */
export function createRequestCounter({
  database,
  clock,
  profile,
}: {
  database: Database;
  clock: Clock;
  profile: Pick<Profile, 'limits' | 'rateLimitHeaders'>;
}) {
  return async (
    { apiKeyId, limits }: Pick<KeyIdentity, 'apiKeyId' | 'limits'>,
    { limit: name, path }: { limit: LimitName; path: string },
  ): Promise<CountedCall> => {
    const limit = effectiveLimit(limits, name, profile.limits);
    if (!limit) return { headers: {} };
    const bucket = bucketOf(name, path);
    const windows = windowsOf(limit);
    const [counts] = await database.query<Counts>(count, [
      apiKeyId,
      bucket,
      timestampNow(clock),
      windows.map(({ requests }) => requests),
      windows.map(({ seconds }) => seconds),
    ]);
    if (!counts) throw new AppError('internal', 'A request was not counted.');
    const headers = profile.rateLimitHeaders(bucket, statesOf(windows, counts));
    return counts.wait_ms === null ? { headers } : { headers, refusal: refusalOf(windows, counts.wait_ms) };
  };
}

/** Deletes the counted requests that have left every window. */
export async function forgetOldRequests(sql: Sql, now: Timestamp): Promise<void> {
  await sql.query('delete from service.counted_requests where at < $1', [addMicros(now, -keptMicros)]);
}

/** A row of the contract's table of limits is one bucket, except that each feed has its own. */
function bucketOf(name: LimitName, path: string): string {
  return name === 'feeds' ? `feeds.${path.slice(path.lastIndexOf('/') + 1)}` : name;
}

function windowsOf({ burst, sustained }: Limit): NamedWindow[] {
  return [
    { name: 'burst', ...burst },
    { name: 'sustained', ...sustained },
  ];
}

function statesOf(windows: readonly NamedWindow[], counts: Counts): WindowState[] {
  const counted = counts.wait_ms === null ? 1 : 0;
  return windows.map((window, index) => ({
    ...window,
    remaining: Math.max(0, window.requests - (counts.used[index] ?? 0) - counted),
    resetSeconds: Math.ceil((counts.free_ms[index] ?? 0) / 1000),
  }));
}

function refusalOf(windows: readonly NamedWindow[], waitMs: number): AppError {
  const quotas = windows.map(({ requests, seconds }) => `${requests} in ${seconds} s`).join(' and ');
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new AppError(
    'too-many',
    `Too many requests: an API key may make ${quotas} of this kind. Wait ${seconds} s and send it again.`,
    { recovery: { do: 'retry', afterMs: waitMs } },
  );
}
