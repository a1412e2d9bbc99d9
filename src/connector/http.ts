/**
 * Requests to an ERP over HTTP. The client keeps connections open and limits their number, limits answers in time and
 * size, renews an expired login once, and throws every failure as the ConnectorError that says what has to happen next.
 * A request that may have changed something and got no clear answer is an UnknownOutcome; it is never repeated here. No
 * message shows what was sent to log in, even where the ERP repeats it.
 */
import { type Clock, systemClock } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { acceptEncoding, decodeAnswer, parseAnswer, unpackAnswer } from '#platform/foreign-answer.ts';
import type { GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import { createGuardedFetch, FetchError } from '#platform/guarded-fetch.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import {
  AuthError,
  ConfigError,
  ConflictError,
  type ConnectorError,
  DataError,
  LockedError,
  RateLimited,
  TransientError,
  UnknownOutcome,
} from './errors.ts';
import type { HttpAuth } from './http-auth.ts';
import type { HttpRequest, HttpResponse } from './http-messages.ts';
import { hideLogin } from './login-secrets.ts';

export interface HttpSettings {
  /** `https://erp.example.com/api`; paths of requests are appended to it. */
  readonly baseUrl: string;
  /** Applied in this order; each sees the headers of those before it. Every secret in a header belongs here. */
  readonly auth?: readonly HttpAuth[];
  /** Sent with each request. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * The largest number of requests at once, logins included; others wait. Connections stay open between requests.
   * Default: 4.
   */
  readonly connections?: number;
  /** The time limit of one request, from waiting for a connection to the last byte of the answer. Default: 30 s. */
  readonly timeoutMs?: number;
  /** Longer answers fail. Default: 16 MiB. */
  readonly responseBytesMax?: number;
  /** PEM of certificate authorities that are trusted in addition to the usual ones. */
  readonly caPem?: string;
  /** PEM of the client certificate that the ERP requires, and of its key. */
  readonly clientCertificate?: { readonly certPem: string; readonly keyPem: string };
  /**
   * What an answer means where its status does not say it: an error in a 200, a refusal that passes by itself, or
   * `fine` for an answer that is no error. Undefined: the status decides. Create errors from answers here rather than
   * elsewhere: what was sent to log in is removed from their messages.
   */
  readonly errorOf?: (response: HttpResponse, request: HttpRequest) => ConnectorError | 'fine' | undefined;
  /** Whether the ERP has refused the login and done nothing. Default: the status is 401. */
  readonly isLoginRefused?: (response: HttpResponse) => boolean;
  /** Called before each request, logins included: the request is sent when it has resolved (`requestTurns`). */
  readonly turn?: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly clock?: Clock;
}

export interface Http {
  /** Returns the answer. Throws a ConnectorError for an answer that is an error, and when there is none. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Aborts the requests that are running. */
  close(): Promise<void>;
}

const charactersShown = 500;

