/** The interface of the checks of bearer tokens, and what they need. */
import type { Clock } from '#platform/clock.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';

/**
 * Returns whether the token is valid now. Rejects with AppError `unavailable` when that cannot be found out: the
 * service then sends the notification again.
 */
export type BearerCheck = (token: string) => boolean | Promise<boolean>;

export interface BearerDeps {
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
}
