/**
 * HTTP requests to URLs that other people gave us (webhooks, token and file URLs). The guard acts when the connection is
 * made: the host is resolved once, every address must be permitted, and only those checked addresses are connected to,
 * so a name that resolves differently the second time gains nothing. Certificates are always verified, redirects are
 * handed back, and one time limit covers everything from the name lookup to the last byte of the body.
 *
 * A kept connection was checked for whoever opened it. It is therefore pooled by origin AND by the allowed networks: an
 * organisation that may reach 10.0.0.0/8 must not leave a connection there that another, which may not, would find.
 */
import { lookup as systemLookup } from 'node:dns/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { createSecureContext, getCACertificates } from 'node:tls';
import { callbackify } from 'node:util';
import { buildConnector, type Dispatcher, Pool } from 'undici';
import { AppError, type ErrorCode, errorText, type Recovery } from './errors.ts';
import { addressPermitted, type Cidr, specialRangeOf } from './network-guard.ts';

/**
 * - `timeout`, `dns`, `refused`, `tls`, `reset`: the other side could not be reached or went away; code `unavailable`
 * - `blocked`: the guard refused the address; code `forbidden`
 * - `too-large`: the body passed the limit and `onTooLarge` is `fail`; code `too-large`
 * - `aborted`: the caller's signal, or `close()`; code `unavailable`
 * - `protocol`: the answer was not HTTP (code `unavailable`), or the request cannot be sent at all (code `invalid`)
 */
export type FetchFailure =
  | 'timeout'
  | 'dns'
  | 'refused'
  | 'tls'
  | 'reset'
  | 'blocked'
  | 'too-large'
  | 'aborted'
  | 'protocol';

/** An AppError that also says, for machines, what went wrong. Its texts name the host, never path, query, header or body. */
export class FetchError extends AppError {
  readonly reason: FetchFailure;
  /** Whether any of the request may have left this process. */
  sent = false;

  constructor(
    code: ErrorCode,
    reason: FetchFailure,
    publicMessage: string,
    options: { message?: string; recovery?: Recovery },
  ) {
    super(code, publicMessage, options);
    this.name = 'FetchError';
    this.reason = reason;
  }
}

export interface GuardedRequest {
  url: string;
  /** Instead of the URL's own path and query, and sent as it stands: only what may stand in a URL. */
  path?: string | undefined;
  method: string;
  /** `host` may not be given: it would also choose the name that the certificate is checked for. */
  headers?: Record<string, string>;
  body?: string | Uint8Array | undefined;
  /** Networks that this caller may reach although they are not public. */
  allowedNetworks: readonly Cidr[];
  /** For the whole exchange: waiting for a connection, DNS, connecting, TLS, sending, and reading the body. */
  timeoutMs: number;
  responseBytesMax: number;
  /** `truncate` (the default) gives the first `responseBytesMax` bytes and closes the connection; `fail` throws. */
  onTooLarge?: 'truncate' | 'fail';
  signal?: AbortSignal;
  /** `['https:']` unless told otherwise. */
  protocols?: readonly ('https:' | 'http:')[];
}

export interface GuardedResponse {
  status: number;
  /** Lower-case names; the values of a repeated header are joined by `, `. */
  headers: Record<string, string>;
  /** The bytes as they came: nothing is decompressed. */
  body: Buffer;
  truncated: boolean;
  durationMs: number;
}

/**
 * Any status is a result, also 3xx and 5xx. Rejects with a `FetchError`, and with nothing else. When it settles nothing
 * of the exchange goes on, except that a whole connection is kept for the next request.
 */
export type GuardedFetch = (request: GuardedRequest) => Promise<GuardedResponse>;

export interface GuardedFetchOptions {
  /** PEM of authorities trusted beside the usual ones (Node's own and NODE_EXTRA_CA_CERTS). */
  extraCa?: string;
  /** PEM of a certificate that is shown to servers that want one, and of its key. */
  clientCertificate?: { certPem: string; keyPem: string };
  /** More requests than this at once to one origin wait, and their time limit runs meanwhile. Default 4. */
  connectionsPerOrigin?: number;
  /** How long an unused connection is kept; less when the server says so. Default 4 s, below what servers usually keep. */
  keepAliveMs?: number;
  /** Resolves a host name to all its addresses. The system's resolver unless a test gives its own. */
  lookup?: (hostname: string) => Promise<readonly { address: string; family: number }[]>;
}

/** Beyond these, pools without a request are closed, the longest unused first. */
const poolsMax = 500;
/** A connection attempt that outlives this is given up, so that the next request tries anew. */
const connectTimeoutMs = 10_000;

