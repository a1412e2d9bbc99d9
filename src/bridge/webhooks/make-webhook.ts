/**
 * Makes a webhook at the service and keeps its key, and clears away what is not needed any more. Whatever line the
 * process dies at: an intent is committed before the service is asked, the key in one step with the retirement of what it
 * replaces, and a webhook is deleted only after that.
 */
import { randomUUID } from 'node:crypto';
import type { Webhook } from '#client/webhook-calls.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createAtService } from './webhook-api.ts';
import { authenticationOf, type WebhookDeps } from './webhook-deps.ts';
import {
  deleteIntents,
  insertIntent,
  markDeleted,
  markFeedsDue,
  type OwnWebhook,
  readOwnWebhooks,
  retire,
  storeKey,
} from './webhook-store.ts';

const triesMax = 3;

export interface MadeWebhook {
  readonly uuid: string;
  readonly name: string;
  readonly url: string;
}

/**
 * A new webhook of this name to this URL, whose key every receiver takes when this resolves; `replaced` are retired with
 * it. Throws AppError: `invalid` with the service's words when it refuses, `unavailable` when it is not known whether the
 * webhook was made: the next call, or `clearAway`, deletes it then.
 */
export async function makeWebhook(
  deps: WebhookDeps,
  { name, url }: { name: string; url: string },
  replaced: readonly OwnWebhook[],
): Promise<MadeWebhook> {
  const { client, source, database, secrets, clock } = deps;
  const request = { name, url, feeds: source.feeds, authentication: authenticationOf(source, url) };
  const own = await readOwnWebhooks(database, source.name);
  // What became of an earlier intent, the service may know by its id.
  const intents = own.filter((one) => one.secret === null && one.name === name && one.url === url).map(({ id }) => id);
  for (let tries = 0; tries < triesMax + own.length; tries += 1) {
    const earlier = intents.pop();
    const id = earlier ?? (await newIntent(deps, name, url));
    const created = await createAtService(client, request, id).catch(async (error: unknown) => {
      if (!(error instanceof AppError) || error.recovery.do === 'retry') throw error;
      // Another request than this one was made under its id: the feeds, or the credentials, have changed since.
      if (error.code === 'conflict' && earlier !== undefined) return undefined;
      // Refused: nothing came of the intent.
      await deleteIntents(database, [id]);
      throw error;
    });
    if (!created) continue;
    if (created.signing_key !== undefined) {
      const { uuid, signing_key: signingKey } = created;
      await database.transaction(async (tx) => {
        await storeKey(tx, secrets, { id, uuid, signingKey });
        const ids = replaced.map((one) => one.id);
        await retire(tx, ids, timestampNow(clock));
      });
      return { uuid, name, url };
    }
    // The answer that showed its key never came here: nobody can check what it signs.
    await client.deleteWebhook(created.uuid);
    await deleteIntents(database, [id]);
  }
  throw new AppError('unavailable', 'The service made webhooks, but did not show the key of any. Run it again later.');
}

async function newIntent({ database, source, clock }: WebhookDeps, name: string, url: string): Promise<string> {
  const id = randomUUID();
  await insertIntent(database, { id, source: source.name, name, url }, timestampNow(clock));
  return id;
}

/**
 * Deletes what is not needed any more: retired webhooks, and those at the service whose key nobody has seen (they have
 * the name and URL of one of ours, or of an intent of which nothing else came). What they still had to announce is read
 * by the pulls that this makes due. `listed` is what the service had before the newest one was made; undefined where it
 * does not say. Gives the deleted ones. May be run again from any point.
 */
export async function clearAway(deps: WebhookDeps, listed: readonly Webhook[] | undefined): Promise<string[]> {
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
  const places = new Set(own.map(placeOf));
  for (const one of listed) {
    if (known.has(one.uuid) || !places.has(placeOf(one))) continue;
    await client.deleteWebhook(one.uuid);
    await markFeedsDue(database, source.name, timestampNow(clock));
    deleted.push(one.uuid);
  }
  const intents = own.filter(({ secret }) => secret === null).map(({ id }) => id);
  await deleteIntents(database, intents);
  return deleted;
}

function placeOf({ name, url }: { name: string; url: string }): string {
  return JSON.stringify([name, url]);
}
