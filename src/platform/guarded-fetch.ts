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
  method: string;
  /** `host` may not be given: it would also choose the name that the certificate is checked for. */
  headers?: Record<string, string>;
  body?: string | Uint8Array;
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
  const secureContext = createSecureContext(
    options.extraCa === undefined ? {} : { ca: [...getCACertificates('default'), options.extraCa] },
  );
  /** In the order of their last use. */
  const pools = new Map<string, OriginPool>();
  const exchanges = new Set<(error: FetchError) => void>();
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
    const key = [origin, ...allowedNetworks.map((cidr) => cidr.text).sort()].join(' ');
    const entry = pools.get(key) ?? openPool(origin, allowedNetworks);
    clearTimeout(entry.idleTimer);
    entry.users += 1;
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

  async function fetch(request: GuardedRequest): Promise<GuardedResponse> {
    const url = checkedUrl(request);
    if (closed) throw failure('aborted', url.hostname);
    const startedAt = performance.now();
    const ended = new AbortController();
    const end = (error: FetchError) => ended.abort(error);
    const timer = setTimeout(() => end(failure('timeout', url.hostname)), request.timeoutMs);
    const onAbort = () => end(failure('aborted', url.hostname));
    if (request.signal?.aborted) onAbort();
    request.signal?.addEventListener('abort', onAbort, { once: true });
    exchanges.add(end);

    const entry = enter(url.origin, request.allowedNetworks);
    try {
      const response = await endedBy(ended.signal, exchange(entry.pool, url, request, ended.signal));
      return { ...response, durationMs: Math.round(performance.now() - startedAt) };
    } catch (error) {
      throw asFetchError(error, url.hostname);
    } finally {
      clearTimeout(timer);
      request.signal?.removeEventListener('abort', onAbort);
      exchanges.delete(end);
      leave(entry);
    }
  }

  return {
    fetch,
    async close() {
      closed = true;
      for (const end of exchanges) end(failure('aborted', ''));
      await Promise.all([...pools].map(([key, entry]) => discard(key, entry)));
    },
  };
}

/**
 * Settles as the work does, or at once with the signal's reason: undici heeds a signal only when the request has a
 * connection, not while it waits for one. What the abandoned work still says is of no interest.
 */
function endedBy<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    work.then(resolve, reject);
  });
}

async function exchange(
  pool: Pool,
  url: URL,
  request: GuardedRequest,
  signal: AbortSignal,
): Promise<Omit<GuardedResponse, 'durationMs'>> {
  signal.throwIfAborted();
  const response = await pool.request({
    path: `${url.pathname}${url.search}`,
    method: request.method,
    headers: request.headers ?? {},
    body: request.body ?? null,
    signal,
  });
  const { body, truncated } = await readBody(response, request, url.hostname);
  return { status: response.statusCode, headers: joinedHeaders(response.headers), body, truncated };
}

async function readBody(
  response: Dispatcher.ResponseData,
  request: GuardedRequest,
  host: string,
): Promise<{ body: Buffer; truncated: boolean }> {
  const stream = response.body;
  // Leaving the loop destroys the stream, and with it the connection; what it says about that is no news.
  stream.on('error', () => {});
  if (request.onTooLarge === 'fail' && Number(response.headers['content-length']) > request.responseBytesMax) {
    stream.destroy();
    throw failure('too-large', host);
  }
  const chunks: Buffer[] = [];
  let length = 0;
  let truncated = false;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > request.responseBytesMax) {
      truncated = true;
      break;
    }
  }
  if (truncated && request.onTooLarge === 'fail') throw failure('too-large', host);
  return { body: Buffer.concat(chunks).subarray(0, request.responseBytesMax), truncated };
}

function joinedHeaders(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, typeof value === 'string' ? value : value.join(', ')]],
  );
  return Object.fromEntries(entries);
}

function checkedUrl(request: GuardedRequest): URL {
  const url = URL.canParse(request.url) ? new URL(request.url) : undefined;
  if (url === undefined) throw unsendable('The URL is not valid.');
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
