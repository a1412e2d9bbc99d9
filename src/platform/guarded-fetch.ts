/**
 * HTTP requests to URLs that other people have entered (webhooks, token and file URLs). The guard acts when the
 * connection is made: the host is resolved once, every address must be permitted, and the connection goes only to those
 * checked addresses, so a name that resolves differently the second time gains nothing. Certificates are always
 * verified, redirects are returned instead of followed, and one time limit covers everything from the name lookup to
 * the last byte of the body.
 *
 * Behind a proxy (`HTTPS_PROXY`) the proxy makes the connection and resolves the name again. The guard then checks the
 * host before the proxy is asked: a name that changes its address in between is for the proxy's own rules to refuse.
 */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { createAgents, hasProxy } from './guarded-fetch/agents.ts';
import { exchange, type Target } from './guarded-fetch/exchange.ts';
import { fetchErrorOf, unsendable } from './guarded-fetch/fetch-error.ts';
import {
  checkedAddresses,
  checkLiteral,
  createLookupTurns,
  guardedLookup,
  type ResolveHost,
} from './guarded-fetch/guarded-lookup.ts';
import type { GuardedRequest, GuardedResponse } from './guarded-fetch/guarded-request.ts';
import { tracedFetch } from './guarded-fetch/traced-fetch.ts';
import { anyNetwork } from './network-guard.ts';
import { isInSpan } from './telemetry.ts';

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
  /**
   * A connection that is not made within this time is given up, also when no request waits for it any more. Default 5 s.
   */
  connectTimeoutMs?: number;
  /** Resolves a host name to all its addresses. The system's resolver unless a test passes its own. */
  lookup?: ResolveHost;
}

/**
 * Creates the fetch function and its agents. `close()` ends every exchange (`aborted`) and connection. Throws for
 * certificates that cannot be read, and for a proxy in the environment that is no URL.
 */
export function createGuardedFetch(options: GuardedFetchOptions = {}): { fetch: GuardedFetch; close(): Promise<void> } {
  const { connectionsPerOrigin = 4, keepAliveMs = 4_000, connectTimeoutMs = 5_000 } = options;
  const authorities = createAuthorities(options);
  const lookups = createLookupTurns(options.lookup ?? ((hostname) => lookup(hostname, { all: true })));
  const agents = createAgents({ connectionsPerOrigin, keepAliveMs, connectTimeoutMs });
  const mayUseProxy = hasProxy();
  let closed = false;

  async function send(request: GuardedRequest): Promise<GuardedResponse> {
    const target = checkedTarget(request);
    const { hostname } = target;
    const { allowedNetworks, group, signal } = request;
    if (closed || signal?.aborted) throw fetchErrorOf('aborted', hostname);
    checkLiteral(hostname, allowedNetworks);
    const resolveHost = lookups(group);
    const isExtra = authorities.isExtraHost(hostname);
    const key = JSON.stringify([group, isExtra, allowedNetworks.map(({ text }) => text).sort()]);
    const agent = agents.agentOf(key, () => ({
      secureContext: authorities.contextOf(isExtra),
      lookup: guardedLookup(resolveHost, allowedNetworks),
    }));
    // Where every address is allowed there is nothing to check, and perhaps only the proxy can resolve the name.
    const isCheckedBefore = mayUseProxy && allowedNetworks !== anyNetwork && isIP(hostname) === 0;
    const check = isCheckedBefore ? () => checkedAddresses(resolveHost, hostname, allowedNetworks) : undefined;
    return exchange(agent, target, request, check);
  }

  return {
    fetch: (request) => (isInSpan() ? tracedFetch(send, request) : send(request)),
    async close() {
      closed = true;
      await agents.close();
    },
  };
}

/** Which authorities a host's certificate may come from. */
interface Authorities {
  isExtraHost(hostname: string): boolean;
  contextOf(isExtra: boolean): SecureContext;
}

/**
 * Each context is made once: reading some 150 root certificates again for each connection would cost more than its
 * handshake. What the options hold is read now, so that it is refused here if it cannot be read.
 */
function createAuthorities({ extraCa, extraCaHosts, clientCertificate }: GuardedFetchOptions): Authorities {
  const own = clientCertificate && { cert: clientCertificate.certPem, key: clientCertificate.keyPem };
  const usual = createSecureContext({ ...own });
  const extra =
    extraCa === undefined ? usual : createSecureContext({ ...own, ca: [...getCACertificates('default'), extraCa] });
  return {
    isExtraHost: (hostname) => extraCa !== undefined && (extraCaHosts?.includes(hostname) ?? true),
    contextOf: (isExtra) => (isExtra ? extra : usual),
  };
}

function checkedTarget(request: GuardedRequest): Target {
  const url = URL.parse(request.url);
  if (!url) throw unsendable('The URL is not valid.');
  const protocols: readonly string[] = request.protocols ?? ['https:'];
  if (!protocols.includes(url.protocol))
    throw unsendable(`A URL must begin with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}.`);
  if (url.username + url.password !== '')
    throw unsendable(`The URL for ${url.hostname} holds a user name or password, which is not allowed.`);
  if (Object.keys(request.headers ?? {}).some((name) => name.toLowerCase() === 'host'))
    throw unsendable('The Host header cannot be set: it follows from the URL.');
  // Certificates and SNI hold a fully qualified `example.org.` without its final dot.
  url.hostname = url.hostname.replace(/\.$/, '');
  const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return { origin: url.origin, hostname, path: `${url.pathname}${url.search}` };
}