interface OriginPool {
  readonly pool: Pool;
  /** Sockets that are not connected yet: undici does not know them, so closing the pool would leave them. */
  readonly connecting: Set<Socket>;
  users: number;
  idleTimer?: NodeJS.Timeout;
}

/** Creates the fetch function and its connection pools. `close()` ends every exchange (`aborted`) and connection. */
export function createGuardedFetch(options: GuardedFetchOptions = {}): { fetch: GuardedFetch; close(): Promise<void> } {
  const { connectionsPerOrigin = 4, keepAliveMs = 4_000 } = options;
  const lookup = options.lookup ?? ((hostname: string) => systemLookup(hostname, { all: true }));
  // Made once: reading some 150 root certificates anew for each connection would cost more than its handshake.
  const { extraCa, clientCertificate } = options;
  const secureContext = createSecureContext({
    ...(extraCa === undefined ? {} : { ca: [...getCACertificates('default'), extraCa] }),
    ...(clientCertificate && { cert: clientCertificate.certPem, key: clientCertificate.keyPem }),
  });
  /** In the order of their last use. */
  const pools = new Map<string, OriginPool>();
  const exchanges = new Set<Exchange>();
  let closed = false;

  function openPool(origin: string, allowedNetworks: readonly Cidr[]): OriginPool {
    const connecting = new Set<Socket>();
    const connector = buildConnector({
      secureContext,
      rejectUnauthorized: true,
      autoSelectFamily: true,
      allowH2: false,
      timeout: connectTimeoutMs,
      lookup: guardedLookup(lookup, allowedNetworks),
    }) as (...args: Parameters<buildConnector.connector>) => Socket;

    const pool = new Pool(origin, {
      connections: connectionsPerOrigin,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // The exchange has a time limit of its own.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect(target, callback) {
        // Node resolves no address literal, so the guarded lookup would not be asked.
        if (isIP(target.hostname) !== 0 && !addressPermitted(target.hostname, allowedNetworks)) {
          callback(blocked(target.hostname, target.hostname), null);
          return;
        }
        // A fully qualified `example.org.` stands without its dot in certificates and in SNI.
        const servername = isIP(target.hostname) === 0 ? target.hostname.replace(/\.$/, '') : '';
        const socket = connector({ ...target, servername }, (...result) => {
          connecting.delete(socket);
          callback(...result);
        });
        connecting.add(socket);
      },
    });
    return { pool, connecting, users: 0 };
  }

  function enter(origin: string, allowedNetworks: readonly Cidr[]): OriginPool {
    const key = `${origin} ${textOfNetworks(allowedNetworks)}`;
    const entry = pools.get(key) ?? openPool(origin, allowedNetworks);
    clearTimeout(entry.idleTimer);
    entry.users += 1;
    if (pools.size === 1 && pools.has(key)) return entry;
    pools.delete(key);
    pools.set(key, entry);
    for (const [otherKey, other] of pools) {
      if (pools.size <= poolsMax) break;
      if (other.users === 0) void discard(otherKey, other);
    }
    return entry;
  }

  function leave(entry: OriginPool): void {
    entry.users -= 1;
    if (entry.users > 0 || closed) return;
    // Nobody waits for these any more.
    for (const socket of entry.connecting) socket.destroy(new Error('the request has ended'));
    entry.idleTimer = setTimeout(() => {
      for (const [key, candidate] of pools) if (candidate === entry) void discard(key, entry);
    }, keepAliveMs + 1_000).unref();
  }

  function discard(key: string, entry: OriginPool): Promise<void> {
    pools.delete(key);
    clearTimeout(entry.idleTimer);
    for (const socket of entry.connecting) socket.destroy(new Error('the pool was closed'));
    return entry.pool.destroy();
  }

  function fetch(request: GuardedRequest): Promise<GuardedResponse> {
    let url: URL;
    try {
      url = checkedUrl(request);
      if (closed) throw failure('aborted', url.hostname);
    } catch (error) {
      return Promise.reject(error);
    }
    const entry = enter(url.origin, request.allowedNetworks);
    const exchange = new Exchange(url, request, (settled) => {
      exchanges.delete(settled);
      leave(entry);
    });
    exchanges.add(exchange);
    return exchange.run(entry.pool);
  }

  return {
    fetch,
    async close() {
      closed = true;
      for (const exchange of exchanges) exchange.end('aborted');
      await Promise.all([...pools].map(([key, entry]) => discard(key, entry)));
    },
  };
}

/** Whom a signal ends: many exchanges have the same one, and a listener costs more than a place in a set. */
interface Waiting {
  readonly exchanges: Set<Exchange>;
  readonly onAbort: () => void;
}

const waitingBySignal = new WeakMap<AbortSignal, Waiting>();

