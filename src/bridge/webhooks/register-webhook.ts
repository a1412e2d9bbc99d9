import type { Webhook } from '#client/webhook-calls.ts';
import { timestampNow } from '#platform/clock.ts';
import { clearAway, type MadeWebhook, makeWebhook } from './make-webhook.ts';
import { announces, findServiceWebhook, listIfOffered } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';
import { withWebhookLock } from './webhook-lock.ts';
import { markDeleted, type OwnWebhook, readOwnWebhooks, retire } from './webhook-store.ts';

export interface Registration {
  readonly webhook: MadeWebhook;
  /** False: it stood already. */
  readonly made: boolean;
  /** The webhooks that were deleted at the service. */
  readonly deleted: readonly string[];
}

/**
 * Sees to it that the service has a webhook of this name to this URL, for the feeds that are read, whose key is known
 * here: one that stands already, or a new one. One that the service has switched off, or that announces other feeds, is
 * replaced. With `alone` the source's webhooks to other URLs go. Running it twice, or dying at any line, leaves one that
 * works. Throws AppError as `makeWebhook` does.
 */
export async function registerWebhook(
  deps: WebhookDeps,
  { name, url, alone = false }: { name: string; url: string; alone?: boolean },
): Promise<Registration> {
  const { source, database, clock } = deps;
  return withWebhookLock(deps, source.name, async () => {
    const own = await readOwnWebhooks(database, source.name);
    const listed = await listIfOffered(deps.client);
    const active = own.filter((one) => one.secret !== null && one.retired === null);
    const here = active.filter((one) => one.name === name && one.url === url);
    const standing = await findStanding(deps, here, listed);
    const others = active.filter((one) => one !== standing?.own && (alone || here.includes(one)));
    const webhook = standing?.webhook ?? (await makeWebhook(deps, { name, url }, others));
    if (standing) {
      const ids = others.map(({ id }) => id);
      await retire(database, ids, timestampNow(clock));
    }
    return { webhook, made: standing === undefined, deleted: await clearAway(deps, listed) };
  });
}

/** The newest of ours that the service still has, that it sends to, and that announces what is read. */
async function findStanding(
  { client, source, database, clock }: WebhookDeps,
  own: readonly OwnWebhook[],
  listed: readonly Webhook[] | undefined,
): Promise<{ own: OwnWebhook; webhook: MadeWebhook } | undefined> {
  for (const one of own.toReversed()) {
    const { uuid, name, url } = one;
    if (uuid === null) continue;
    const found = await findServiceWebhook(client, uuid, listed);
    if (!found) await markDeleted(database, one.id, timestampNow(clock));
    else if (found.is_active !== false && found.url === url && announces(found, source.feeds))
      return { own: one, webhook: { uuid, name, url } };
  }
  return undefined;
}
