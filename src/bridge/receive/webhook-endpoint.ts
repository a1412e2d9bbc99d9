/**
 * The webhook endpoint: POST /webhooks/{source}. The receiver checks the signature over the raw bytes before it parses
 * anything, commits the notification before it answers, and wakes the puller after the commit. Source: API document,
 * "Authentication" 2 and 4 and "Events".
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { idOf, linksJob } from '#bridge/documents/document-keys.ts';
import type { FeedName } from '#contract/feed.ts';
import { isSignedWith, readSignature } from '#contract/signature.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { feedOfTrigger, jobTrigger, notification } from '#contract/webhook.ts';
import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { DirectRoute } from '#platform/http/application.ts';
import { parseJson, readBody } from '#platform/http/body.ts';
import { protectConnection } from '#platform/http/connections.ts';
import type { UnverifiedBounds } from '#platform/http/unverified-bytes.ts';
import { parseInput } from '#platform/input.ts';
import type { Logger } from '#platform/log.ts';
import { Counter, type Registry } from '#platform/metrics.ts';
import { isTraced, type Span, traced, traceparentOf } from '#platform/telemetry.ts';
import { createThrottledWarnings } from '#platform/throttled-warnings.ts';
import { bearerTokenOf } from './bearer/bearer-check.ts';
import type { BearerCheck } from './bearer/bearer-deps.ts';
import { createRecentNotifications, type RecentNotifications } from './recent-notifications.ts';
import { type RefusalReason, type Refusals, Refused } from './refusals.ts';
import { createSharedCommit } from './shared-commit.ts';
import type { SigningKeys } from './signing-keys.ts';
import { type ReceivedNotification, storeNotifications } from './store-notifications.ts';
import { createPullWakes } from './wake-pulls.ts';

/** How the endpoint treats the notifications of a source. */
export interface ReceivedSource {
  /** The feeds that this bridge reads: a notification of another feed is acknowledged and wakes nothing. */
  readonly feeds: ReadonlySet<FeedName>;
  /** Undefined: no token is required. */
  readonly bearer: BearerCheck | undefined;
}

export interface WebhookEndpointDeps {
  database: Database;
  clock: Clock;
  log: Logger;
  registry: Registry;
  bodyBytesMax: number;
  bodies: UnverifiedBounds;
  backlogMax: number;
  /**
   * A notification whose time differs from now by more is acknowledged and does nothing: the service would repeat a refused
   * one with the same time until it switches the webhook off. No data is lost, as a notification only makes a pull sooner.
   */
  freshnessMs: number;
  signingKeys: Pick<SigningKeys, 'keysOf' | 'readAgain'>;
  refusals: Pick<Refusals, 'refused' | 'accepted'>;
  /** The sources, by their names. */
  sources: ReadonlyMap<string, ReceivedSource>;
  /** Wakes the puller of a feed, by its key `<source>/<feed>`; called after the commit. */
  wakePull: (key: string) => void;
  /** Wakes the reader of a source's jobs; called after the commit. */
  wakeJobs: (source: string) => void;
}

/** A source with what this process remembers of it. */
interface KnownSource extends ReceivedSource {
  readonly recent: RecentNotifications;
}

/** A notification that its source has signed. */
interface VerifiedNotification {
  readonly name: string;
  readonly source: KnownSource;
  readonly signature: Buffer;
  readonly body: Buffer;
  readonly trigger: string;
  readonly timestamp: Timestamp;
  /** The job that is to be read because of it; undefined: none. */
  readonly job: string | undefined;
}

/** The result of a notification that was answered with 200. */
type AcceptedAs = 'accepted' | 'repeated' | 'stale';

const commitMax = 500;
/** Notifications of a source that are recognised when they come again: 130 kB once it sends. */
const rememberedMax = 5_000;

const answers = {
  accepted: answerOf('accepted'),
  repeated: answerOf('accepted'),
  stale: answerOf('stale'),
} satisfies Record<AcceptedAs, unknown>;

