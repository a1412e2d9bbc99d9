import { markDeleted, type OwnWebhook, readOwnWebhooks, retire } from '#bridge/receive/webhook-store.ts';
import type { Webhook } from '#client/webhook-calls.ts';
import { timestampNow } from '#platform/clock.ts';
import { cleanUpWebhooks, type MadeWebhook, makeWebhook } from './make-webhook.ts';
import { announcedTopics, findServiceWebhook, listIfOffered } from './webhook-api.ts';
import { topicsOf, type WebhookDeps, withWebhookLock } from './webhook-deps.ts';

export interface Registration {
  readonly webhook: MadeWebhook;
  /** False when the webhook existed already. */
  readonly made: boolean;
  /** The webhooks that were deleted at the service. */
  readonly deleted: readonly string[];
}

/**
 * Makes sure that the service has a webhook with this name and URL for the feeds and jobs that are read, and that its key is
 * known here: an existing webhook, or a new one. A webhook that the service has switched off, or that announces something
 * else, is replaced; one that announces fewer only when the service now takes more. With `alone`, the source's webhooks
 * to other URLs are deleted. After it was run twice, or killed at any line and run again, exactly one webhook works.
 * Throws AppError as `makeWebhook` does.
 */
export async function registerWebhook(
  deps: WebhookDeps,
  { name, url, alone = false }: { name: string; url: string; alone?: boolean },
): Promise<Registration> {
  const { source, database, clock } = deps;
  return withWebhookLock(deps, async () => {
    const own = await readOwnWebhooks(database, source.name);
    const listed = await listIfOffered(deps.client);
    const active = own.filter(({ secret, retired }) => secret !== null && retired === null);
    const candidates = active.filter((webhook) => webhook.name === name && webhook.url === url);
    const existing = await findWorking(deps, candidates, listed);
    const replaceable = active.filter((each) => alone || candidates.includes(each));
    const topics = topicsOf(deps);
    const missing = existing?.webhook.unannounced.length ?? topics.length;
    const topicsMin = topics.length - missing + 1;
    const better = missing === 0 ? undefined : await makeWebhook(deps, { name, url, topicsMin }, replaceable);
    const webhook = better ?? existing?.webhook;
    // Without an existing one a single topic is enough, and less is an error.
    if (webhook === undefined) throw new TypeError('no webhook was made');
    if (better === undefined) {
      const ids = replaceable.filter((other) => other !== existing?.own).map(({ id }) => id);
      await retire(database, ids, timestampNow(clock));
    }
    return { webhook, made: better !== undefined, deleted: await cleanUpWebhooks(deps, listed) };
  });
}

/**
 * Returns the newest of these webhooks that the service still has and uses, and that announces what is read and nothing
 * else.
 */
async function findWorking(
  deps: WebhookDeps,
  own: readonly OwnWebhook[],
  listed: readonly Webhook[] | undefined,
): Promise<{ own: OwnWebhook; webhook: MadeWebhook } | undefined> {
  const { client, database, clock } = deps;
  const topics = topicsOf(deps);
  for (const candidate of own.toReversed()) {
    const { uuid, name, url } = candidate;
    if (uuid === null) continue;
    const found = await findServiceWebhook(client, uuid, listed);
    if (!found) await markDeleted(database, candidate.id, timestampNow(clock));
    else if (found.is_active !== false && found.url === url) {
      const announced = announcedTopics(found.triggers);
      const unannounced = topics.filter((topic) => !announced.includes(topic));
      const hasForeign = announced.some((topic) => topic === undefined || !topics.includes(topic));
      if (!hasForeign) return { own: candidate, webhook: { uuid, name, url, unannounced } };
    }
  }
  return undefined;
}
