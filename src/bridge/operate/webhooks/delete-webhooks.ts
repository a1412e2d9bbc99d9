import { readOwnWebhooks, retire } from '#bridge/receive/webhook-store.ts';
import { timestampNow } from '#platform/clock.ts';
import { cleanUpWebhooks } from './make-webhook.ts';
import { findServiceWebhook, listIfOffered } from './webhook-api.ts';
import { type WebhookDeps, withWebhookLock } from './webhook-deps.ts';

/**
 * Deletes the source's webhooks that this bridge has registered, or the webhook with this UUID, even if it was made
 * elsewhere. From then on the feeds are read only on schedule. Returns the UUIDs of the deleted webhooks. If it fails,
 * running it again deletes the rest.
 */
export async function deleteWebhooks(deps: WebhookDeps, uuid?: string): Promise<string[]> {
  const { client, source, database, clock } = deps;
  return withWebhookLock(deps, async () => {
    const own = await readOwnWebhooks(database, source.name);
    const chosen = own.filter((webhook) => webhook.secret !== null && (uuid === undefined || webhook.uuid === uuid));
    const ids = chosen.map(({ id }) => id);
    await retire(database, ids, timestampNow(clock));
    const foreign =
      uuid === undefined || chosen.length > 0 ? undefined : await findServiceWebhook(client, uuid, undefined);
    if (foreign) await client.deleteWebhook(foreign.uuid);
    const deleted = await cleanUpWebhooks(deps, await listIfOffered(client));
    return foreign ? [foreign.uuid, ...deleted] : deleted;
  });
}
