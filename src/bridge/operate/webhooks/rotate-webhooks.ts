import { readOwnWebhooks } from '#bridge/receive/webhook-store.ts';
import { AppError } from '#platform/errors.ts';
import { cleanUpWebhooks, type MadeWebhook, makeWebhook } from './make-webhook.ts';
import { listIfOffered } from './webhook-api.ts';
import { type WebhookDeps, withWebhookLock } from './webhook-deps.ts';

export interface Rotation {
  /** The new webhooks. */
  readonly webhooks: readonly MadeWebhook[];
  /** The webhooks that were deleted at the service. */
  readonly deleted: readonly string[];
}

/**
 * Gives each webhook of the source a new key, as the API document says in "Rotating a webhook signing key": it creates
 * a webhook with the same settings, stores its key, and then deletes the old webhook. No notification is lost: all
 * feeds become due, as the old webhook may have had changes to announce, and its key is accepted for a while, for
 * notifications that are on their way. If the process is killed at any line, the next run finishes. Throws AppError
 * `not-found` when this bridge has registered no webhook of the source.
 */
export async function rotateWebhooks(deps: WebhookDeps): Promise<Rotation> {
  const { source, database } = deps;
  return withWebhookLock(deps, async () => {
    const own = await readOwnWebhooks(database, source.name);
    const active = own.filter(({ secret, retired }) => secret !== null && retired === null);
    if (active.length === 0)
      throw new AppError(
        'not-found',
        `This bridge has registered no webhook of the source "${source.name}". ` +
          `Register one with: bridge webhooks register --source ${source.name}`,
      );
    const listed = await listIfOffered(deps.client);
    const byTarget = Map.groupBy(active, ({ name, url }) => JSON.stringify([name, url]));
    const webhooks: MadeWebhook[] = [];
    for (const replaced of byTarget.values()) {
      const [first] = replaced;
      const made = first && (await makeWebhook(deps, first, replaced));
      if (made) webhooks.push(made);
    }
    return { webhooks, deleted: await cleanUpWebhooks(deps, listed) };
  });
}