/** Creates the endpoint; `drain` resolves when all accepted notifications are stored. */
export function createWebhookEndpoint(deps: WebhookEndpointDeps): { route: DirectRoute; drain: () => Promise<void> } {
  const { clock, signingKeys, refusals } = deps;
  const received = new Counter({
    name: 'bridge_notifications_total',
    help: 'Notifications that came to the webhook endpoint, by result',
    labelNames: ['result'],
    registers: [deps.registry],
  });
  const commits = new Counter({
    name: 'bridge_inbox_commits_total',
    help: 'Commits that stored notifications; requests that arrive together share one',
    registers: [deps.registry],
  });
  const wakes = createPullWakes({ clock, signal: deps.wakePull });
  const jobWakes = createPullWakes({ clock, signal: deps.wakeJobs });
  const store = createSharedCommit<ReceivedNotification>({
    write: async (items) => {
      await storeNotifications(deps.database, items);
      commits.inc();
      for (const key of new Set(items.map(keyOf))) if (key !== undefined) wakes.wake(key);
      for (const name of new Set(items.map(sourceOfJob))) if (name !== undefined) jobWakes.wake(name);
    },
    batchMax: commitMax,
    backlogMax: deps.backlogMax,
  });
  // For each source: two of them may sign with the same key.
  const sources = new Map<string, KnownSource>(
    [...deps.sources].map(([name, source]) => [name, { ...source, recent: createRecentNotifications(rememberedMax) }]),
  );
  const warn = createThrottledWarnings(deps.log);

  /** The source that a request names, and its signature. Throws an AppError when the body cannot be genuine. */
  function readHead(request: IncomingMessage, response: ServerResponse, name: string) {
    if (request.method !== 'POST') {
      response.setHeader('Allow', 'POST');
      throw new AppError('method-not-allowed', 'Notifications are sent with POST.');
    }
    const source = sources.get(name);
    const header = request.headers['x-signature'];
    const signature = typeof header === 'string' ? readSignature(header) : undefined;
    // A body that cannot be genuine is not even read: it costs the sender more than the receiver.
    if (!source || !signature) throw refused('no-signature');
    return { source, signature };
  }

  /** Reads the body, and verifies that its source has signed it. Throws an AppError for anything else. */
  async function readVerified(request: IncomingMessage, name: string, signature: Buffer): Promise<Buffer> {
    // Another process may have registered a webhook with a new key just now.
    const hasKeys = () => signingKeys.keysOf(name).length > 0;
    if (!hasKeys() && !((await signingKeys.readAgain()) && hasKeys())) throw refused('no-key');
    const unverified = deps.bodies.unverified.begin();
    try {
      const body = await readBody(request, deps.bodyBytesMax, { withinMs: deps.bodies.withinMs, unverified });
      const isSigned = () => isSignedWith(signingKeys.keysOf(name), body, signature);
      if (!isSigned() && !((await signingKeys.readAgain()) && isSigned())) throw refused('wrong-signature');
      return body;
    } finally {
      unverified.end();
    }
  }

  /** Checks the token that is required beside the signature. Throws an AppError when it is missing or not valid. */
  async function checkBearer(check: BearerCheck, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = bearerTokenOf(request.headers.authorization);
    if (token === undefined) throw missingToken();
    if (await check(token)) return;
    response.setHeader('WWW-Authenticate', 'Bearer error="invalid_token"');
    throw wrongToken();
  }

  /** Stores what the source has sent. Rejects with AppError `unavailable` when it cannot be stored. */
  async function accept(
    { name, source, signature, body, trigger, timestamp, job }: VerifiedNotification,
    span?: Span,
  ): Promise<AcceptedAs> {
    const receivedMs = clock.nowMs();
    if (Math.abs(receivedMs - msFromTimestamp(timestamp)) > deps.freshnessMs) {
      warn(
        'stale',
        { source: name, timestamp },
        'stale notification acknowledged: its time is too far in the past or in the future',
      );
      return 'stale';
    }
    const announced = feedOfTrigger(trigger);
    const feed = announced !== undefined && source.feeds.has(announced) ? announced : undefined;
    const trace = span && traceparentOf(span);
    try {
      const isNew = await source.recent.storeOnce(signature, () =>
        store.add({ source: name, trigger, feed, job, body, receivedMs, trace }),
      );
      return isNew ? 'accepted' : 'repeated';
    } catch (cause) {
      // Whatever the reason is, the sender must try again, as it has the only copy.
      throw new AppError('unavailable', 'The notification could not be stored. Send it again later.', {
        message: `a notification could not be stored: ${errorText(cause)}`,
        cause,
      });
    }
  }

  /** The same in a span. Only now: who cannot sign makes no spans, and has no say in which trace they stand. */
  function acceptTraced(verified: VerifiedNotification, request: IncomingMessage, startMs: number) {
    const { traceparent } = request.headers;
    const parent = typeof traceparent === 'string' ? traceparent : null;
    const attributes = { 'sourcing.source': verified.name, 'sourcing.trigger': verified.trigger };
    const options = { kind: 'server', parent, attributes, startMs } as const;
    return traced('receive notification', options, (span) => accept(verified, span));
  }

  const handle: DirectRoute['handle'] = async (request, response, { segment: name, requestId }) => {
    try {
      const startMs = Date.now();
      const { source, signature } = readHead(request, response, name);
      const body = await readVerified(request, name, signature);
      // After the signature, so that only the service can cause requests to the authorisation server, or learns of it.
      if (source.bearer) await checkBearer(source.bearer, request, response);
      protectConnection(request);
      const verified = { name, source, signature, body, ...readNotification(body) };
      const result = await (isTraced() ? acceptTraced(verified, request, startMs) : accept(verified));
      const { headers, text } = answers[result];
      response.writeHead(200, [...headers, 'X-Request-Id', requestId]).end(text);
      received.inc({ result });
      refusals.accepted(name);
    } catch (error) {
      const code = error instanceof AppError ? error.code : 'internal';
      received.inc({ result: code });
      if (code === 'unauthorized') {
        warn('refused', { requestId }, `notification refused: ${errorText(error)}`);
        if (error instanceof Refused) refusals.refused(name, error.reason);
      }
      throw error;
    }
  };
  const drain = async () => {
    await store.idle();
    wakes.flush();
    jobWakes.flush();
  };
  return { route: { prefix: '/webhooks/', route: '/webhooks/:source', handle }, drain };
}

