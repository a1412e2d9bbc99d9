import { AppError } from '#platform/errors.ts';
import { clearAway, type MadeWebhook, makeWebhook } from './make-webhook.ts';
import { listIfOffered } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';
import { withWebhookLock } from './webhook-lock.ts';
import { readOwnWebhooks } from './webhook-store.ts';

export interface Rotation {
  /** The new ones. */
  readonly webhooks: readonly MadeWebhook[];
  /** The webhooks that were deleted at the service. */
  readonly deleted: readonly string[];
}

/**
 * Gives each webhook of the source a new key, by the way of the API document, "Rotating a webhook signing key": a new
 * webhook with the same settings, then its key here, then the old one is deleted. What the old one still had to announce
 * goes with it, so all feeds are read at once; its key stays good for a while for what is under way. So nothing is
 * dropped, also when the process dies at any line: the next run finishes. Throws `not-found` when there is none.
 */
export async function rotateWebhooks(deps: WebhookDeps): Promise<Rotation> {
  const { source, database } = deps;
  return withWebhookLock(deps, source.name, async () => {
    const own = await readOwnWebhooks(database, source.name);
    const active = own.filter((one) => one.secret !== null && one.retired === null);
    if (active.length === 0)
      throw new AppError(
        'not-found',
        `The source "${source.name}" has no webhook that was registered here. Register one with: bridge webhooks register --source ${source.name}`,
      );
    const listed = await listIfOffered(deps.client);
    const places = Map.groupBy(active, ({ name, url }) => JSON.stringify([name, url]));
    const webhooks: MadeWebhook[] = [];
    for (const replaced of places.values()) {
      const [first] = replaced;
      if (first) webhooks.push(await makeWebhook(deps, first, replaced));
    }
    return { webhooks, deleted: await clearAway(deps, listed) };
  });
}
