/** What the checks of bearer tokens are, and stand on. */
import type { Clock } from '#platform/clock.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import type { SecretBox } from '#platform/secrets.ts';

/**
 * Whether the token is good now. Rejects with AppError `unavailable` when that cannot be told: the service is then to
 * send the notification again.
 */
export type BearerCheck = (token: string) => boolean | Promise<boolean>;

export interface BearerDeps {
  readonly fetch: GuardedFetch;
  readonly secrets: SecretBox;
  readonly clock: Clock;
}
