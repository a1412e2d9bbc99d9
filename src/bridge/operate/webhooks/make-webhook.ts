/**
 * Creates a webhook at the service and stores its key, and cleans up webhooks that are not needed any more. The process
 * may be killed at any line: an intent is committed before the service is asked, the key is committed together with the
 * retirement of the webhooks that it replaces, and those are deleted only after that.
 */
import { randomUUID } from 'node:crypto';
import {
  deleteIntents,
  insertIntent,
  markDeleted,
  markFeedsDue,
  type OwnWebhook,
  readOwnWebhooks,
  retire,
  storeKey,
} from '#bridge/receive/webhook-store.ts';
import type { Webhook } from '#client/webhook-calls.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createAtService, type Topic } from './webhook-api.ts';
import { authenticationOf, topicsOf, type WebhookDeps } from './webhook-deps.ts';

const triesMax = 3;

export interface MadeWebhook {
  readonly uuid: string;
  readonly name: string;
  readonly url: string;
  /**
   * What it does not announce, because the service refuses the triggers: such feeds are only polled, and the ends of jobs
   * are not noticed.
   */
  readonly unannounced: readonly Topic[];
}

/**
 * Creates a webhook with this name and URL. When this resolves, every receiver accepts its key, and `replaced` are
 * retired. Resolves to undefined when the service refuses one for `topicsMin` topics, and nothing has changed then. Throws
 * AppError: `invalid` with the service's text when the service refuses; `unavailable` when it is unknown whether the
 * webhook was created: then the next call, or `cleanUpWebhooks`, deletes it.
 */
export async function makeWebhook(
  deps: WebhookDeps,
  { name, url, topicsMin = 1 }: { name: string; url: string; topicsMin?: number },
  replaced: readonly OwnWebhook[],
): Promise<MadeWebhook | undefined> {
  const { client, source, database, secrets, clock } = deps;
  const topics = topicsOf(deps);
  const request = { name, url, topics, authentication: authenticationOf(source) };
  const own = await readOwnWebhooks(database, source.name);
  // The service may recognise the id of an earlier intent, as its idempotency key.
  const intents = own
    .filter((webhook) => webhook.secret === null && webhook.name === name && webhook.url === url)
    .map(({ id }) => id);
  for (let tries = 0; tries < triesMax + own.length; tries += 1) {
    const earlier = intents.pop();
    const id = earlier ?? (await newIntent(deps, name, url));
    const created = await createAtService(client, request, { id, topicsMin }).catch(async (error: unknown) => {
      if (!(error instanceof AppError) || error.recovery.do === 'retry') throw error;
      // The earlier request under this id was a different one: the topics or the credentials have changed since.
      if (error.code === 'conflict' && earlier !== undefined) return 'another' as const;
      // The service refused the request, so no webhook was created for the intent.
      await deleteIntents(database, [id]);
      throw error;
    });
    if (created === 'another') continue;
    if (created === undefined) {
      await deleteIntents(database, [id]);
      return undefined;
    }
    if (created.signing_key !== undefined) {
      const { uuid, signing_key: signingKey, topics: announced } = created;
      await database.transaction(async (tx) => {
        await storeKey(tx, secrets, { id, uuid, signingKey });
        const ids = replaced.map((webhook) => webhook.id);
        await retire(tx, ids, timestampNow(clock));
      });
      return { uuid, name, url, unannounced: topics.filter((topic) => !announced.includes(topic)) };
    }
    // The service shows a key only once, and that answer was lost: no receiver could check this webhook's signatures.
    await client.deleteWebhook(created.uuid);
    await deleteIntents(database, [id]);
  }
  throw new AppError('unavailable', 'The service created webhooks, but did not show their keys. Run it again later.');
}

async function newIntent({ database, source, clock }: WebhookDeps, name: string, url: string): Promise<string> {
  const id = randomUUID();
  await insertIntent(database, { id, source: source.name, name, url }, timestampNow(clock));
  return id;
}

/**
 * Deletes webhooks that are not needed any more: retired ones, and those of the service whose key was lost (they have
 * the name and URL of a webhook or an intent of this bridge, but their UUID is unknown). All feeds become due, as these
 * webhooks may have had changes to announce. `listed` are the webhooks that the service had before the newest was
 * created; undefined when the service has no list. Returns the UUIDs of the deleted webhooks. May be run again after
 * any failure.
 */
export async function cleanUpWebhooks(deps: WebhookDeps, listed: readonly Webhook[] | undefined): Promise<string[]> {
  const { client, source, database, clock } = deps;
  const own = await readOwnWebhooks(database, source.name);
  const deleted: string[] = [];
  for (const { id, uuid, retired, deleted: gone } of own) {
    if (retired === null || gone !== null || uuid === null) continue;
    await client.deleteWebhook(uuid);
    await database.transaction(async (tx) => {
      await markDeleted(tx, id, timestampNow(clock));
      await markFeedsDue(tx, source.name, timestampNow(clock));
    });
    deleted.push(uuid);
  }
  if (listed === undefined) return deleted;
  const known = new Set(own.flatMap(({ uuid, deleted: gone }) => (uuid === null || gone !== null ? [] : [uuid])));
  const targets = new Set(own.map(targetOf));
  for (const webhook of listed) {
    if (known.has(webhook.uuid) || !targets.has(targetOf(webhook))) continue;
    await client.deleteWebhook(webhook.uuid);
    await markFeedsDue(database, source.name, timestampNow(clock));
    deleted.push(webhook.uuid);
  }
  const intents = own.filter(({ secret }) => secret === null).map(({ id }) => id);
  await deleteIntents(database, intents);
  return deleted;
}

function targetOf({ name, url }: { name: string; url: string }): string {
  return JSON.stringify([name, url]);
}
