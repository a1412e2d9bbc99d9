/**
 * Logins of a connector at an ERP over HTTP. The headers that a login returns are kept until they expire or the ERP
 * refuses them.
 */
import { createHmac } from 'node:crypto';
import { z } from 'zod';
import { type Clock, systemClock } from '#platform/clock.ts';
import { AuthError, ConfigError, TransientError } from './errors.ts';
import type { HttpRequest, HttpResponse } from './http-messages.ts';
import type { Secret } from './settings.ts';

/** The request that is about to be sent. */
export interface SignedRequest {
  readonly method: string;
  /** Including the query. */
  readonly path: string;
  readonly body: string | Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Sends a login's own request, to a full URL or to a path below the base URL. Throws where the answer says nothing
 * about the login: no answer, 408, 425, 429 and 5xx. It returns an answer with any other status; the content of that
 * answer must not be shown.
 */
export type SendLogin = (url: string, request: HttpRequest) => Promise<HttpResponse>;

export interface HttpAuth {
  /** The headers, where they are the same for every request: then `headers` need not be called. */
  readonly always?: Readonly<Record<string, string>>;
  /** The headers to add to the request. Throws AuthError when the ERP refuses the login. */
  headers(request: SignedRequest, signal: AbortSignal, send: SendLogin): Promise<Record<string, string>>;
  /** Called after the ERP has refused these headers. Returns true when a repeated `headers` may return others. */
  renew?(refused: Readonly<Record<string, string>>): boolean;
}

/** HTTP Basic (RFC 7617). Throws ConfigError for a user name with a colon. */
export function basicAuth(user: string, password: Secret): HttpAuth {
  if (user.includes(':'))
    throw new ConfigError('The user name must not contain a colon: HTTP Basic uses it to separate name and password.');
  const headers = { authorization: `Basic ${Buffer.from(`${user}:${password.reveal()}`, 'utf8').toString('base64')}` };
  return { always: headers, headers: async () => headers };
}

/** A fixed token in `Authorization: Bearer`. */
export function bearerAuth(token: Secret): HttpAuth {
  return headerAuth('authorization', token, 'Bearer ');
}

/** A fixed token or key in a header such as `X-API-Key`, after an optional prefix. */
export function headerAuth(name: string, token: Secret, prefix = ''): HttpAuth {
  const headers = { [name.toLowerCase()]: `${prefix}${token.reveal()}` };
  return { always: headers, headers: async () => headers };
}

export interface Login {
  readonly headers: Record<string, string>;
  /** How long it is valid. Default: for ever. */
  readonly expiresInMs?: number | undefined;
}

/**
 * A login that is made by requests of its own. All requests that need it at the same time share one login; it is made
 * again when it has expired or was refused. A login that is being made is aborted once no request waits for it any
 * more.
 */
export function sessionAuth(
  login: (send: SendLogin, signal: AbortSignal) => Promise<Login>,
  clock: Clock = systemClock,
): HttpAuth {
  let current: { headers: Record<string, string>; untilMs: number } | undefined;
  let running: RunningLogin | undefined;

  function begin(send: SendLogin): RunningLogin {
    const stop = new AbortController();
    const done = logIn(send, stop.signal).finally(() => {
      if (running === begun) running = undefined;
    });
    // Waiting requests see a failure through `done`. When none waits any more, the failure must not count as unhandled.
    done.catch(() => undefined);
    const begun: RunningLogin = { done, stop, waiting: 0 };
    return begun;
  }

  async function logIn(send: SendLogin, signal: AbortSignal): Promise<Record<string, string>> {
    // The validity counts from before the login's answer, less a margin for the way of the request that uses it.
    const askedMs = clock.nowMs();
    const { headers, expiresInMs = Number.POSITIVE_INFINITY } = await login(send, signal);
    current = { headers, untilMs: askedMs + expiresInMs - Math.min(30_000, expiresInMs / 10) };
    return headers;
  }

  async function join(signal: AbortSignal, send: SendLogin): Promise<Record<string, string>> {
    running ??= begin(send);
    const joined = running;
    joined.waiting += 1;
    const { promise: stopped, reject } = Promise.withResolvers<never>();
    const onAbort = () => reject(new TransientError('stopped before it was sent'));
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      return await Promise.race([joined.done, stopped]);
    } finally {
      signal.removeEventListener('abort', onAbort);
      joined.waiting -= 1;
      if (joined.waiting === 0) {
        joined.stop.abort();
        if (running === joined) running = undefined;
      }
    }
  }

  return {
    headers: async (_request, signal, send) => {
      if (current && clock.nowMs() < current.untilMs) return current.headers;
      return join(signal, send);
    },
    renew: (refused) => {
      // A request that was refused with an older login must not discard a newer one.
      const isCurrent =
        current && Object.entries(current.headers).every(([name, value]) => sent(refused, name) === value);
      if (isCurrent) current = undefined;
      return true;
    },
  };
}

