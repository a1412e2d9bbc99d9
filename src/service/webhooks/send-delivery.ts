/**
 * One attempt to deliver one notification: a signed POST to the webhook's URL over HTTPS, with a bearer token where the
 * webhook has OAuth parameters. Every failure is an attempt with an error; nothing is thrown.
 * Source: API document, "Events"; decisions, "Webhooks".
 */
import { signBody, signStandard } from '#contract/signature.ts';
import { secretsOf } from '#contract/webhook.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { type Cidr, domainAllowed, parseCidrs } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import type { SecretBox } from '#platform/secrets.ts';
import type { Profile } from '../profile/profile.ts';
import type { AccessTokens, TokenParameters } from './access-tokens.ts';
import { type ClaimedDelivery, type DeliveryAttempt, isAccepted, type StoredReceiver } from './delivery-store.ts';
import { exchangeMs, responseBytesMax } from './exchange-limits.ts';
import { authenticationContext, signingKeyContext, standardKeyContext } from './webhook-row.ts';

/** Where a webhook's notifications go, with its secrets in plain text. */
export interface Receiver {
  webhookId: string;
  organisationId: string;
  url: string;
  signingKey: string;
  /** Undefined: without the signature of Standard Webhooks. */
  standardKey: string | undefined;
  oauth: TokenParameters | undefined;
  allowedNetworks: readonly Cidr[];
}

export interface SenderDeps {
  profile: Pick<Profile, 'triggerName' | 'sendsFeedModified'>;
  fetch: GuardedFetch;
  accessTokens: AccessTokens;
  clock: Clock;
}

/** Of the receiver's answer, this much is kept in the log of deliveries. */
const excerptCharacters = 500;

/** Throws when the webhook's host is not whitelisted any more, and when its secrets cannot be opened. */
export function openReceiver(secrets: SecretBox, webhookId: string, stored: StoredReceiver): Receiver {
  const host = new URL(stored.url).hostname;
  if (!domainAllowed(host, stored.webhook_domains)) throw new Error(`the host "${host}" is no longer whitelisted`);
  return {
    webhookId,
    organisationId: stored.organisation_id,
    url: stored.url,
    signingKey: secrets.open(stored.signing_key, signingKeyContext(webhookId)),
    standardKey: stored.standard_key ? secrets.open(stored.standard_key, standardKeyContext(webhookId)) : undefined,
    oauth: stored.authentication
      ? (JSON.parse(secrets.open(stored.authentication, authenticationContext(webhookId))) as TokenParameters)
      : undefined,
    allowedNetworks: parseCidrs(stored.allowed_networks),
  };
}

/** Sends a notification once. What `receiver` throws is the outcome of the attempt, like any other failure. */
export async function attemptDelivery(
  deps: SenderDeps,
  receiver: () => Receiver,
  delivery: ClaimedDelivery,
  signal: AbortSignal,
): Promise<DeliveryAttempt> {
  const startedMs = deps.clock.nowMs();
  const elapsedMs = () => Math.max(0, Math.round(deps.clock.nowMs() - startedMs));
  try {
    const { answer, secrets } = await send(deps, receiver(), delivery, { startedMs, signal });
    return {
      delivery,
      atMs: startedMs,
      durationMs: elapsedMs(),
      status: answer.status,
      error: isAccepted(answer.status) ? null : `answered ${answer.status}${redirectOf(answer, secrets)}`,
      operatorError: null,
      excerpt: excerptOf(answer.body, secrets),
      retryAfterMs: readRetryAfterMs(answer.headers['retry-after'], startedMs),
    };
  } catch (error) {
    return {
      delivery,
      atMs: startedMs,
      durationMs: elapsedMs(),
      status: null,
      error: error instanceof AppError ? error.publicMessage : errorText(error),
      operatorError: errorText(error),
      excerpt: null,
      retryAfterMs: error instanceof AppError && error.recovery.do === 'retry' ? error.recovery.afterMs : undefined,
    };
  }
}

const redirectCharacters = 300;

