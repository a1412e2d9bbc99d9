/**
 * Requests to an ERP over HTTP. Connections are kept and counted, answers are limited in time and size, a login that has
 * expired is renewed once, and whatever goes wrong is thrown as the ConnectorError that says what has to happen next. A
 * request that may have changed something and was not answered clearly is an UnknownOutcome, and is never repeated here.
 * What was sent to log in stands in no message, also where the ERP repeats it.
 */
import { type Clock, systemClock } from '#platform/clock.ts';
import { errorText } from '#platform/errors.ts';
import { createGuardedFetch, FetchError, type GuardedResponse } from '#platform/guarded-fetch.ts';
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
import { hideLogin } from './login-secrets.ts';

export interface HttpSettings {
  /** `https://erp.example.com/api`; paths of requests stand behind it. */
  readonly baseUrl: string;
  /** In this order; each sees the headers of those before it. Whatever is secret in a header belongs here. */
  readonly auth?: readonly HttpAuth[];
  /** Sent with each request. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Most requests at once, those of logins included: connections are kept open between them. Others wait their turn. 4
   * when it is left out.
   */
  readonly connections?: number;
  /** For one request, from waiting for a connection to the last byte of the answer. 30 s when it is left out. */
  readonly timeoutMs?: number;
  /** Longer answers fail. 16 MiB when it is left out. */
  readonly responseBytesMax?: number;
  /** PEM of authorities that are trusted beside the usual ones. */
  readonly caPem?: string;
  /** PEM of a certificate that the ERP wants to see, and of its key. */
  readonly clientCertificate?: { readonly certPem: string; readonly keyPem: string };
  /**
   * What an answer means where it is not what its status says: an error in a 200, a refusal that passes by itself, or
   * `fine` for one that is no error. Undefined: as the status says. An error that is made of an answer is best made
   * here: what was sent to log in is taken out of its message.
   */
  readonly errorOf?: (response: HttpResponse, request: HttpRequest) => ConnectorError | 'fine' | undefined;
  /** Whether the ERP has refused the login, and done nothing. Left out: when it answers 401. */
  readonly isLoginRefused?: (response: HttpResponse) => boolean;
  readonly clock?: Clock;
}

export interface HttpRequest {
  readonly method: string;
  /**
   * Behind the base URL, beginning with `/` or empty. Parts that come from data go through `pathSegment`. Never a secret
   * in it: use a header.
   */
  readonly path: string;
  /** Undefined ones are left out; a list gives the name as often as it has entries. */
  readonly query?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** A value that no header can hold is a DataError. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; `body` is sent as it is. */
  readonly json?: unknown;
  readonly body?: string | Uint8Array | undefined;
  /** Whether it changes nothing in the ERP; left out: of GET and HEAD it is true, of any other method false. */
  readonly safe?: boolean;
  /** Statuses that are answers and not errors, beside 2xx; as 404 where one asks whether something is there. */
  readonly accept?: readonly number[];
  readonly signal: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array;
  readonly text: () => string;
  /** Throws when it is no JSON: then nobody knows what the ERP has done. */
  readonly json: () => unknown;
  /** Undefined when it is no JSON. */
  readonly jsonIfAny: () => unknown;
}

