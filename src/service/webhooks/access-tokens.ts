/**
 * Bearer tokens for webhooks with `OAUTH_CLIENT_CREDENTIALS`: got from the token server by the client credentials flow
 * (RFC 6749, 4.4), kept in memory until shortly before they expire, and asked for by one request at a time for each
 * webhook. Whatever a token server answers, no text that leaves here holds a secret, or anything of its body but a known
 * error code.
 */
import { z } from 'zod';
import type { WebhookAuthentication } from '#contract/webhook.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { FetchError, type GuardedFetch, type GuardedResponse } from '#platform/guarded-fetch.ts';
import type { Cidr } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import { exchangeMs } from './exchange-limits.ts';

/** How the client shows its secret: servers must take HTTP Basic, but some take it in the body only. */
type ClientAuth = 'basic' | 'body';

/** The OAuth parameters as they are sealed: with the way that worked when the webhook was made, to be tried first. */
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
  /** For all requests to the token server together. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface AccessTokens {
  /**
   * Gets a token without looking at what is kept, in the way that works. Throws an AppError `unavailable` that says why
   * there is none; its issue has the path of the parameter that is to blame.
   */
  obtain(
    parameters: WebhookAuthentication['parameters'],
    limits: Limits,
  ): Promise<{ grant: Grant; used: TokenParameters }>;
  /** Keeps a token for a webhook. */
  keep(webhookId: string, grant: Grant): void;
  /** The token to send now; a kept one that is `refused` is not given again. Throws as `obtain` does. */
  tokenOf(webhookId: string, using: TokenParameters, limits: Limits & { refused?: string }): Promise<string>;
  /** Throws a token away that a receiver refused. */
  drop(webhookId: string, token: string): void;
}

const answerBytesMax = 64 * 1024;
/** For a token server that does not say how long its tokens live. */
const lifetimeDefaultS = 300;
const lifetimeMaxS = 24 * 3_600;
/** Beyond these the token that was got first is forgotten: webhooks come and go faster than their tokens expire. */
const keptMax = 5_000;
/** A token is not used in its last moments: it must outlive the way to the receiver. */
const marginMaxMs = 30_000;

/** The codes of RFC 6749, 4.1.2.1 and 5.2: nothing else of an answer is ever repeated. */
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

/** With these the server has recognised the client: showing the secret in another way is of no use. */
const clientWasRecognised: ReadonlySet<KnownError | undefined> = new Set([
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
]);

const tokenAnswer = z.looseObject({
  // What can stand in a header; a space would end the token (RFC 6750, 2.1).
  access_token: z.string().regex(/^[\x21-\x7e]{1,8192}$/),
  // Required by RFC 6749, and left out by many.
  token_type: z
    .string()
    .regex(/^bearer$/i)
    .optional(),
  expires_in: z.unknown().optional(),
});