/** Where a redirect leads. Its query is left out: it may hold a secret. */
function redirectOf({ status, headers }: GuardedResponse, secrets: readonly string[]): string {
  const location = withoutSecrets(headers['location']?.split(/[?#]/u, 1)[0] ?? '', secrets);
  if (status < 300 || status > 399 || location === '') return '';
  return `: a redirect to ${location.slice(0, redirectCharacters)}, which is not followed`;
}

/**
 * The start of the receiver's answer without our secrets, which it may repeat: not every reader of the log may know
 * them.
 */
function excerptOf(body: Buffer, secrets: readonly string[]): string {
  if (body.length === 0) return '';
  // PostgreSQL stores neither NUL nor half of a surrogate pair.
  const text = withoutSecrets(body.toString('utf8').replaceAll('\u0000', ''), secrets);
  return text.slice(0, excerptCharacters).toWellFormed();
}

function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((left, secret) => left.replaceAll(secret, '[secret]'), text);
}

/** The same bytes for every attempt. */
function notificationOf(
  { trigger, created: timestamp, payload }: ClaimedDelivery,
  { triggerName, sendsFeedModified }: SenderDeps['profile'],
) {
  const { feed_modified: _modified, ...withoutTime } = payload;
  return { trigger: triggerName(trigger), timestamp, payload: sendsFeedModified ? payload : withoutTime };
}

/**
 * One POST; a second one with a new token when the receiver refuses the token. All requests together, those to the
 * token server included, have the time of one exchange.
 */
async function send(
  { fetch, clock, accessTokens, profile }: SenderDeps,
  receiver: Receiver,
  delivery: ClaimedDelivery,
  { startedMs, signal }: { startedMs: number; signal: AbortSignal },
): Promise<{ answer: GuardedResponse; secrets: string[] }> {
  const { webhookId, organisationId, standardKey, oauth, allowedNetworks } = receiver;
  const secrets = [receiver.signingKey, ...(standardKey === undefined ? [] : [standardKey])];
  const body = Buffer.from(JSON.stringify(notificationOf(delivery, profile)));
  const timestampS = Math.floor(startedMs / 1000);
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'x-signature': signBody(body, receiver.signingKey),
    ...(standardKey === undefined
      ? {}
      : { 'webhook-signature': signStandard({ id: delivery.id, timestampS, body }, standardKey) }),
    'webhook-id': delivery.id,
    'webhook-timestamp': String(timestampS),
    'webhook-attempt': String(delivery.attempts),
  };
  const leftMs = () => {
    const left = startedMs + exchangeMs - clock.nowMs();
    if (left <= 0) throw new Error('the token server took so long that no time was left for the notification');
    return Math.min(exchangeMs, left);
  };
  const post = () =>
    fetch({
      url: receiver.url,
      method: 'POST',
      headers,
      body,
      responseBytesMax,
      allowedNetworks,
      group: organisationId,
      timeoutMs: leftMs(),
      signal,
    });
  if (!oauth) return { answer: await post(), secrets };

  secrets.push(...secretsOf(oauth.parameters));
  const bounds = () => ({ allowedNetworks, group: organisationId, timeoutMs: leftMs(), signal });
  const postWith = (token: string) => {
    secrets.push(token);
    headers['authorization'] = `Bearer ${token}`;
    return post();
  };
  const token = await accessTokens.tokenOf(webhookId, oauth, bounds());
  const answer = await postWith(token);
  if (!isTokenRefused(answer)) return { answer, secrets };
  const renewed = await accessTokens.tokenOf(webhookId, oauth, { ...bounds(), refused: token });
  const second = renewed === token ? answer : await postWith(renewed);
  // The next attempt then starts with a new token.
  if (isTokenRefused(second)) accessTokens.drop(webhookId, oauth, renewed);
  return { answer: second, secrets };
}

/** A gateway may refuse a token that has expired with 403, and says so in the header (RFC 6750, 3). */
function isTokenRefused({ status, headers }: GuardedResponse): boolean {
  return status === 401 || (status === 403 && /\binvalid_token\b/.test(headers['www-authenticate'] ?? ''));
}