export interface Http {
  /** Throws ConnectorError for everything but an answer that is wanted. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

const charactersShown = 500;

/** Throws ConfigError for settings that cannot work. */
export function createHttp(settings: HttpSettings): Http {
  const { auth = [], connections = 4, timeoutMs = 30_000, responseBytesMax = 16 * 2 ** 20 } = settings;
  const { clock = systemClock, isLoginRefused = ({ status }) => status === 401 } = settings;
  const base = baseOf(settings.baseUrl);
  const baseHeaders: Record<string, string> = {};
  const wrong = addHeaders(baseHeaders, settings.headers);
  if (wrong !== undefined) throw new ConfigError(`The header ${wrong} ${headerFault}`);
  const guarded = openConnections(settings, connections);
  const { always, asked } = splitAuth(auth);
  const limits = {
    allowedNetworks: anyNetwork,
    protocols: ['https:', 'http:'] as const,
    timeoutMs,
    responseBytesMax,
  };

  /** To any URL: the base's, or a token endpoint's. */
  async function exchange({ url, path }: Target, request: HttpRequest, sent: SentRequest): Promise<HttpResponse> {
    const { method, signal } = request;
    const isSafe = isSafeRequest(request);
    if (signal.aborted) throw new TransientError(stoppedBefore);
    let answer: GuardedResponse;
    try {
      const { headers, body } = sent;
      answer = await guarded.fetch({ ...limits, url, path, method, headers, body, signal });
    } catch (error) {
      throw error instanceof FetchError ? unanswered(error, isSafe, signal) : error;
    }
    // Of an error its beginning is enough.
    if (answer.truncated && answer.status < 400) throw tooLarge(answer.status, responseBytesMax, isSafe);
    return responseOf(answer, isSafe, sent.login);
  }

  function checked(response: HttpResponse, request: HttpRequest, login: Login): HttpResponse {
    try {
      const given = settings.errorOf?.(response, request);
      const error = given === 'fine' ? undefined : (given ?? errorOfStatus(response, request, clock.nowMs()));
      if (error) throw error;
      return response;
    } catch (error) {
      if (error instanceof Error) error.message = hideLogin(error.message, login);
      throw error;
    }
  }

  /** What is the same in every try of it. */
  function prepared(request: HttpRequest): Prepared {
    return { path: pathOf(base, request), ...contentOf(request, baseHeaders) };
  }

  async function once(request: HttpRequest, ready: Prepared): Promise<{ response: HttpResponse; login: Login }> {
    const { path, body } = ready;
    const headers = { ...ready.headers, ...always };
    if (asked.length === 0)
      return {
        response: await exchange({ url: base.href, path }, request, { headers, body, login: always }),
        login: always,
      };
    const login: Record<string, string> = { ...always };
    for (const one of asked) {
      const signed = { method: request.method, path, body: body ?? '', headers };
      const added = await one.headers(signed, request.signal, send);
      for (const name of Object.keys(added)) {
        const value = added[name] as string;
        const lower = name.toLowerCase();
        if (notInHeader.test(value)) throw new AuthError(`the header ${lower}, which is to log in, ${headerFault}`);
        headers[lower] = value;
        login[lower] = value;
      }
    }
    return { response: await exchange({ url: base.href, path }, request, { headers, body, login }), login };
  }

  /** For logins: without a login of its own, and without what goes to every request, as it may go elsewhere. */
  async function send(url: string, request: HttpRequest): Promise<HttpResponse> {
    const target = URL.canParse(url) ? { url } : { url: base.href, path: pathOf(base, { ...request, path: url }) };
    const response = await exchange(target, { ...request, safe: true }, { ...contentOf(request, {}), login: {} });
    const error = errorOfLogin(response, clock.nowMs());
    if (error) throw error;
    return response;
  }

  return {
    async request(request) {
      const ready = prepared(request);
      const { response, login } = await once(request, ready);
      if (request.accept?.includes(response.status) || !isLoginRefused(response))
        return checked(response, request, login);
      // Refused before anything was done: with a new login it is the same request still.
      let isRenewed = false;
      for (const one of auth) isRenewed = one.renew?.(login) === true || isRenewed;
      if (!isRenewed) return checked(response, request, login);
      const again = await once(request, ready);
      return checked(again.response, request, again.login);
    },
    close: () => guarded.close(),
  };
}

/** Those at the beginning that send the same with every request, and the others; what no header can hold is told when it is sent. */
function splitAuth(auth: readonly HttpAuth[]): { always: Login; asked: readonly HttpAuth[] } {
  const always: Record<string, string> = {};
  let known = 0;
  for (const { always: headers } of auth) {
    if (!headers || Object.values(headers).some((value) => notInHeader.test(value))) break;
    for (const [name, value] of Object.entries(headers)) always[name.toLowerCase()] = value;
    known += 1;
  }
  return { always, asked: auth.slice(known) };
}

/** Headers that were sent to log in. */
type Login = Readonly<Record<string, string>>;

interface Content {
  readonly headers: Record<string, string>;
  readonly body: HttpRequest['body'];
}

interface Prepared extends Content {
  readonly path: string;
}

interface Target {
  readonly url: string;
  readonly path?: string;
}

interface SentRequest extends Content {
  readonly login: Login;
}

const stoppedBefore = 'stopped before it was sent';
const headerFault = 'holds what no header can hold: a line break, or a character outside of Latin-1.';

/** One part of a path: nothing in it is taken for a `/`, a `?` or a `..`. Throws DataError for what no path can hold. */
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
  const wrong = addHeaders(headers, own);
  if (wrong !== undefined) throw new DataError(`the header ${wrong} ${headerFault}`);
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
    throw new ConfigError(`The certificate, its key or the authorities cannot be read: ${errorText(error)}`);
  }
}

function baseOf(baseUrl: string): URL {
  const url = URL.parse(baseUrl);
  if (!url || !/^https?:$/.test(url.protocol))
    throw new ConfigError('The base URL is not valid: it must be like https://erp.example.com/api');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new ConfigError(`The base URL of ${url.host} may hold no user, password, query or fragment.`);
  url.pathname = url.pathname.replace(/\/+$/, '');
  return url;
}

