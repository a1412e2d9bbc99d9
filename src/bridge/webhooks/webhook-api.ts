/**
 * The webhooks of a sourcing service, ours or somebody else's: what the document leaves open is made one here. Source: API
 * document, "Webhooks"; listing them is "not shown" there, so that it may be missing.
 */
import type { Webhook, WebhookCalls } from '#client/webhook-calls.ts';
import type { FeedName } from '#contract/feed.ts';
import { feedOfTrigger, feedTriggers, type Trigger, triggerElsewhere, type WebhookAuthentication } from '#contract/webhook.ts';
import { AppError } from '#platform/errors.ts';

export interface WebhookRequest {
  readonly name: string;
  readonly url: string;
  readonly feeds: readonly FeedName[];
  readonly authentication: WebhookAuthentication | undefined;
}

/** All webhooks; undefined where the service has no such list. A key that may not look is another matter, and throws. */
export async function listIfOffered(client: WebhookCalls): Promise<Webhook[] | undefined> {
  try {
    return await client.listWebhooks();
  } catch (error) {
    if (isRefusal(error) && (error.code === 'not-found' || error.code === 'invalid')) return undefined;
    throw error;
  }
}

/** The webhook of this UUID; undefined when it is gone. `listed` is asked where there is a list. */
export async function findServiceWebhook(
  client: WebhookCalls,
  uuid: string,
  listed: readonly Webhook[] | undefined,
): Promise<Webhook | undefined> {
  if (listed) return listed.find((one) => one.uuid === uuid);
  try {
    return await client.readWebhook(uuid);
  } catch (error) {
    if (isRefusal(error) && error.code === 'not-found') return undefined;
    throw error;
  }
}

/**
 * Makes a webhook. The same id gives the same one where the service heeds idempotency keys; the key that signs is shown
 * the first time only. Throws AppError with the service's words; `conflict` when the id was used for another request.
 */
export async function createAtService(
  client: WebhookCalls,
  { name, url, feeds, authentication }: WebhookRequest,
  id: string,
): ReturnType<WebhookCalls['createWebhook']> {
  const createWith = (triggers: string[], idempotencyKey: string) =>
    client.createWebhook(
      // The name that is not in our contract is the reason for the second try.
      { name, url, triggers: triggers as Trigger[], ...(authentication ? { authentication } : {}) },
      idempotencyKey,
    );
  const triggers = feeds.map((feed): string => feedTriggers[feed]);
  try {
    return await createWith(triggers, id);
  } catch (error) {
    const otherNames = feeds.map((feed) => triggerElsewhere(feed) ?? feedTriggers[feed]);
    const areSame = otherNames.every((name, index) => name === triggers[index]);
    if (!isRefusal(error) || error.code !== 'invalid' || areSame) throw error;
    return createWith(otherNames, `${id}-other-name`).catch((second: unknown) => {
      // What a service says of a name that it does not know is of no use to anybody.
      throw isRefusal(second) && second.code === 'invalid' ? error : second;
    });
  }
}

/** Whether the webhook announces these feeds, and no others. */
export function announces({ triggers }: Webhook, feeds: readonly FeedName[]): boolean {
  const given = triggers.replace(/^\[|\]$/g, '').split(/\s*,\s*/);
  return new Set<FeedName | undefined>(feeds).symmetricDifference(new Set(given.map(feedOfTrigger))).size === 0;
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.recovery.do !== 'retry';
}
