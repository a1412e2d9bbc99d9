/**
 * The webhooks of a sourcing service, of this project or another one: hides where services differ because the API
 * document leaves something open. Source: API document, "Webhooks"; the document does not show how webhooks are listed,
 * so a service may have no list.
 */
import type { Webhook, WebhookCalls, WebhookDelivery } from '#client/webhook-calls.ts';
import type { FeedName } from '#contract/feed.ts';
import {
  feedOfTrigger,
  feedTriggers,
  jobTrigger,
  type Trigger,
  triggerNameElsewhere,
  type WebhookAuthentication,
} from '#contract/webhook.ts';
import { AppError } from '#platform/errors.ts';

/** What a webhook announces: the changes of a feed, or the ends of jobs. */
export type Topic = FeedName | 'jobs';

export interface WebhookRequest {
  readonly name: string;
  readonly url: string;
  readonly topics: readonly Topic[];
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

/** One attempt to deliver a notification, as the service's log of deliveries shows it. */
export type ShownAttempt = NonNullable<WebhookDelivery['attempts']>[number];

const deliveriesLooked = 20;

/** Returns the webhook's latest notifications with their attempts, the newest first; undefined where the service has no such log. */
export async function readDeliveries(client: WebhookCalls, uuid: string): Promise<WebhookDelivery[] | undefined> {
  try {
    return (await client.listDeliveries(uuid, { pageSize: deliveriesLooked })).items;
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

/** A webhook that was created, with what it announces. */
export type CreatedAtService = Awaited<ReturnType<WebhookCalls['createWebhook']>> & { readonly topics: Topic[] };

/**
 * Creates a webhook for these topics, or for those of them whose triggers the service knows. `id` is the idempotency key:
 * a service that supports it returns the same webhook again, but shows the signing key only the first time. Throws
 * AppError with the service's text; `conflict` when the id was used for another request. Example: a service that calls
 * the awards' trigger AWARD_FEED_UPDATED, and has none of latest bids:
 *
 *     SOURCING_EVENTS_.., LATEST_BIDS_.., AWARDS_FEED_UPDATED    400: "AWARDS_FEED_UPDATED" is not a valid choice
 *     SOURCING_EVENTS_.., LATEST_BIDS_.., AWARD_FEED_UPDATED     400: "LATEST_BIDS_FEED_UPDATED" is not a valid choice
 *     SOURCING_EVENTS_.., AWARD_FEED_UPDATED                     201
 *
 * Where no answer says which trigger is refused, fewer and fewer are tried. `topicsMin`: rather none than fewer; then
 * undefined is returned.
 */
export async function createAtService(
  client: WebhookCalls,
  { name, url, topics, authentication }: WebhookRequest,
  { id, topicsMin = 1 }: { id: string; topicsMin?: number },
): Promise<CreatedAtService | undefined> {
  let left = candidatesOf(topics).filter((candidate) => candidate.topics.length >= topicsMin);
  let refusal: AppError | undefined;
  for (let candidate = left.shift(); candidate !== undefined; candidate = left.shift()) {
    const { triggers, key } = candidate;
    try {
      const created = await client.createWebhook(
        // Some services call a trigger by a name that the contract does not have.
        { name, url, triggers: triggers as Trigger[], ...(authentication ? { authentication } : {}) },
        `${id}${key}`,
      );
      return { ...created, topics: candidate.topics };
    } catch (error) {
      if (!isRefusal(error) || error.code !== 'invalid') throw error;
      // Of several refusals the first is the useful one: it is about what was wanted.
      refusal ??= error;
      const refused = refusedIn(error.publicMessage, triggers);
      if (refused === undefined) break;
      const isDoubtful = (other: Candidate) => other.triggers.some((trigger) => refused.includes(trigger));
      left = [...left.filter((other) => !isDoubtful(other)), ...left.filter(isDoubtful)];
    }
  }
  if (refusal === undefined || topicsMin > 1) return undefined;
  throw refusal;
}

interface Candidate {
  readonly topics: Topic[];
  readonly triggers: readonly string[];
  /** The end of its idempotency key: another body needs another key. */
  readonly key: string;
}

/** What can be asked for, the most topics first; of each choice of topics also by the names that other services use. */
function candidatesOf(topics: readonly Topic[]): Candidate[] {
  const chosen = topics.reduce<Topic[][]>((some, topic) => [...some, ...some.map((each) => [...each, topic])], [[]]);
  const ordered = chosen.filter((each) => each.length > 0).sort((a, b) => b.length - a.length);
  const named = ordered.flatMap((each) => {
    const triggers = each.map((topic): string => triggerOf(topic));
    const others = each.map((topic) => triggerNameElsewhere(triggerOf(topic)));
    const isSame = others.every((other, index) => other === triggers[index]);
    return isSame
      ? [{ topics: each, triggers }]
      : [
          { topics: each, triggers },
          { topics: each, triggers: others },
        ];
  });
  return named.map((candidate, index) => ({ ...candidate, key: index === 0 ? '' : `-${index}` }));
}

/**
 * Which of the triggers a refusal names, by their place (`triggers[2]`, `triggers.2`) or their name; none where it does
 * not say. Undefined when it is about something else.
 */
function refusedIn(text: string, triggers: readonly string[]): string[] | undefined {
  const words = new Set(text.match(/\w{1,60}_UPDATED\b/g));
  const places = [...text.matchAll(/\btriggers(?:\.|\[)(\d+)/g)].flatMap(([, place]) => triggers[Number(place)] ?? []);
  if (places.length > 0) return places;
  // A name that was not sent is one of those that could be: then the names say nothing.
  const isList = [...words].some((word) => !triggers.includes(word));
  if (words.size > 0) return isList ? [] : [...words];
  return /trigger/i.test(text) || text.endsWith('was answered with 400.') ? [] : undefined;
}

function triggerOf(topic: Topic): Trigger {
  return topic === 'jobs' ? jobTrigger : feedTriggers[topic];
}

/** What a webhook with these triggers announces; undefined for a trigger of nothing that the bridge reads. */
export function announcedTopics(triggers: string): (Topic | undefined)[] {
  return triggers
    .replaceAll(/[[\]"']/g, '')
    .split(',')
    .map((given) => {
      const trigger = given.trim();
      return trigger === jobTrigger ? 'jobs' : feedOfTrigger(trigger);
    });
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.recovery.do !== 'retry';
}
