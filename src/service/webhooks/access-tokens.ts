/**
 * Bearer tokens for webhooks with `OAUTH_CLIENT_CREDENTIALS`. They are requested from the token server by the client
 * credentials flow (RFC 6749, 4.4), one request at a time for each webhook, and kept in memory until shortly before
 * they expire. No error text holds a secret, or any part of the token server's body except a known error code.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { WebhookAuthentication } from '#contract/webhook.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { acceptEncoding, readJsonAnswer } from '#platform/foreign-answer.ts';
import type { GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import { FetchError, type GuardedFetch } from '#platform/guarded-fetch.ts';
import type { Cidr } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import { signAssertion } from './client-assertion.ts';
import { exchangeMs } from './exchange-limits.ts';

/**
 * How the client proves itself: servers must accept HTTP Basic, but some accept a secret in the body only. `jwt`: by a JWT
 * that its private key has signed, and no secret is sent.
 */
type ClientAuth = 'basic' | 'body' | 'jwt';

/** The OAuth parameters as they are sealed. `client_auth` worked when the webhook was created, and is tried first. */
export interface TokenParameters {
  readonly parameters: WebhookAuthentication['parameters'];
  readonly client_auth: ClientAuth;
}

interface Grant {
  readonly token: string;
  readonly expiresAtMs: number;
}

interface Limits {
  readonly allowedNetworks: readonly Cidr[];
  /** The organisation. */
  readonly group: string;
  /** For all requests to the token server together. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface AccessTokens {
  /**
   * Requests a new token, and finds out which client authentication the server accepts. Throws an AppError
   * `unavailable` that says why there is no token; its issue has the path of the parameter that failed.
   */
  obtain(
    parameters: WebhookAuthentication['parameters'],
    limits: Limits,
  ): Promise<{ grant: Grant; used: TokenParameters }>;
  /** Keeps a token for a webhook with these parameters: after they have changed, it is not used. */
  keep(webhookId: string, using: TokenParameters, grant: Grant): void;
  /** Returns the token to send now; a kept token that equals `refused` is renewed. Throws as `obtain` does. */
  tokenOf(webhookId: string, using: TokenParameters, limits: Limits & { refused?: string }): Promise<string>;
  /** Deletes a kept token that a receiver refused. */
  drop(webhookId: string, using: TokenParameters, token: string): void;
}

const answerBytesMax = 64 * 1024;
/** The lifetime of a token when its server does not state one. */
const lifetimeDefaultS = 300;
const lifetimeMaxS = 24 * 3_600;
/**
 * The most tokens that are kept; beyond it the oldest is deleted. Webhooks may be deleted, or get other parameters, long
 * before their tokens expire.
 */
const keptMax = 5_000;
/** A token is not used when it expires this soon: it must still be valid when it reaches the receiver. */
const marginMaxMs = 30_000;

/** The codes of RFC 6749, 4.1.2.1 and 5.2: error texts repeat nothing else of an answer. */
const knownErrors = [
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'access_denied',
  'server_error',
  'temporarily_unavailable',
] as const;
type KnownError = (typeof knownErrors)[number];

/** With these codes the server has recognised the client: another client authentication cannot help. */
const clientWasRecognised: ReadonlySet<KnownError | undefined> = new Set([
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
]);

const tokenAnswer = z.looseObject({
  // Only characters that a header can carry; a space would end the token (RFC 6750, 2.1).
  access_token: z.string().regex(/^[\x21-\x7e]{1,8192}$/),
  // RFC 6749 requires it, but many servers omit it.
  token_type: z
    .string()
    // Apigee writes `BearerToken`.
    .regex(/^bearer(token)?$/i)
    .optional(),
  expires_in: z.unknown().optional(),
});

