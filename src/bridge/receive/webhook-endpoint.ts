/**
 * The webhook endpoint: POST /webhooks/{source}. The signature is checked over the raw bytes before anything is parsed;
 * the notification is committed before it is answered; the pull is woken after. Source: API document, "Authentication"
 * 2 and "Events".
 */
import type { Express, Request, Response } from 'express';
import type { FeedName } from '#contract/feed.ts';
import { signatureForm, signatureMatches } from '#contract/signature.ts';
import { feedOfTrigger, notification } from '#contract/webhook.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { parseJson, readBody } from '#platform/http/body.ts';
import { parseInput } from '#platform/input.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import { createSharedCommit } from './shared-commit.ts';
import { type ReceivedNotification, storeNotifications } from './store-notifications.ts';

export interface WebhookEndpointDeps {
  database: Database;
  clock: Clock;
  log: Logger;
  registry: Registry;
  bodyBytesMax: number;
  backlogMax: number;
  /** The keys that sign a source's notifications now; empty for a source that there is none of. */
  signingKeysOf: (source: string) => readonly string[];
  /** Whether this bridge reads the feed: a notification of another one is acknowledged, and asks for nothing. */
  readsFeed: (source: string, feed: FeedName) => boolean;
  /** Wakes the pull of a source's feed, after the commit. */
  wakePull: (source: string, feed: FeedName) => void;
}

const path = '/webhooks/:source';
const commitMax = 500;

/** Mounts the endpoint; `drain` resolves when everything taken is stored. */
export function mountWebhookEndpoint(app: Express, deps: WebhookEndpointDeps): { drain: () => Promise<void> } {
  const received = new Counter({
    name: 'bridge_notifications_total',
    help: 'Notifications that came to the webhook endpoint, by what became of them',
    labelNames: ['result'],
    registers: [deps.registry],
  });
  const commits = new Counter({
    name: 'bridge_inbox_commits_total',
    help: 'Commits that stored notifications; requests that arrive together share one',
    registers: [deps.registry],
  });
  const store = createSharedCommit<ReceivedNotification, 'new' | 'known'>({
    write: async (items) => {
      const results = await storeNotifications(deps.database, items);
      commits.inc();
      return results;
    },
    batchMax: commitMax,
    backlogMax: deps.backlogMax,
  });

  async function receive(request: Request, response: Response): Promise<'new' | 'known'> {
    if (request.method !== 'POST') {
      response.setHeader('Allow', 'POST');
      throw new AppError('method-not-allowed', 'Notifications are sent with POST.');
    }
    const source = String(request.params['source']);
    const keys = deps.signingKeysOf(source);
    const header = request.get('x-signature') ?? '';
    // What cannot be genuine is not even read: it costs the sender more than us.
    if (keys.length === 0 || !signatureForm.test(header)) throw refused();
    const body = await readBody(request, deps.bodyBytesMax);
    if (!signatureMatches(body, header, keys)) throw refused();
    const { trigger } = parseInput(notification, parseJson(body), 'The notification');
    const announced = feedOfTrigger(trigger);
    const feed = announced !== undefined && deps.readsFeed(source, announced) ? announced : undefined;
    const result = await store
      .add({ source, trigger, feed, body, received: timestampNow(deps.clock) })
      .catch((cause: unknown) => {
        // Whatever the reason is, the sender is to try again: it has the only copy.
        throw new AppError('unavailable', 'The notification could not be stored. Send it again later.', {
          message: `a notification could not be stored: ${errorText(cause)}`,
          cause,
        });
      });
    response.json({ status: 'accepted' });
    if (feed !== undefined) deps.wakePull(source, feed);
    return result;
  }

  app.all(path, async (request, response) => {
    response.locals.route = path;
    try {
      received.inc({ result: (await receive(request, response)) === 'new' ? 'accepted' : 'repeated' });
    } catch (error) {
      const code = error instanceof AppError ? error.code : 'internal';
      received.inc({ result: code });
      if (code === 'unauthorized')
        deps.log.warn({ requestId: response.locals.requestId }, `notification refused: ${errorText(error)}`);
      throw error;
    }
  });
  return { drain: () => store.idle() };
}

/** The same for an unknown source, a missing signature and a wrong one: what exists here is nobody's business. */
function refused(): AppError {
  return new AppError('unauthorized', 'The header X-Signature does not sign this body with a key that is known here.');
}
