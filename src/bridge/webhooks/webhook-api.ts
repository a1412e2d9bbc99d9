/**
 * The webhooks of a sourcing service, of this project or another one: hides where services differ because the API
 * document leaves something open. Source: API document, "Webhooks"; the document does not show how webhooks are listed,
 * so a service may have no list.
 */
import type { Webhook, WebhookCalls } from '#client/webhook-calls.ts';
import type { FeedName } from '#contract/feed.ts';
import {
  feedOfTrigger,
  feedTriggers,
  type Trigger,
  triggerElsewhere,
  type WebhookAuthentication,
} from '#contract/webhook.ts';
import { AppError } from '#platform/errors.ts';

export interface WebhookRequest {
  readonly name: string;
  readonly url: string;
  readonly feeds: readonly FeedName[];
  readonly authentication: WebhookAuthentication | undefined;
}

/**
 * Returns all webhooks; undefined when the service has no such list. Throws AppError for other failures, also when the
 * API key may not list them.
 */
export async function listIfOffered(client: WebhookCalls): Promise<Webhook[] | undefined> {
  try {
    return await client.listWebhooks();
  } catch (error) {
    if (isRefusal(error) && (error.code === 'not-found' || error.code === 'invalid')) return undefined;
    throw error;
  }
}

/**
 * Returns the webhook with this UUID, from `listed` if there is a list; undefined when the service does not have it.
 */
export async function findServiceWebhook(
  client: WebhookCalls,
  uuid: string,
  listed: readonly Webhook[] | undefined,
): Promise<Webhook | undefined> {
  if (listed) return listed.find((webhook) => webhook.uuid === uuid);
  try {
    return await client.readWebhook(uuid);
  } catch (error) {
    if (isRefusal(error) && error.code === 'not-found') return undefined;
    throw error;
  }
}

/**
 * Creates a webhook. `id` is the idempotency key: a service that supports it returns the same webhook again, but shows
 * the signing key only the first time. Throws AppError with the service's text; `conflict` when the id was used for
 * another request.
 */
export async function createAtService(
  client: WebhookCalls,
  { name, url, feeds, authentication }: WebhookRequest,
  id: string,
): ReturnType<WebhookCalls['createWebhook']> {
  const createWith = (triggers: string[], idempotencyKey: string) =>
    client.createWebhook(
      // Some services call a trigger by a name that the contract does not have: those names are the second try.
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
      // An error about the other names would confuse: the error of the first try is the useful one.
      throw isRefusal(second) && second.code === 'invalid' ? error : second;
    });
  }
}

/** Whether the webhook announces exactly these feeds. */
export function announces({ triggers }: Webhook, feeds: readonly FeedName[]): boolean {
  const announced = triggers
    .replace(/^\[|\]$/g, '')
    .split(/\s*,\s*/)
    .map(feedOfTrigger);
  return new Set<FeedName | undefined>(feeds).symmetricDifference(new Set(announced)).size === 0;
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.recovery.do !== 'retry';
}
