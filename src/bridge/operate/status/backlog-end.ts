/** When a backlog of submissions will be through, by the limits of the service. Pure. */
import type { Limit } from '#contract/limits.ts';

/**
 * Returns after how many milliseconds the last of `submissions` can be sent, if none was sent lately. An estimate for
 * people: what the service has counted already is not known here.
 */
export function backlogEndMs(submissions: number, limit: Limit | undefined): number {
  if (limit === undefined || submissions <= 0) return 0;
  const after = ({ requests, seconds }: Limit['burst']) => (Math.ceil(submissions / requests) - 1) * seconds * 1000;
  return Math.max(after(limit.burst), after(limit.sustained));
}