function waitForAbort(signal: AbortSignal, exchange: Exchange): void {
  const known = waitingBySignal.get(signal);
  if (known) {
    known.exchanges.add(exchange);
    return;
  }
  const exchanges = new Set([exchange]);
  const onAbort = () => exchanges.forEach((each) => each.end('aborted'));
  waitingBySignal.set(signal, { exchanges, onAbort });
  signal.addEventListener('abort', onAbort, { once: true });
}

/** The last one takes the listener along: Node never frees a signal made by AbortSignal.any that is listened to. */
function waitNoMore(signal: AbortSignal, exchange: Exchange): void {
  const waiting = waitingBySignal.get(signal);
  if (!waiting?.exchanges.delete(exchange) || waiting.exchanges.size > 0) return;
  waitingBySignal.delete(signal);
  signal.removeEventListener('abort', waiting.onAbort);
}

/**
 * One request over a pool, and what the pool tells of it. It settles as soon as it is ended: given up while it waits for a
 * connection, it is not sent at all, and what the connection says after that is no news. A class, as there is one for
 * each request: closures would be ten objects.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #url: URL;
  readonly #request: GuardedRequest;
  readonly #onSettled: (exchange: Exchange) => void;
  readonly #result = Promise.withResolvers<GuardedResponse>();
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #ended: FetchError | undefined;
  #isSettled = false;
  /** From when it gets its connection nobody knows what of it has left. */
  #sent = false;
  #status = 0;
  #headers: Record<string, string> = {};
  #chunks: Buffer[] = [];
  #length = 0;

  constructor(url: URL, request: GuardedRequest, onSettled: (exchange: Exchange) => void) {
    this.#url = url;
    this.#request = request;
    this.#onSettled = onSettled;
    this.#timer = setTimeout(endInTime, request.timeoutMs, this);
    if (request.signal) waitForAbort(request.signal, this);
  }

  run(pool: Pool): Promise<GuardedResponse> {
    const { method, headers = {}, body = null, path, signal } = this.#request;
    if (signal?.aborted) this.end('aborted');
    else pool.dispatch({ path: path ?? `${this.#url.pathname}${this.#url.search}`, method, headers, body }, this);
    return this.#result.promise;
  }

  /** Before its time. */
  end(reason: 'timeout' | 'aborted'): void {
    this.#cut(failure(reason, this.#url.hostname));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#ended) controller.abort(this.#ended);
    else this.#sent = true;
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = joinedHeaders(headers);
    const { onTooLarge, responseBytesMax } = this.#request;
    if (onTooLarge === 'fail' && Number(this.#headers['content-length']) > responseBytesMax)
      this.#cut(failure('too-large', this.#url.hostname));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isSettled) return;
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length <= this.#request.responseBytesMax) return;
    if (this.#request.onTooLarge !== 'fail') this.#answer(true);
    this.#cut(failure('too-large', this.#url.hostname));
  }

  onResponseEnd(): void {
    this.#answer(false);
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    this.#fail(error);
  }

  #cut(error: FetchError): void {
    this.#ended = error;
    this.#fail(error);
    this.#controller?.abort(error);
  }

  #answer(truncated: boolean): void {
    if (!this.#settle()) return;
    const [only] = this.#chunks;
    const whole = only && this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks);
    this.#result.resolve({
      status: this.#status,
      headers: this.#headers,
      body: truncated ? whole.subarray(0, this.#request.responseBytesMax) : whole,
      truncated,
      durationMs: Math.round(performance.now() - this.#startedAt),
    });
  }

  #fail(error: unknown): void {
    if (!this.#settle()) return;
    const failed = asFetchError(error, this.#url.hostname);
    failed.sent = this.#sent;
    this.#result.reject(failed);
  }

  /** False when it is settled already. */
  #settle(): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    if (this.#request.signal) waitNoMore(this.#request.signal, this);
    this.#onSettled(this);
    return true;
  }
}

function endInTime(exchange: Exchange): void {
  exchange.end('timeout');
}

function joinedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const joined: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) joined[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return joined;
}

/** Callers give the same list with each request. */
const networkTexts = new WeakMap<readonly Cidr[], string>();

function textOfNetworks(networks: readonly Cidr[]): string {
  let text = networkTexts.get(networks);
  if (text === undefined) {
    text = networks
      .map((cidr) => cidr.text)
      .sort()
      .join(' ');
    networkTexts.set(networks, text);
  }
  return text;
}

/** Of the last URL, which many callers ask for again and again. */
let lastParsed: { readonly text: string; readonly url: URL | null } = { text: '', url: null };

function parsedUrl(text: string): URL | null {
  if (lastParsed.text !== text) lastParsed = { text, url: URL.parse(text) };
  return lastParsed.url;
}