/** The key of the feed that a notification announces; undefined: it announces none that is read here. */
function keyOf({ source, feed }: ReceivedNotification): string | undefined {
  return feed === undefined ? undefined : `${source}/${feed}`;
}

/** The source whose jobs are read because of a notification; undefined: it names none. */
function sourceOfJob({ source, job }: ReceivedNotification): string | undefined {
  return job === undefined ? undefined : source;
}

/** Throws AppError `invalid` for a body that is no notification. */
function readNotification(body: Buffer): Pick<VerifiedNotification, 'trigger' | 'timestamp' | 'job'> {
  const { trigger, timestamp, payload } = parseInput(notification, parseJson(body), 'The notification');
  // The bridge itself asks for links to files, by a job for each few files.
  const isOfJob = trigger === jobTrigger && payload['type'] !== linksJob;
  return { trigger, timestamp, job: isOfJob ? idOf(payload['job']) : undefined };
}

/**
 * The same error for an unknown source, a missing and a wrong signature: a client must not learn which sources exist.
 */
function refused(reason: RefusalReason): Refused {
  return new Refused(reason, 'The header X-Signature does not sign this body with a key that is known here.');
}

function missingToken(): Refused {
  return new Refused('no-token', 'The header Authorization has no bearer token, which is required here.');
}

function wrongToken(): Refused {
  return new Refused(
    'wrong-token',
    'The bearer token is not valid here: get a new token and send the notification again.',
  );
}

function answerOf(status: string) {
  const text = JSON.stringify({ status });
  // A list of names and values: Node writes it faster than an object.
  return { text, headers: ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', `${text.length}`] };
}
