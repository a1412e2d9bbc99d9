/** What the webhook commands need, and which URL and authentication a source's webhook gets. */
import type { BridgeSettings, SourceSettings } from '#bridge/settings/settings.ts';
import type { WebhookCalls } from '#client/webhook-calls.ts';
import type { WebhookAuthentication } from '#contract/webhook.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { withLock } from '#platform/database/lock.ts';
import { AppError } from '#platform/errors.ts';
import { hostInUrl } from '#platform/http/url-host.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { Topic } from './webhook-api.ts';
import { forgetLook } from './webhook-looks.ts';

export interface WebhookDeps {
  /** The client of the source; its API key needs the scope webhooks. */
  readonly client: WebhookCalls;
  readonly source: SourceSettings;
  /** Whether the webhook announces the ends of jobs, too: a flow of the source takes them as documents. */
  readonly jobs?: boolean;
  readonly database: Database;
  readonly secrets: SecretBox;
  readonly clock: Clock;
}

const lockWaitMs = 30_000;

/**
 * Runs `work` while no other command changes the webhooks of this source: of two commands at once, each would take the
 * other's new webhook for one whose key was lost. Throws AppError `conflict` when another command holds the lock for more
 * than 30 seconds.
 */
export function withWebhookLock<T>({ database, source }: WebhookDeps, work: () => Promise<T>): Promise<T> {
  const held = new AppError(
    'conflict',
    `Another command is changing the webhooks of the source "${source.name}". Run this one again when it has ended.`,
  );
  return withLock(database, { name: `webhooks ${source.name}`, waitMs: lockWaitMs, held }, async () => {
    const result = await work();
    await forgetLook(database, source.name);
    return result;
  });
}

/** Returns what the source's webhook announces. */
export function topicsOf({ source, jobs = false }: Pick<WebhookDeps, 'source' | 'jobs'>): Topic[] {
  return [...source.feeds, ...(jobs ? (['jobs'] as const) : [])];
}

/** Returns the URL under which the service reaches this bridge: `https://<public_host>:<port>/webhooks/<source>`. */
export function webhookUrlOf(settings: Pick<BridgeSettings, 'public_host' | 'port'>, source: string): string {
  return `https://${hostInUrl(settings.public_host)}:${settings.port}/webhooks/${source}`;
}

/**
 * Returns how the service gets bearer tokens for the source's webhook; undefined when the source requires none. Throws
 * AppError `invalid` when the settings do not say how.
 */
export function authenticationOf({
  name,
  bearer,
}: Pick<SourceSettings, 'name' | 'bearer'>): WebhookAuthentication | undefined {
  if (bearer === undefined) return undefined;
  const parameters = bearer.token_request;
  if (parameters === undefined)
    throw new AppError(
      'invalid',
      `The source "${name}" requires bearer tokens. Say how the service gets them: set bearer.token_request.`,
    );
  return { type: 'OAUTH_CLIENT_CREDENTIALS', parameters };
}
