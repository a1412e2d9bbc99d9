import type { Webhook } from '#client/webhook-calls.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { findServiceWebhook, listIfOffered } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';
import { type OwnWebhook, readOwnWebhooks } from './webhook-store.ts';

/** A webhook as the service and this bridge see it. */
export interface ListedWebhook {
  readonly uuid: string | null;
  readonly name: string;
  readonly url: string;
  /** As the service writes them; null where it does not say. */
  readonly triggers: string | null;
  /** `active`, `off` (switched off by the service), `gone`, or `unknown` where the service cannot say. */
  readonly service: 'active' | 'off' | 'gone' | 'unknown';
  /**
   * What is known here of its key: `current`, `retired` (still good for a while), `unfinished` (it was about to be made),
   * or `none`: its notifications are taken only with a key of the settings.
   */
  readonly key: 'current' | 'retired' | 'unfinished' | 'none';
  readonly created: Timestamp | null;
}

/** Those of the service and those of this bridge, side by side, the bridge's first. Where there is no list, only ours. */
export async function listBridgeWebhooks(deps: WebhookDeps): Promise<{ webhooks: ListedWebhook[]; listable: boolean }> {
  const own = await readOwnWebhooks(deps.database, deps.source.name);
  const listed = await listIfOffered(deps.client);
  const webhooks: ListedWebhook[] = [];
  for (const one of own) {
    const { uuid, name, url, created, deleted } = one;
    const found = uuid === null || deleted !== null ? undefined : await findServiceWebhook(deps.client, uuid, listed);
    webhooks.push({
      uuid,
      name,
      url,
      triggers: found?.triggers ?? null,
      service: uuid === null ? 'unknown' : stateOf(found),
      key: keyOf(one),
      created,
    });
  }
  const known = new Set(own.map(({ uuid }) => uuid));
  for (const one of listed ?? []) {
    if (known.has(one.uuid)) continue;
    const { uuid, name, url, triggers } = one;
    webhooks.push({ uuid, name, url, triggers, service: stateOf(one), key: 'none', created: null });
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
