/**
 * HTTP requests to URLs that other people have entered (webhooks, token and file URLs). The guard acts when the
 * connection is made: the host is resolved once, every address must be permitted, and the connection goes only to those
 * checked addresses, so a name that resolves differently the second time gains nothing. Certificates are always
 * verified, redirects are returned instead of followed, and one time limit covers everything from the name lookup to
 * the last byte of the body.
 */
import { lookup } from 'node:dns/promises';
import { createSecureContext, getCACertificates } from 'node:tls';
import { Exchange, type Target } from './guarded-fetch/exchange.ts';
import { fetchErrorOf, unsendable } from './guarded-fetch/fetch-error.ts';
import type { ResolveHost } from './guarded-fetch/guarded-lookup.ts';
import type { GuardedRequest, GuardedResponse } from './guarded-fetch/guarded-request.ts';
import { createLookupTurns } from './guarded-fetch/lookup-turns.ts';
import { createOriginPools } from './guarded-fetch/origin-pools.ts';
import { tracedFetch } from './guarded-fetch/traced-fetch.ts';
import { createSharedTimer } from './shared-timer.ts';
import { currentSpan } from './telemetry.ts';

export { FetchError } from './guarded-fetch/fetch-error.ts';

/**
 * Any status is a result, also 3xx and 5xx. Rejects with a `FetchError`, and with nothing else. When the promise
 * settles, the exchange is over, except that an intact connection is kept for the next request.
 */
export type GuardedFetch = (request: GuardedRequest) => Promise<GuardedResponse>;

export interface GuardedFetchOptions {
  /** PEM of authorities trusted beside the usual ones (Node's own and NODE_EXTRA_CA_CERTS). */
  extraCa?: string;
  /** The hosts for which `extraCa` is trusted, in lower case. Default: all. */
  extraCaHosts?: readonly string[];
  /** PEM of a certificate, and of its key, that is shown to servers that ask for one. */
  clientCertificate?: { certPem: string; keyPem: string };
  /**
   * More requests than this of one group at once to one origin wait, and their time limit runs meanwhile. Default 4.
   */
  connectionsPerOrigin?: number;
  /**
   * How long an unused connection is kept; less when the server says so. Default 4 s, below what servers usually keep.
   */
  keepAliveMs?: number;
  /** Resolves a host name to all its addresses. The system's resolver unless a test passes its own. */
  lookup?: ResolveHost;
}

/** Creates the fetch function and its connection pools. `close()` ends every exchange (`aborted`) and connection. */
export function createGuardedFetch(options: GuardedFetchOptions = {}): { fetch: GuardedFetch; close(): Promise<void> } {
  const { connectionsPerOrigin = 4, keepAliveMs = 4_000, extraCa, extraCaHosts, clientCertificate } = options;
  const own = clientCertificate && { cert: clientCertificate.certPem, key: clientCertificate.keyPem };
  // Made once: reading some 150 root certificates again for each connection would cost more than its handshake. What was
  // given to this function is read now, so that it is refused here if it cannot be read; the rest for the first connection
  // that needs it, as it takes 1 to 2 MB.
  const createWithExtra = (ca: string) => createSecureContext({ ...own, ca: [...getCACertificates('default'), ca] });
  let usual = own && createSecureContext(own);
  let withExtra = extraCa !== undefined && extraCaHosts === undefined ? createWithExtra(extraCa) : undefined;
  const secureContextOf = (hostname: string) => {
    const isExtraHost = extraCaHosts?.includes(hostname.replace(/^\[(.*)\]$/, '$1')) ?? true;
    if (extraCa !== undefined && isExtraHost) return (withExtra ??= createWithExtra(extraCa));
    return (usual ??= createSecureContext());
  };
  const lookups = createLookupTurns(options.lookup ?? ((hostname) => lookup(hostname, { all: true })));
  const pools = createOriginPools({ secureContextOf, lookups, connectionsPerOrigin, keepAliveMs });
  const exchanges = new Set<Exchange>();
  const timeLimit = createSharedTimer((nowMs) => {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const exchange of exchanges)
      if (exchange.deadlineMs <= nowMs) exchange.end('timeout');
      else nextMs = Math.min(nextMs, exchange.deadlineMs);
    return nextMs;
  });
  let closed = false;

  function send(request: GuardedRequest): Promise<GuardedResponse> {
    let target: Target;
    try {
      target = checkedTarget(request);
      if (closed) throw fetchErrorOf('aborted', target.hostname);
    } catch (error) {
      return Promise.reject(error);
    }
    const entry = pools.enter(target.origin, request);
    const exchange = new Exchange(target, request, entry.connections, (finished) => {
      exchanges.delete(finished);
      pools.leave(entry);
    });
    exchanges.add(exchange);
    timeLimit.setFor(exchange.deadlineMs);
    return exchange.run();
  }

  return {
    fetch: (request) => (currentSpan() ? tracedFetch(send, request) : send(request)),
    async close() {
      closed = true;
      for (const exchange of exchanges) exchange.end('aborted');
      timeLimit.clear();
      await pools.close();
    },
  };
}

interface ParsedUrl extends Target {
  readonly protocol: string;
  readonly hasLogin: boolean;
}

/** The URLs that were parsed last: many callers request the same ones again and again. */
const parsed = new Map<string, ParsedUrl>();
const parsedMost = 500;

function parsedUrl(text: string): ParsedUrl | undefined {
  const known = parsed.get(text);
  if (known) return known;
  const url = URL.parse(text);
  if (!url) return undefined;
  const { origin, hostname, protocol, pathname, search, username, password } = url;
  const read = { origin, hostname, protocol, path: `${pathname}${search}`, hasLogin: username + password !== '' };
  if (parsed.size >= parsedMost) parsed.clear();
  parsed.set(text, read);
  return read;
}

function checkedTarget(request: GuardedRequest): Target {
  const url = parsedUrl(request.url);
  if (!url) throw unsendable('The URL is not valid.');
  const protocols: readonly string[] = request.protocols ?? ['https:'];
  if (!protocols.includes(url.protocol))
    throw unsendable(`A URL must begin with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}.`);
  if (url.hasLogin)
    throw unsendable(`The URL for ${url.hostname} holds a user name or password, which is not allowed.`);
  for (const name in request.headers)
    if (name.length === 4 && name.toLowerCase() === 'host')
      throw unsendable('The Host header cannot be set: it follows from the URL.');
  return url;
}
