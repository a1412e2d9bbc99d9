import { type OwnWebhook, readOwnWebhooks } from '#bridge/receive/webhook-store.ts';
import type { Webhook } from '#client/webhook-calls.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { findServiceWebhook, listIfOffered } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';

/** A webhook, with what the service and this bridge know of it. */
export interface ListedWebhook {
  readonly uuid: string | null;
  readonly name: string;
  readonly url: string;
  /** The triggers as the service writes them; null when the service does not return them. */
  readonly triggers: string | null;
  /** `active`, `off` (switched off by the service), `gone`, or `unknown` when the service cannot be asked about it. */
  readonly service: 'active' | 'off' | 'gone' | 'unknown';
  /**
   * The state of its key in this bridge: `current`; `retired`, but still accepted for a while; `unfinished`: creating
   * the webhook was interrupted; `none`: its notifications are accepted only with a key of the settings.
   */
  readonly key: 'current' | 'retired' | 'unfinished' | 'none';
  readonly created: Timestamp | null;
}

/**
 * Returns the webhooks of this bridge, and then all other webhooks of the service. When the service does not list its
 * webhooks (`listable` false), only those of this bridge.
 */
export async function listBridgeWebhooks(deps: WebhookDeps): Promise<{ webhooks: ListedWebhook[]; listable: boolean }> {
  const own = await readOwnWebhooks(deps.database, deps.source.name);
  const listed = await listIfOffered(deps.client);
  const webhooks: ListedWebhook[] = [];
  for (const webhook of own) {
    const { uuid, name, url, created, deleted } = webhook;
    const found = uuid === null || deleted !== null ? undefined : await findServiceWebhook(deps.client, uuid, listed);
    webhooks.push({
      uuid,
      name,
      url,
      triggers: found?.triggers ?? null,
      service: uuid === null ? 'unknown' : stateOf(found),
      key: keyOf(webhook),
      created,
    });
  }
  const known = new Set(own.map(({ uuid }) => uuid));
  for (const webhook of listed ?? []) {
    if (known.has(webhook.uuid)) continue;
    const { uuid, name, url, triggers } = webhook;
    webhooks.push({ uuid, name, url, triggers, service: stateOf(webhook), key: 'none', created: null });
  }
  return { webhooks, listable: listed !== undefined };
}

function stateOf(found: Webhook | undefined): ListedWebhook['service'] {
  if (!found) return 'gone';
  return found.is_active === false ? 'off' : 'active';
}

function keyOf({ secret, retired }: OwnWebhook): ListedWebhook['key'] {
  if (secret === null) return 'unfinished';
  return retired === null ? 'current' : 'retired';
}
