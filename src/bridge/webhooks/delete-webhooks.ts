import { timestampNow } from '#platform/clock.ts';
import { clearAway } from './make-webhook.ts';
import { findServiceWebhook, listIfOffered } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';
import { withWebhookLock } from './webhook-lock.ts';
import { readOwnWebhooks, retire } from './webhook-store.ts';

/**
 * Deletes the source's webhooks that were registered here, or the one of this UUID, also one that somebody else has
 * made. The feeds are read by schedule from then on. Gives the deleted ones; running it again deletes what was left.
 */
export async function deleteWebhooks(deps: WebhookDeps, uuid?: string): Promise<string[]> {
  const { client, source, database, clock } = deps;
  return withWebhookLock(deps, source.name, async () => {
    const own = await readOwnWebhooks(database, source.name);
    const going = own.filter((one) => one.secret !== null && (uuid === undefined || one.uuid === uuid));
    const ids = going.map(({ id }) => id);
    await retire(database, ids, timestampNow(clock));
    const foreign =
      uuid === undefined || going.length > 0 ? undefined : await findServiceWebhook(client, uuid, undefined);
    if (foreign) await client.deleteWebhook(foreign.uuid);
    const deleted = await clearAway(deps, await listIfOffered(client));
    return foreign ? [foreign.uuid, ...deleted] : deleted;
  });
}