function checkedUrl(request: GuardedRequest): URL {
  const url = parsedUrl(request.url);
  if (!url) throw unsendable('The URL is not valid.');
  const protocols: readonly string[] = request.protocols ?? ['https:'];
  if (!protocols.includes(url.protocol))
    throw unsendable(`A URL must begin with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}.`);
  if (url.username !== '' || url.password !== '')
    throw unsendable(`The URL for ${url.hostname} holds a user name or password, which a URL may not.`);
  if (Object.keys(request.headers ?? {}).some((name) => name.toLowerCase() === 'host'))
    throw unsendable('The Host header cannot be set: it follows from the URL.');
  return url;
}

/** For net.connect: resolves once, and answers only with addresses that were checked. */
function guardedLookup(
  lookup: NonNullable<GuardedFetchOptions['lookup']>,
  allowedNetworks: readonly Cidr[],
): LookupFunction {
  const resolve = callbackify(async (hostname: string) => {
    const addresses = await lookup(hostname).catch((error: unknown) => {
      throw failure('dns', hostname, errorText(error));
    });
    if (addresses.length === 0) throw failure('dns', hostname, 'no address');
    // One that is not permitted spoils all: which of them answers first must not decide over security.
    const refused = addresses.find(({ address }) => !addressPermitted(address, allowedNetworks));
    if (refused) throw blocked(hostname, refused.address);
    return [...addresses];
  });
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error || !first) callback(error, '');
      else if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

/** The address itself is told to the log only: it would show the names of the inner network to outsiders. */
function blocked(host: string, address: string): FetchError {
  const publicMessage = `${host} is at an address that is not public, and its network is not among the allowed ones.`;
  return new FetchError('forbidden', 'blocked', publicMessage, {
    message: `${host} was refused: ${address} is ${specialRangeOf(address)} and in no allowed network.`,
    // The name may point elsewhere tomorrow, but trying again by itself does not help.
    recovery: { do: 'skip' },
  });
}

function unsendable(publicMessage: string): FetchError {
  return new FetchError('invalid', 'protocol', publicMessage, { recovery: { do: 'skip' } });
}

const publicTexts: Record<FetchFailure, (host: string) => string> = {
  timeout: (host) => `${host} did not answer in time.`,
  dns: (host) => `The name ${host} could not be resolved.`,
  refused: (host) => `${host} could not be connected to.`,
  tls: (host) => `A secure connection to ${host} could not be made: its certificate or TLS settings were not accepted.`,
  reset: (host) => `${host} closed the connection before the answer was complete.`,
  blocked: (host) => `${host} may not be connected to.`,
  'too-large': (host) => `The answer of ${host} is larger than allowed.`,
  aborted: (host) => `The request to ${host || 'the other side'} was given up.`,
  protocol: (host) => `${host} did not answer with valid HTTP.`,
};

function failure(reason: FetchFailure, host: string, detail?: string): FetchError {
  const publicMessage = publicTexts[reason](host);
  return new FetchError(reason === 'too-large' ? 'too-large' : 'unavailable', reason, publicMessage, {
    message: detail === undefined ? publicMessage : `${publicMessage} (${detail})`,
    recovery: reason === 'too-large' ? { do: 'skip' } : { do: 'retry' },
  });
}

/** What undici and Node throw, by their codes. */
const reasonsByCode: readonly [pattern: RegExp, reason: FetchFailure][] = [
  [/^(ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/, 'timeout'],
  [/^(ENOTFOUND|ENODATA|EAI_.*)$/, 'dns'],
  [/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL|EACCES|EPERM)$/, 'refused'],
  [
    /^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERROR_IN_|INVALID_(CA|PURPOSE)$)/,
    'tls',
  ],
  [/^(HOSTNAME_MISMATCH|PATH_LENGTH_EXCEEDED)$/, 'tls'],
  [/^(HPE_|HTTPParserError$|UND_ERR_HEADERS_OVERFLOW$|UND_ERR_RES)/, 'protocol'],
  [/^(UND_ERR_DESTROYED|UND_ERR_CLOSED)$/, 'aborted'],
];

/** The original stays behind as text only: undici's errors carry sockets, requests and pieces of the answer. */
function asFetchError(error: unknown, host: string): FetchError {
  if (error instanceof FetchError) return error;
  const code = codeOf(error);
  if (/^UND_ERR_(INVALID_ARG|REQ_CONTENT_LENGTH_MISMATCH)$/.test(code))
    return unsendable(`The request to ${host} is not valid: its method or a header.`);
  const reason = reasonsByCode.find(([pattern]) => pattern.test(code))?.[1] ?? 'reset';
  return failure(reason, host, `${code} ${errorText(error)}`.trim());
}

/** Some of undici's parser errors have no code but the class's name. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