/** With its query, as it is sent. A path leads nowhere else than behind the base URL. */
function pathOf(base: URL, { path, query }: Pick<HttpRequest, 'path' | 'query'>): string {
  const isInside = plainPath.test(path) && !upwards.test(path);
  const whole = `${base.pathname === '/' ? '' : base.pathname}${path}`;
  if (isInside && query === undefined && asItStands.test(whole)) return whole;
  const url = isInside ? URL.parse(`${base.origin}${whole}`) : null;
  if (!url) throw new DataError(`the path ${JSON.stringify(path.slice(0, 200))} is no path behind the base URL`);
  for (const [name, value] of Object.entries(query ?? {}))
    for (const one of value === undefined ? [] : [value].flat()) url.searchParams.append(name, one);
  return `${url.pathname}${url.search}`;
}

/** What a URL may hold without being encoded (RFC 3986). */
const asItStands = /^\/[\w.~%!$&'()*+,;=:@/?-]*$/;
/** Without a fragment, and what is silently left out of URLs. */
const plainPath = /^(?:[/?][^#\t\r\n]*)?$/;
/** Before the query: a `.` or `..` between slashes, also written with codes; a URL takes `\` for a slash. */
const upwards = /^[^?]*(?:\\|\/(?:\.|%2e){1,2}(?:[/?]|$))/i;

function isSafeRequest({ safe, method }: Pick<HttpRequest, 'safe' | 'method'>): boolean {
  return safe ?? (method === 'GET' || method === 'HEAD');
}

/** By their lower-case names. Gives the name of one that cannot be sent: its value may be a secret. */
function addHeaders(headers: Record<string, string>, more: Readonly<Record<string, string>> = {}): string | undefined {
  for (const name of Object.keys(more)) {
    const value = more[name] as string;
    if (notInHeader.test(value)) return name.toLowerCase();
    headers[name.toLowerCase()] = value;
  }
  return undefined;
}

/** RFC 9110, section 5.5: visible characters, blanks and tabs. */
const notInHeader = /[^\t\x20-\x7e\x80-\xff]/;

function responseOf({ status, headers, body }: GuardedResponse, isSafe: boolean, login: Login): HttpResponse {
  let decoded: string | undefined;
  const text = () => {
    decoded ??= body.toString('utf8');
    return decoded;
  };
  let parsed: { json: unknown } | undefined;
  const jsonIfAny = () => {
    parsed ??= { json: jsonOf(text()) };
    return parsed.json;
  };
  return {
    status,
    headers,
    bytes: body,
    text,
    jsonIfAny,
    json: () => {
      const json = jsonIfAny();
      if (json !== undefined) return json;
      const message = `the ERP answered ${status} with what is no JSON: ${shown(hideLogin(text(), login))}`;
      throw isSafe ? new TransientError(message) : new UnknownOutcome(message);
    },
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unanswered({ message, code, sent }: FetchError, isSafe: boolean, signal: AbortSignal): ConnectorError {
  if (code === 'invalid') return new ConfigError(message);
  if (!sent) return new TransientError(signal.aborted ? stoppedBefore : `${message} Nothing was sent.`);
  return isSafe ? new TransientError(message) : new UnknownOutcome(message);
}

function tooLarge(status: number, bytesMax: number, isSafe: boolean): ConnectorError {
  const message = `the ERP answered ${status} with more than ${bytesMax} bytes`;
  // It would do so again.
  return isSafe ? new ConfigError(message) : new UnknownOutcome(message);
}

/** What a status means, unless it is a success or accepted; undefined when nothing is wrong. */
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
    const redirected = `${message} (a redirection, which is not followed: set the URL it leads to)`;
    // 303 says that it was done, and many mean that by 302.
    const mayBeDone = !isSafe && (status === 302 || status === 303);
    return mayBeDone ? new UnknownOutcome(redirected) : new ConfigError(redirected);
  }
  if (ofConfiguration.has(status)) return new ConfigError(message);
  if (status === 409 || status === 412) return new ConflictError(message);
  if (status === 423) return new LockedError(message);
  if (status < 500 && status !== 408) return new DataError(message);
  // Also a gateway says so, when what is behind it took too long or went away in the middle.
  return isSafe ? new TransientError(message) : new UnknownOutcome(message);
}

/** Payment required; what the ERP never takes in this form, or at this address; no such method or version of HTTP. */
const ofConfiguration: ReadonlySet<number> = new Set([402, 405, 406, 415, 421, 426, 428, 501, 505]);

/**
 * What is wrong with the answer to a login, when that says nothing about the login itself. Its text is not shown: it may
 * hold a token.
 */
function errorOfLogin({ status, headers }: HttpResponse, nowMs: number): ConnectorError | undefined {
  const message = `the ERP answered ${status} to the login`;
  const retryAfterMs = readRetryAfterMs(headers['retry-after'], nowMs);
  if (status === 429 || (status === 503 && retryAfterMs !== undefined))
    return new RateLimited(message, { retryAfterMs });
  if (status === 408 || status === 425 || status >= 500) return new TransientError(message);
  return undefined;
}

/** The beginning of an answer, in one line. */
function shown(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line === '' ? '(an empty answer)' : line.slice(0, charactersShown);
}
