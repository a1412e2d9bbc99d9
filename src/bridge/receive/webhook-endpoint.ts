/**
 * The webhook endpoint: POST /webhooks/{source}. The signature is checked over the raw bytes before anything is parsed;
 * the notification is committed before it is answered; the pull is woken after. Source: API document, "Authentication"
 * 2 and 4 and "Events".
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FeedName } from '#contract/feed.ts';
import { signatureForm, signatureMatches } from '#contract/signature.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { feedOfTrigger, notification } from '#contract/webhook.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { DirectRoute } from '#platform/http/application.ts';
import { parseJson, readBody } from '#platform/http/body.ts';
import { parseInput } from '#platform/input.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import { bearerTokenOf } from './bearer/bearer-check.ts';
import type { BearerCheck } from './bearer/bearer-deps.ts';
import { createThrottledLog } from './rare-log.ts';
import { createSharedCommit } from './shared-commit.ts';
import type { SigningKeys } from './signing-keys.ts';
import { type ReceivedNotification, storeNotifications } from './store-notifications.ts';

/** What the endpoint knows of a source. */
export interface ReceivedSource {
  /** The feeds that this bridge reads: a notification of another one is acknowledged, and asks for nothing. */
  readonly feeds: ReadonlySet<FeedName>;
  /** A notification whose time is further away from now is acknowledged, and asks for nothing; undefined: any is taken. */
  readonly freshnessMs: number | undefined;
  /** Undefined: no token is asked for. */
  readonly bearer: BearerCheck | undefined;
}

export interface WebhookEndpointDeps {
  database: Database;
  clock: Clock;
  log: Logger;
  registry: Registry;
  bodyBytesMax: number;
  backlogMax: number;
  signingKeys: Pick<SigningKeys, 'keysOf' | 'readAgain'>;
  /** The sources, by their names. */
  sources: ReadonlyMap<string, ReceivedSource>;
  /** Wakes the pull of a source's feed, after the commit. */
  wakePull: (source: string, feed: FeedName) => void;
}

/** What became of a notification that was answered with 200. */
type Taken = 'accepted' | 'repeated' | 'stale';

const commitMax = 500;

const answers = {
  accepted: answerOf('accepted'),
  repeated: answerOf('accepted'),
  stale: answerOf('stale'),
} satisfies Record<Taken, unknown>;

/** Makes the endpoint; `drain` resolves when everything taken is stored. */
export function createWebhookEndpoint(deps: WebhookEndpointDeps): { route: DirectRoute; drain: () => Promise<void> } {
  const { clock, signingKeys } = deps;
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
    clock,
  });
  const warnRarely = createThrottledLog({ log: deps.log, clock });

  /** Reads the body and proves that it is the source's. Throws `unauthorized` for anything else. */
  async function readGenuine(request: IncomingMessage, response: ServerResponse, name: string): Promise<Buffer> {
    const source = deps.sources.get(name);
    const signature = request.headers['x-signature'];
    // What cannot be genuine is not even read: it costs the sender more than us.
    if (!source || typeof signature !== 'string' || !signatureForm.test(signature)) throw refused();
    // The key that is missing may have been registered just now, by another process.
    const holds = async (isSo: () => boolean) => isSo() || ((await signingKeys.readAgain()) && isSo());
    if (!(await holds(() => signingKeys.keysOf(name).length > 0))) throw refused();
    const body = await readBody(request, deps.bodyBytesMax);
    if (!(await holds(() => signatureMatches(body, signature, signingKeys.keysOf(name))))) throw refused();
    // After the signature: nobody else makes us ask an authorisation server, or learns that there is one.
    if (source.bearer) {
      const token = bearerTokenOf(request.headers.authorization);
      if (token === undefined) throw withoutToken();
      if (!(await source.bearer(token))) {
        response.setHeader('WWW-Authenticate', 'Bearer error="invalid_token"');
        throw wrongToken();
      }
    }
    return body;
  }

  async function receive(request: IncomingMessage, response: ServerResponse, source: string): Promise<Taken> {
    if (request.method !== 'POST') {
      response.setHeader('Allow', 'POST');
      throw new AppError('method-not-allowed', 'Notifications are sent with POST.');
    }
    const body = await readGenuine(request, response, source);
    const { trigger, timestamp } = parseInput(notification, parseJson(body), 'The notification');
    const { feeds, freshnessMs } = deps.sources.get(source) ?? { feeds: new Set(), freshnessMs: undefined };
    if (freshnessMs !== undefined && isStale(timestamp, clock.nowMs(), freshnessMs)) {
      warnRarely({ source, timestamp }, 'a notification from too long ago, or from the future, was passed over');
      return 'stale';
    }
    const announced = feedOfTrigger(trigger);
    const feed = announced !== undefined && feeds.has(announced) ? announced : undefined;
    const result = await store
      .add({ source, trigger, feed, body, received: timestampNow(clock) })
      .catch((cause: unknown) => {
        // Whatever the reason is, the sender is to try again: it has the only copy.
        throw new AppError('unavailable', 'The notification could not be stored. Send it again later.', {
          message: `a notification could not be stored: ${errorText(cause)}`,
          cause,
        });
      });
    if (feed !== undefined) deps.wakePull(source, feed);
    return result === 'new' ? 'accepted' : 'repeated';
  }

  const handle: DirectRoute['handle'] = async (request, response, { segment, requestId }) => {
    try {
      const taken = await receive(request, response, segment);
      const { headers, text } = answers[taken];
      response.writeHead(200, headers).end(text);
      received.inc({ result: taken });
    } catch (error) {
      const code = error instanceof AppError ? error.code : 'internal';
      received.inc({ result: code });
      if (code === 'unauthorized') warnRarely({ requestId }, `notification refused: ${errorText(error)}`);
      throw error;
    }
  };
  return { route: { prefix: '/webhooks/', route: '/webhooks/:source', handle }, drain: () => store.idle() };
}

/**
 * A notification that is repeated after its time does nothing. It is acknowledged all the same: the service sends what
 * was refused again, with the time that it had, until it gives the webhook up; and no data is lost with it, as a
 * notification only makes a pull sooner.
 */
function isStale(timestamp: Timestamp, nowMs: number, freshnessMs: number): boolean {
  return Math.abs(nowMs - msFromTimestamp(timestamp)) > freshnessMs;
}

/** The same for an unknown source, a missing signature and a wrong one: what exists here is nobody's business. */
function refused(): AppError {
  return new AppError('unauthorized', 'The header X-Signature does not sign this body with a key that is known here.');
}

function withoutToken(): AppError {
  return new AppError('unauthorized', 'The header Authorization has no bearer token, which is asked for here.');
}

function wrongToken(): AppError {
  return new AppError('unauthorized', 'The bearer token is not good here: get a new one and send it again.');
}

function answerOf(status: string) {
  const text = JSON.stringify({ status });
  return { text, headers: { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': text.length } };
}