export function createAccessTokens({ fetch, clock }: { fetch: GuardedFetch; clock: Clock }): AccessTokens {
  const kept = new Map<string, Grant>();
  const underWay = new Map<string, Promise<Grant>>();

  async function ask(
    { parameters, client_auth: clientAuth }: TokenParameters,
    { allowedNetworks, signal }: Limits,
    timeoutMs: number,
  ): Promise<Grant | Refusal> {
    const host = new URL(parameters.access_token_url).hostname;
    const askedMs = clock.nowMs();
    let answer: GuardedResponse;
    try {
      answer = await fetch({
        url: parameters.access_token_url,
        method: 'POST',
        ...tokenRequest(parameters, clientAuth),
        allowedNetworks,
        timeoutMs,
        responseBytesMax: answerBytesMax,
        onTooLarge: 'fail',
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      // Ended by our own shutdown, it says nothing of the token server.
      if (!(error instanceof FetchError) || error.reason === 'aborted') throw error;
      throw noToken(error.publicMessage, { message: `No access token: ${error.message}` });
    }
    return readAnswer(answer, host, askedMs);
  }

  async function obtain(
    parameters: TokenParameters['parameters'],
    limits: Limits,
    first: ClientAuth = 'basic',
  ): Promise<{ grant: Grant; used: TokenParameters }> {
    const deadlineMs = clock.nowMs() + (limits.timeoutMs ?? exchangeMs);
    const inWay = async (clientAuth: ClientAuth) => {
      const used = { parameters, client_auth: clientAuth };
      const result = await ask(used, limits, Math.max(1, deadlineMs - clock.nowMs()));
      return 'token' in result ? { grant: result, used } : result;
    };
    const result = await inWay(first);
    if ('grant' in result) return result;
    if (!result.otherWayMayHelp) throw result.error;
    const second = await inWay(first === 'basic' ? 'body' : 'basic');
    if ('grant' in second) return second;
    // A server that does not know one of the ways says something else there than what is wrong with the secret.
    throw second.code === 'invalid_client' ? second.error : result.error;
  }

  function keep(webhookId: string, grant: Grant): void {
    const nowMs = clock.nowMs();
    kept.delete(webhookId);
    kept.set(webhookId, grant);
    for (const [id, { expiresAtMs }] of kept) if (expiresAtMs <= nowMs || kept.size > keptMax) kept.delete(id);
  }

  async function tokenOf(
    webhookId: string,
    using: TokenParameters,
    { refused, ...limits }: Limits & { refused?: string },
  ): Promise<string> {
    const known = kept.get(webhookId);
    if (known && known.token !== refused && known.expiresAtMs > clock.nowMs()) return known.token;
    const waitedFor = underWay.get(webhookId);
    if (waitedFor) return (await waitedFor).token;
    const asked = obtain(using.parameters, limits, using.client_auth).then(({ grant }) => {
      keep(webhookId, grant);
      return grant;
    });
    underWay.set(webhookId, asked);
    try {
      return (await asked).token;
    } finally {
      underWay.delete(webhookId);
    }
  }

  return {
    obtain,
    keep,
    tokenOf,
    drop: (webhookId, token) => {
      if (kept.get(webhookId)?.token === token) kept.delete(webhookId);
    },
  };
}

/** The request's headers and body, by RFC 6749, 4.4.2 and 2.3.1. */
function tokenRequest(parameters: TokenParameters['parameters'], clientAuth: ClientAuth) {
  const { client_id: id, client_secret: secret, scope } = parameters;
  const form = new URLSearchParams({ grant_type: 'client_credentials' });
  if (scope) form.set('scope', scope);
  if (clientAuth === 'body') {
    form.set('client_id', id);
    form.set('client_secret', secret);
  }
  const basic = Buffer.from(`${formEncoded(id)}:${formEncoded(secret)}`).toString('base64');
  return {
    headers: {
      accept: 'application/json',
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
  readonly otherWayMayHelp: boolean;
}

function readAnswer(answer: GuardedResponse, host: string, askedMs: number): Grant | Refusal {
  const body = objectIn(answer.body);
  const code = knownErrors.find((known) => known === body?.['error']);
  const isRefusal = answer.status < 200 || answer.status > 299 || body?.['error'] !== undefined;
  if (isRefusal) {
    const retryAfterMs = readRetryAfterMs(answer.headers['retry-after'], askedMs);
    return {
      code,
      otherWayMayHelp:
        code === 'invalid_client' || ([400, 401, 403].includes(answer.status) && !clientWasRecognised.has(code)),
      error: noToken(`${host} answered ${answer.status}${code ? ` with the error ${code}` : ''}.`, {
        parameter: code === 'invalid_scope' ? 'scope' : 'access_token_url',
        retryAfterMs,
      }),
    };
  }
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
    expiresAtMs: askedMs + lifetimeMs - Math.min(marginMaxMs, lifetimeMs / 10),
  };
}

function objectIn(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Some servers write the number as text. */
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
    issues: [{ path: parameter, message: `gave no access token: ${reason}` }],
    recovery: { do: 'retry', ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) },
  });
}