export function createAccessTokens({ fetch, clock }: { fetch: GuardedFetch; clock: Clock }): AccessTokens {
  const kept = new Map<string, Grant>();
  const pendingGrants = new Map<string, Promise<Grant>>();

  async function requestToken(
    { parameters, client_auth: clientAuth }: TokenParameters,
    { allowedNetworks, group, signal }: Limits,
    timeoutMs: number,
  ): Promise<Grant | Refusal> {
    const host = new URL(parameters.access_token_url).hostname;
    const requestedMs = clock.nowMs();
    let answer: GuardedResponse;
    try {
      answer = await fetch({
        url: parameters.access_token_url,
        method: 'POST',
        ...(await tokenRequest(parameters, clientAuth, clock.nowMs())),
        allowedNetworks,
        group,
        timeoutMs,
        responseBytesMax: answerBytesMax,
        onTooLarge: 'fail',
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      // A request that our own shutdown aborted is no failure of the token server.
      if (!(error instanceof FetchError) || error.reason === 'aborted') throw error;
      throw noToken(error.publicMessage, { message: `No access token: ${error.message}` });
    }
    return readAnswer(answer, host, requestedMs);
  }

  async function obtain(
    parameters: TokenParameters['parameters'],
    limits: Limits,
    first: ClientAuth = firstAuthOf(parameters),
  ): Promise<{ grant: Grant; used: TokenParameters }> {
    const deadlineMs = clock.nowMs() + (limits.timeoutMs ?? exchangeMs);
    const obtainBy = async (clientAuth: ClientAuth) => {
      const used = { parameters, client_auth: clientAuth };
      const result = await requestToken(used, limits, Math.max(1, deadlineMs - clock.nowMs()));
      return 'token' in result ? { grant: result, used } : result;
    };
    const result = await obtainBy(first);
    if ('grant' in result) return result;
    if (!result.otherAuthMayHelp || !mayTryOther(parameters)) throw result.error;
    const second = await obtainBy(first === 'basic' ? 'body' : 'basic');
    if ('grant' in second) return second;
    // `invalid_client` says that the secret is wrong. Any other error of the second request may only say that the
    // server does not know that client authentication: then the first error is the reason.
    throw second.code === 'invalid_client' ? second.error : result.error;
  }

  function keep(key: string, grant: Grant): void {
    const nowMs = clock.nowMs();
    kept.delete(key);
    kept.set(key, grant);
    for (const [id, { expiresAtMs }] of kept) if (expiresAtMs <= nowMs || kept.size > keptMax) kept.delete(id);
  }

  async function tokenOf(
    webhookId: string,
    using: TokenParameters,
    { refused, ...limits }: Limits & { refused?: string },
  ): Promise<string> {
    const key = keyOf(webhookId, using);
    const known = kept.get(key);
    if (known && known.token !== refused && known.expiresAtMs > clock.nowMs()) return known.token;
    const pending = pendingGrants.get(key);
    if (pending) return (await pending).token;
    const request = obtain(using.parameters, limits, using.client_auth).then(({ grant }) => {
      keep(key, grant);
      return grant;
    });
    pendingGrants.set(key, request);
    try {
      return (await request).token;
    } finally {
      pendingGrants.delete(key);
    }
  }

  return {
    obtain,
    keep: (webhookId, using, grant) => keep(keyOf(webhookId, using), grant),
    tokenOf,
    drop: (webhookId, using, token) => {
      const key = keyOf(webhookId, using);
      if (kept.get(key)?.token === token) kept.delete(key);
    },
  };
}

/** Another process may change a webhook's parameters: tokens of the old ones are not found under the new ones. */
function keyOf(webhookId: string, { parameters }: TokenParameters): string {
  return `${webhookId} ${createHash('sha256').update(JSON.stringify(parameters)).digest('base64')}`;
}

function firstAuthOf(parameters: TokenParameters['parameters']): ClientAuth {
  if (parameters.private_key !== undefined) return 'jwt';
  return parameters.token_endpoint_auth_method === 'client_secret_post' ? 'body' : 'basic';
}

/** A server may lock a client out that proves itself in a way that it does not know: a way that was chosen is the only one. */
function mayTryOther(parameters: TokenParameters['parameters']): boolean {
  return parameters.private_key === undefined && parameters.token_endpoint_auth_method === undefined;
}

/** The request's headers and body. Source: RFC 6749, 4.4.2 and 2.3.1; RFC 7523, 2.2; RFC 8707, 2. */
async function tokenRequest(parameters: TokenParameters['parameters'], clientAuth: ClientAuth, nowMs: number) {
  const { client_id: id, client_secret: secret = '', scope, audience, resource } = parameters;
  const form = new URLSearchParams({ grant_type: 'client_credentials' });
  if (scope) form.set('scope', scope);
  if (audience !== undefined) form.set('audience', audience);
  if (resource !== undefined) form.set('resource', resource);
  if (clientAuth !== 'basic') form.set('client_id', id);
  if (clientAuth === 'body') form.set('client_secret', secret);
  if (clientAuth === 'jwt') {
    form.set('client_assertion_type', 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer');
    form.set('client_assertion', await signAssertion(parameters, nowMs));
  }
  const basic = Buffer.from(`${formEncoded(id)}:${formEncoded(secret)}`).toString('base64');
  return {
    headers: {
      accept: 'application/json',
      'accept-encoding': acceptEncoding,
      'content-type': 'application/x-www-form-urlencoded',
      ...(clientAuth === 'basic' ? { authorization: `Basic ${basic}` } : {}),
    },
    body: form.toString(),
  };
}

function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}

interface Refusal {
  readonly error: AppError;
  readonly code: KnownError | undefined;
  readonly otherAuthMayHelp: boolean;
}

/**
 * Returns the grant, or the refusal that the server stated. Throws `unavailable` for an answer that holds no usable
 * token.
 */
async function readAnswer(answer: GuardedResponse, host: string, requestedMs: number): Promise<Grant | Refusal> {
  const read = await objectIn(answer, host);
  const body = 'object' in read ? read.object : undefined;
  const code = knownErrors.find((known) => known === body?.['error']);
  const isRefusal = answer.status < 200 || answer.status > 299 || body?.['error'] !== undefined;
  if (isRefusal) {
    const retryAfterMs = readRetryAfterMs(answer.headers['retry-after'], requestedMs);
    return {
      code,
      otherAuthMayHelp:
        code === 'invalid_client' || ([400, 401, 403].includes(answer.status) && !clientWasRecognised.has(code)),
      error: noToken(`${host} answered ${answer.status}${code ? ` with the error ${code}` : ''}.`, {
        parameter: code === 'invalid_scope' ? 'scope' : 'access_token_url',
        retryAfterMs,
      }),
    };
  }
  if ('fault' in read) throw noToken(read.fault);
  const parsed = tokenAnswer.safeParse(body);
  if (!parsed.success) {
    const part = parsed.error.issues[0]?.path[0];
    const what =
      body === undefined
        ? 'with no JSON object'
        : part === 'token_type'
          ? 'with a token that is not of the type bearer'
          : 'without an access_token that a header can carry';
    throw noToken(`${host} answered ${answer.status} ${what}.`);
  }
  const lifetimeMs = 1_000 * lifetimeS(parsed.data.expires_in);
  return {
    token: parsed.data.access_token,
    expiresAtMs: requestedMs + lifetimeMs - Math.min(marginMaxMs, lifetimeMs / 10),
  };
}

/** The body's object, undefined for another JSON value; or why the body cannot be read. */
async function objectIn(
  answer: GuardedResponse,
  host: string,
): Promise<{ object: Record<string, unknown> | undefined } | { fault: string }> {
  try {
    const value = await readJsonAnswer(answer, `the answer of ${host}`, answerBytesMax);
    return { object: z.record(z.string(), z.unknown()).safeParse(value).data };
  } catch (error) {
    return { fault: errorText(error) };
  }
}

/** The token's lifetime in seconds. Some servers write `expires_in` as text. */
function lifetimeS(expiresIn: unknown): number {
  const seconds = typeof expiresIn === 'string' && /^\d{1,15}$/.test(expiresIn) ? Number(expiresIn) : expiresIn;
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds < 0) return lifetimeDefaultS;
  return Math.min(seconds, lifetimeMaxS);
}

function noToken(
  reason: string,
  options: { message?: string; parameter?: 'access_token_url' | 'scope'; retryAfterMs?: number | undefined } = {},
): AppError {
  const { message, parameter = 'access_token_url', retryAfterMs } = options;
  return new AppError('unavailable', `No access token could be obtained: ${reason}`, {
    ...(message === undefined ? {} : { message }),
    issues: [{ path: parameter, message: `returned no access token: ${reason}` }],
    recovery: { do: 'retry', ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) },
  });
}
