/**
 * What is wrong with a source's webhooks by the service's own word: its list of webhooks, and its log of deliveries. What
 * comes to the webhook endpoint proves nothing of that, because anybody can send it.
 */
import { type ListedWebhook, listBridgeWebhooks } from './list-webhooks.ts';
import { readDeliveries, type ShownAttempt } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';
import type { WebhookFault } from './webhook-looks.ts';

/** A receiver that is started anew may miss one or two. */
const failuresMany = 3;

/**
 * Returns the worst fault of the webhooks that this bridge has registered, or null. With `signing_keys` in the settings
 * also of those that were made by hand, which go to `url`. Throws AppError as the client does.
 */
export async function findWebhookFault(deps: WebhookDeps, url: string): Promise<WebhookFault | null> {
  const { webhooks } = await listBridgeWebhooks(deps);
  return faultOfListed(deps, webhooks, url);
}

/** As `findWebhookFault`, of webhooks that were listed already. */
export async function faultOfListed(
  { client, source }: Pick<WebhookDeps, 'client' | 'source'>,
  webhooks: readonly ListedWebhook[],
  url: string,
): Promise<WebhookFault | null> {
  const isByHand = (webhook: ListedWebhook) =>
    webhook.key === 'none' && webhook.url === url && source.signing_keys.length > 0;
  const faults: WebhookFault[] = [];
  for (const webhook of webhooks) {
    if (webhook.uuid === null || !(webhook.key === 'current' || isByHand(webhook))) continue;
    const attempts = webhook.service === 'gone' ? [] : await attemptsOf(client, webhook.uuid);
    const fault = faultOf(webhook, attempts);
    if (fault) faults.push({ uuid: webhook.uuid, url: webhook.url, ...fault });
  }
  return faults.find(({ kind }) => kind !== 'failing') ?? faults[0] ?? null;
}

/** The newest first. */
async function attemptsOf(client: WebhookDeps['client'], uuid: string): Promise<ShownAttempt[]> {
  const deliveries = (await readDeliveries(client, uuid)) ?? [];
  return deliveries.flatMap(({ attempts = [] }) => attempts).sort((a, b) => (a.time < b.time ? 1 : -1));
}

function faultOf(
  { service }: ListedWebhook,
  attempts: readonly ShownAttempt[],
): Omit<WebhookFault, 'uuid' | 'url'> | undefined {
  if (service === 'gone') return { kind: 'gone', why: null, status: null, since: null };
  const accepted = attempts.findIndex(({ error }) => (error ?? null) === null);
  const failed = accepted === -1 ? attempts : attempts.slice(0, accepted);
  const [newest] = failed;
  const said = { why: newest?.error ?? null, status: newest?.status ?? null };
  if (service === 'off') return { kind: 'off', ...said, since: newest?.time ?? null };
  if (failed.length < failuresMany) return undefined;
  return { kind: 'failing', ...said, since: failed.at(-1)?.time ?? null };
}