/** A client for one ERP. Throws ConfigError for settings that cannot work. */
export function createHttp(settings: HttpSettings): Http {
  const { auth = [], connections = 4, timeoutMs = 30_000, responseBytesMax = 16 * 2 ** 20 } = settings;
  const { clock = systemClock, isLoginRefused = ({ status }) => status === 401 } = settings;
  const base = baseOf(settings.baseUrl);
  const baseUrl = base.href;
  const baseHeaders: Record<string, string> = {};
  const invalid = addHeaders(baseHeaders, settings.headers);
  if (invalid !== undefined) throw new ConfigError(`The header ${invalid} ${headerFault}`);
  const guarded = openConnections(settings, connections);
  const { constant, perRequest } = splitAuth(auth);
  const pathOf = pathBelow(base);
  const protocols = ['https:', 'http:'] as const;

  /** Sends to any URL: behind the base URL, or a token endpoint. */
  async function exchange(request: HttpRequest, sent: SentRequest): Promise<HttpResponse> {
    const { method, signal } = request;
    const { url, path, headers, body, login } = sent;
    const isSafe = isSafeRequest(request);
    // Only the signal ends the wait for a turn.
    if (settings.turn) await settings.turn(signal).catch(() => undefined);
    if (signal.aborted) throw new TransientError(stoppedBefore);
    let answer: GuardedResponse;
    try {
      answer = await guarded.fetch({
        url,
        path,
        method,
        headers: { 'accept-encoding': acceptEncoding, ...headers },
        body,
        signal,
        allowedNetworks: anyNetwork,
        protocols,
        timeoutMs,
        responseBytesMax,
      });
    } catch (error) {
      throw error instanceof FetchError ? errorOfMissingAnswer(error, isSafe, signal) : error;
    }
    // For an error, the beginning of its text is enough.
    if (answer.truncated && answer.status < 400) throw errorOfTooLarge(answer.status, responseBytesMax, isSafe);
    return responseOf(answer, { isSafe, login, bytesMax: responseBytesMax });
  }

  /** The response, unless it is an error: that is thrown without what was sent to log in. */
  function checked(response: HttpResponse, request: HttpRequest, login: LoginHeaders): HttpResponse {
    try {
      const verdict = settings.errorOf?.(response, request);
      const error = verdict === 'fine' ? undefined : (verdict ?? errorOfStatus(response, request, clock.nowMs()));
      if (error) throw error;
      return response;
    } catch (error) {
      if (error instanceof Error) error.message = hideLogin(error.message, login);
      throw error;
    }
  }

  /** The request with the logins that are the same every time. */
  function prepare(request: HttpRequest): SentRequest {
    const { headers, body } = contentOf(request, baseHeaders);
    return { url: baseUrl, path: pathOf(request), headers: Object.assign(headers, constant), body, login: constant };
  }

  /** Adds the logins that each attempt gets anew. */
  async function withLogin(request: HttpRequest, prepared: SentRequest): Promise<SentRequest> {
    const { path = '', body } = prepared;
    const headers = { ...prepared.headers };
    const login: Record<string, string> = { ...constant };
    for (const method of perRequest) {
      const signed = { method: request.method, path, body: body ?? '', headers };
      const added = await method.headers(signed, request.signal, sendLogin);
      for (const name of Object.keys(added)) {
        const value = added[name] as string;
        const lower = name.toLowerCase();
        if (notInHeader.test(value))
          throw new AuthError(`the header ${lower}, which carries the login, ${headerFault}`);
        headers[lower] = value;
        login[lower] = value;
      }
    }
    return { ...prepared, headers, login };
  }

  /**
   * Sends a request of a login. It carries no login itself, and none of the headers of every request, as it may go to
   * another server.
   */
  async function sendLogin(url: string, request: HttpRequest): Promise<HttpResponse> {
    const target = URL.canParse(url) ? { url } : { url: baseUrl, path: pathOf({ ...request, path: url }) };
    const response = await exchange({ ...request, safe: true }, { ...target, ...contentOf(request, {}), login: {} });
    const error = errorOfLogin(response, clock.nowMs());
    if (error) throw error;
    return response;
  }

  return {
    async request(request) {
      const prepared = prepare(request);
      const first = perRequest.length === 0 ? prepared : await withLogin(request, prepared);
      const response = await exchange(request, first);
      if (request.accept?.includes(response.status) || !isLoginRefused(response))
        return checked(response, request, first.login);
      // The ERP refused the login before it did anything, so the request may be sent again with a new one.
      let isRenewed = false;
      for (const method of auth) isRenewed = method.renew?.(first.login) === true || isRenewed;
      if (!isRenewed) return checked(response, request, first.login);
      const second = await withLogin(request, prepared);
      return checked(await exchange(request, second), request, second.login);
    },
    close: () => guarded.close(),
  };
}

/**
 * Splits the logins: `constant` are the headers of those at the beginning of the list that send the same with every
 * request; `perRequest` are the rest. A value that no header can hold is reported when a request is sent.
 */
function splitAuth(auth: readonly HttpAuth[]): { constant: LoginHeaders; perRequest: readonly HttpAuth[] } {
  const constant: Record<string, string> = {};
  let count = 0;
  for (const { always: headers } of auth) {
    if (!headers || Object.values(headers).some((value) => notInHeader.test(value))) break;
    for (const [name, value] of Object.entries(headers)) constant[name.toLowerCase()] = value;
    count += 1;
  }
  return { constant, perRequest: auth.slice(count) };
}

/** Headers that were sent to log in. */
type LoginHeaders = Readonly<Record<string, string>>;

interface Content {
  readonly headers: Record<string, string>;
  readonly body: HttpRequest['body'];
}

interface SentRequest extends Content {
  readonly url: string;
  /** Replaces the path of the URL. */
  readonly path?: string;
  /** What of the headers belongs to a login. */
  readonly login: LoginHeaders;
}

const stoppedBefore = 'stopped before it was sent';
const headerFault = 'holds what no header can hold: a line break, or a character outside of Latin-1.';

/**
 * Encodes one part of a path, so that nothing in it is taken for a `/`, a `?` or a `..`. Throws DataError for a text
 * that no path can hold: empty, `.` or `..`.
 */
export function pathSegment(text: string): string {
  if (text === '' || text === '.' || text === '..')
    throw new DataError(`${JSON.stringify(text)} cannot be a part of a URL's path`);
  return encodeURIComponent(text.toWellFormed());
}

