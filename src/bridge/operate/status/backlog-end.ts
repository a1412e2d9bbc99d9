/** When a backlog of submissions will be through, by the limits of the service. Pure. */
import type { Limit } from '#contract/limits.ts';

/**
 * Returns after how many milliseconds the last of `submissions` can be sent, from requests that are left now in the
 * short and the long window. An estimate for people: it takes used requests as if they were made evenly.
 */
export function backlogEndMs(
  submissions: number,
  limit: Limit | undefined,
  left: { burst: number; sustained: number },
) {
  if (limit === undefined || submissions <= 0) return 0;
  const after = (count: number, { requests, seconds }: Limit['burst']) =>
    count <= 0 ? 0 : Math.ceil(count / requests) * seconds * 1000;
  return Math.max(after(submissions - left.burst, limit.burst), after(submissions - left.sustained, limit.sustained));
}