interface RunningLogin {
  readonly done: Promise<Record<string, string>>;
  readonly stop: AbortController;
  waiting: number;
}

function sent(headers: Readonly<Record<string, string>>, name: string): string | undefined {
  return headers[name.toLowerCase()];
}

export interface ClientCredentials {
  /** A full URL, or a path below the base URL. */
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly scope?: string | undefined;
  /** Whether id and secret are sent in the body instead of the Authorization header. */
  readonly inBody?: boolean | undefined;
  /** Further fields of the token request, such as `audience` or `resource`. */
  readonly fields?: Readonly<Record<string, string>> | undefined;
}

const tokenForm = z.looseObject({
  access_token: z.string().min(1),
  // Some servers send it as text. Where it is missing or invalid, the token is used for five minutes.
  expires_in: z.coerce.number().positive().catch(300),
});

/** RFC 6749, section 5.2: the part of a refusal that may be shown. */
const tokenRefusal = z.looseObject({
  error: z.enum([
    'invalid_request',
    'invalid_client',
    'invalid_grant',
    'unauthorized_client',
    'unsupported_grant_type',
    'invalid_scope',
  ]),
});

/**
 * OAuth 2.0 client credentials (RFC 6749, section 4.4). Throws ConfigError where there is no token endpoint, AuthError
 * when it refuses the client.
 */
export function clientCredentials(settings: ClientCredentials, clock: Clock = systemClock): HttpAuth {
  const { tokenUrl, clientId, clientSecret, scope, inBody = false, fields = {} } = settings;
  return sessionAuth(async (send, signal) => {
    const secretText = clientSecret.reveal();
    const form = new URLSearchParams({ grant_type: 'client_credentials', ...fields });
    if (scope !== undefined) form.set('scope', scope);
    if (inBody) {
      form.set('client_id', clientId);
      form.set('client_secret', secretText);
    }
    // RFC 6749, section 2.3.1: id and secret are form-encoded each before they are joined.
    const basic = Buffer.from(`${encodeURIComponent(clientId)}:${encodeURIComponent(secretText)}`).toString('base64');
    const response = await send(tokenUrl, {
      method: 'POST',
      path: '',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        accept: 'application/json',
        ...(inBody ? {} : { authorization: `Basic ${basic}` }),
      },
      body: form.toString(),
      signal,
    });
    const { status } = response;
    if (status >= 300 && status < 400)
      throw new ConfigError(`the token endpoint answered ${status}, a redirection: set the URL that it points to`);
    if (status === 404 || status === 405 || status === 410)
      throw new ConfigError(`there is no token endpoint at the token URL: it answered ${status}`);
    const answer = response.jsonIfAny();
    if (status >= 300) {
      const reason = tokenRefusal.safeParse(answer).data?.error;
      throw new AuthError(
        `the token endpoint refused the client: it answered ${status}${reason === undefined ? '' : ` (${reason})`}`,
      );
    }
    if (answer === undefined)
      throw new TransientError(`the token endpoint answered ${status} with a body that is not JSON`);
    const token = tokenForm.safeParse(answer).data;
    if (!token) throw new AuthError(`the token endpoint answered ${status} without an access_token`);
    return { headers: { authorization: `Bearer ${token.access_token}` }, expiresInMs: token.expires_in * 1_000 };
  }, clock);
}

export interface Hmac {
  readonly secret: Secret;
  /** The header of the signature. */
  readonly header: string;
  readonly algorithm: 'sha256' | 'sha512';
  readonly encoding: 'hex' | 'base64';
  /** Written before the signature, for example `sha256=`. */
  readonly prefix?: string | undefined;
  /**
   * When set, `<seconds since 1970>.<body>` is signed and this header has the seconds; else the body alone is signed.
   */
  readonly timestampHeader?: string | undefined;
}

/** An HMAC signature over the bytes of the body. */
export function hmacAuth(settings: Hmac, clock: Clock = systemClock): HttpAuth {
  const { secret, header, algorithm, encoding, prefix = '', timestampHeader } = settings;
  return {
    headers: async ({ body }) => {
      const hmac = createHmac(algorithm, secret.reveal());
      const seconds = String(Math.floor(clock.nowMs() / 1_000));
      if (timestampHeader !== undefined) hmac.update(`${seconds}.`);
      const signature = `${prefix}${hmac.update(body).digest(encoding)}`;
      return {
        [header.toLowerCase()]: signature,
        ...(timestampHeader === undefined ? {} : { [timestampHeader.toLowerCase()]: seconds }),
      };
    },
  };
}