function contentOf(
  { headers: own, json, body }: Pick<HttpRequest, 'headers' | 'json' | 'body'>,
  common: Readonly<Record<string, string>>,
): Content {
  const headers = json === undefined ? { ...common } : { ...common, 'content-type': 'application/json' };
  const invalid = addHeaders(headers, own);
  if (invalid !== undefined) throw new DataError(`the header ${invalid} ${headerFault}`);
  return { headers, body: json === undefined ? body : JSON.stringify(json) };
}

function openConnections(settings: HttpSettings, connections: number) {
  const { caPem, clientCertificate } = settings;
  try {
    return createGuardedFetch({
      connectionsPerOrigin: connections,
      ...(caPem === undefined ? {} : { extraCa: caPem }),
      ...(clientCertificate === undefined ? {} : { clientCertificate }),
    });
  } catch (error) {
    throw new ConfigError(
      `The client certificate, its key or the certificate authorities cannot be read: ${errorText(error)}`,
    );
  }
}

function baseOf(baseUrl: string): URL {
  const url = URL.parse(baseUrl);
  if (!url || !/^https?:$/.test(url.protocol))
    throw new ConfigError('The base URL is not valid: it must be like https://erp.example.com/api');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new ConfigError(`The base URL of ${url.host} must not have a user, password, query or fragment.`);
  url.pathname = url.pathname.replace(/(?<!\/)\/+$/, '');
  return url;
}

/** How paths are sent, with their queries. The function throws DataError for a path that would leave the base URL. */
function pathBelow({ origin, pathname }: URL): (request: Pick<HttpRequest, 'path' | 'query'>) => string {
  const prefix = pathname === '/' ? '' : pathname;
  return ({ path, query }) => {
    if (query === undefined && needsNoEncoding.test(path)) return `${prefix}${path}`;
    const isInside = plainPath.test(path) && !upwards.test(path);
    const url = isInside ? URL.parse(`${origin}${prefix}${path}`) : null;
    if (!url) throw new DataError(`the path ${JSON.stringify(path.slice(0, 200))} is not a path below the base URL`);
    for (const [name, value] of Object.entries(query ?? {}))
      for (const item of value === undefined ? [] : [value].flat()) url.searchParams.append(name, item);
    return `${url.pathname}${url.search}`;
  };
}

/**
 * Parts of only such characters as need no encoding in a URL (RFC 3986), none of which begins as `.`, `..` or `%2e` do,
 * and perhaps a query.
 */
const needsNoEncoding = /^(?:\/(?:[\w~!$&'()*+,;=:@-][\w.~%!$&'()*+,;=:@-]*)?)+(?:\?[\w.~%!$&'()*+,;=:@/?-]*)?$/;
/** Without a fragment, and without the characters that URL parsers silently drop. */
const plainPath = /^(?:[/?][^#\t\r\n]*)?$/;
/** A `.` or `..` between slashes before the query, also percent-encoded; URL parsers take `\` for a slash. */
const upwards = /^[^?]*(?:\\|\/(?:\.|%2e){1,2}(?:[/?]|$))/i;

function isSafeRequest({ safe, method }: Pick<HttpRequest, 'safe' | 'method'>): boolean {
  return safe ?? (method === 'GET' || method === 'HEAD');
}

/**
 * Adds headers under their lower-case names. Returns the name of the first one that cannot be sent, without its value,
 * which may be a secret.
 */
function addHeaders(headers: Record<string, string>, more: Readonly<Record<string, string>> = {}): string | undefined {
  for (const name of Object.keys(more)) {
    const value = more[name] as string;
    if (notInHeader.test(value)) return name.toLowerCase();
    headers[name.toLowerCase()] = value;
  }
  return undefined;
}

/** A character other than those of RFC 9110, section 5.5: visible characters, blanks and tabs. */
const notInHeader = /[^\t\x20-\x7e\x80-\xff]/;

/** The response; its text and its JSON are read when they are wanted. */
async function responseOf(
  answer: GuardedResponse,
  { isSafe, login, bytesMax }: { isSafe: boolean; login: LoginHeaders; bytesMax: number },
): Promise<HttpResponse> {
  const { status, headers } = answer;
  const subject = `the ERP answered ${status} with a body that`;
  /** For an error the status is enough: then the text says why it cannot be read. */
  const textOfFault = (fault: unknown): string => {
    if (status < 400) throw errorOfUnreadable(fault, isSafe);
    return errorText(fault);
  };

  let unpacked = answer;
  let decoded: string | undefined;
  try {
    unpacked = await unpackAnswer(answer, subject, bytesMax);
  } catch (error) {
    decoded = textOfFault(error);
  }
  const text = () => {
    try {
      decoded ??= decodeAnswer(unpacked, subject);
    } catch (error) {
      decoded = textOfFault(error);
    }
    return decoded;
  };

  let parsed: { json: unknown } | { notJson: AppError } | undefined;
  const parse = () => {
    try {
      return { json: parseAnswer(text(), answer, subject) };
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      if (error.code === 'too-large' && status < 400) throw errorOfUnreadable(error, isSafe);
      return { notJson: error };
    }
  };
  return {
    status,
    headers,
    bytes: unpacked.body,
    text,
    jsonIfAny: () => {
      parsed ??= parse();
      return 'json' in parsed ? parsed.json : undefined;
    },
    json: () => {
      parsed ??= parse();
      if ('json' in parsed) return parsed.json;
      const message = `${parsed.notJson.message} It begins with: ${shown(hideLogin(text(), login))}`;
      throw isSafe ? new TransientError(message) : new UnknownOutcome(message);
    },
  };
}

function errorOfUnreadable(fault: unknown, isSafe: boolean): ConnectorError {
  const message = errorText(fault);
  if (!isSafe) return new UnknownOutcome(message);
  // A repeated read would get the same answer.
  return fault instanceof AppError && fault.code === 'too-large'
    ? new ConfigError(message)
    : new TransientError(message);
}

function errorOfMissingAnswer(
  { message, code, sent }: FetchError,
  isSafe: boolean,
  signal: AbortSignal,
): ConnectorError {
  if (code === 'invalid') return new ConfigError(message);
  if (!sent) return new TransientError(signal.aborted ? stoppedBefore : `${message} Nothing was sent.`);
  return isSafe ? new TransientError(message) : new UnknownOutcome(message);
}

function errorOfTooLarge(status: number, bytesMax: number, isSafe: boolean): ConnectorError {
  const message = `the ERP answered ${status} with more than ${bytesMax} bytes`;
  // A repeated read would get the same answer.
  return isSafe ? new ConfigError(message) : new UnknownOutcome(message);
}

/** The error that a status stands for; undefined for 2xx and for a status that the request accepts. */
export function errorOfStatus(
  { status, headers, text }: Pick<HttpResponse, 'status' | 'headers' | 'text'>,
  request: Pick<HttpRequest, 'method' | 'path' | 'safe' | 'accept'>,
  nowMs: number,
): ConnectorError | undefined {
  if ((status >= 200 && status < 300) || request.accept?.includes(status)) return undefined;
  const { method, path } = request;
  const isSafe = isSafeRequest(request);
  const message = `the ERP answered ${status} to ${method} ${path}: ${shown(text())}`;
  const retryAfterMs = readRetryAfterMs(headers['retry-after'], nowMs);
  if (status === 429 || (status === 503 && retryAfterMs !== undefined))
    return new RateLimited(message, { retryAfterMs });
  if (status === 425) return new TransientError(message);
  if (status === 401 || status === 403 || status === 407 || status === 511) return new AuthError(message);
  if (status < 400) {
    const redirected = `${message} (a redirection, which is not followed: set the URL that it points to)`;
    // 303 says that the request was carried out, and many servers use 302 for that.
    const mayBeDone = !isSafe && (status === 302 || status === 303);
    return mayBeDone ? new UnknownOutcome(redirected, { answered: true }) : new ConfigError(redirected);
  }
  if (configurationStatuses.has(status)) return new ConfigError(message);
  if (status === 409 || status === 412) return new ConflictError(message);
  if (status === 423) return new LockedError(message);
  if (status < 500 && status !== 408) return new DataError(message);
  // A 500 is the ERP's own: it has failed, and works on the request no longer. The others, and 408, come from a gateway,
  // too, and the ERP behind it may still be at work.
  return isSafe ? new TransientError(message) : new UnknownOutcome(message, { answered: status === 500 });
}

/** Payment required; a form or address that the ERP never takes; a method or HTTP version that it does not know. */
const configurationStatuses: ReadonlySet<number> = new Set([402, 405, 406, 415, 421, 426, 428, 501, 505]);

/**
 * The error of an answer to a login that says nothing about the login itself; undefined for any other answer. The
 * answer's text is not shown: it may contain a token.
 */
function errorOfLogin({ status, headers }: HttpResponse, nowMs: number): ConnectorError | undefined {
  const message = `the ERP answered ${status} to the login`;
  const retryAfterMs = readRetryAfterMs(headers['retry-after'], nowMs);
  if (status === 429 || (status === 503 && retryAfterMs !== undefined))
    return new RateLimited(message, { retryAfterMs });
  if (status === 408 || status === 425 || status >= 500) return new TransientError(message);
  return undefined;
}

/** The beginning of an answer, on one line. */
function shown(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line === '' ? '(an empty answer)' : line.slice(0, charactersShown);
}
