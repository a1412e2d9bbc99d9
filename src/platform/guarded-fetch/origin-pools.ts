/**
 * The pools of kept connections, one for each origin, each group and each list of allowed networks. A kept connection was
 * checked for the caller that opened it: an organisation that may reach 10.0.0.0/8 must not leave a connection there that
 * another organisation, which may not, would find. And a group that waits for slow answers of a host uses up its own
 * connections there, not those of another group.
 */
import { isIP, type Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { buildConnector as BuildConnector } from 'undici';
import { addressPermitted, type Cidr } from '../network-guard.ts';
import { createSharedTimer } from '../shared-timer.ts';
import { type ConnectionQueue, createConnectionQueue } from './connection-queue.ts';
import { blockedAddress } from './fetch-error.ts';
import { guardedLookup, type ResolveHost } from './guarded-lookup.ts';
import type { GuardedRequest } from './guarded-request.ts';
import { buildConnector } from './undici-parts.ts';

/** Above this number, pools without a request are closed, the longest unused first. */
const poolsMax = 500;
/** A connection attempt that takes longer is given up, so that the next request starts a new one. */
const connectTimeoutMs = 10_000;
/** Added to the time for which a connection is kept: then its empty pool goes too. */
const idlePoolMs = 1_000;

export interface OriginPool {
  readonly key: string;
  readonly origin: string;
  readonly networks: string;
  readonly group: string | undefined;
  readonly connections: ConnectionQueue;
  /** Sockets that are not connected yet: undici does not know them, so closing the pool would leave them open. */
  readonly connecting: Set<Socket>;
  users: number;
  /** While there is no user: the moment of `performance.now()` at which the pool is closed. */
  endsMs: number;
}

export interface OriginPools {
  /** Returns the pool for the origin, the group and these networks, and counts the caller as a user. */
  enter(origin: string, request: Pick<GuardedRequest, 'allowedNetworks' | 'group'>): OriginPool;
  /**
   * Ends one use. Without a user, connection attempts end now, and the pool is closed once its connections are unused.
   */
  leave(entry: OriginPool): void;
  /** Closes every pool and its connections. */
  close(): Promise<void>;
}

interface OriginPoolsOptions {
  /** Which authorities a host's certificate may come from. */
  secureContextOf: (hostname: string) => SecureContext;
  /** How the names of a group are resolved. */
  lookups: (group: string | undefined) => ResolveHost;
  connectionsPerOrigin: number;
  keepAliveMs: number;
}

/** Creates no connection yet. */
export function createOriginPools(options: OriginPoolsOptions): OriginPools {
  const { keepAliveMs } = options;
  const pools = new Map<string, OriginPool>();
  /** The pool of each origin that was used last: mostly it is the one that the next request uses. */
  const lastOf = new Map<string, OriginPool>();
  let closed = false;

  const closing = createSharedTimer((nowMs) => {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const entry of pools.values())
      if (entry.users === 0 && entry.endsMs <= nowMs) void discard(entry);
      else if (entry.users === 0) nextMs = Math.min(nextMs, entry.endsMs);
    return nextMs;
  });

  function discard(entry: OriginPool): Promise<void> {
    pools.delete(entry.key);
    if (lastOf.get(entry.origin) === entry) lastOf.delete(entry.origin);
    for (const socket of entry.connecting) socket.destroy(new Error('the pool was closed'));
    return entry.connections.destroy();
  }

  function closeUnused(): void {
    if (pools.size <= poolsMax) return;
    const unused = [...pools.values()].filter(({ users }) => users === 0).sort((a, b) => a.endsMs - b.endsMs);
    for (const entry of unused.slice(0, pools.size - poolsMax)) void discard(entry);
  }

  function open(origin: string, networks: string, request: Pick<GuardedRequest, 'allowedNetworks' | 'group'>) {
    const key = `${origin} ${networks} ${request.group ?? ''}`;
    const known = pools.get(key);
    if (known) return known;
    const entry = { ...openPool(origin, request, options), key, origin, networks, group: request.group };
    pools.set(key, entry);
    return entry;
  }

  return {
    enter(origin, request) {
      const networks = textOfNetworks(request.allowedNetworks);
      const last = lastOf.get(origin);
      const isLast = last?.networks === networks && last.group === request.group;
      const entry = isLast ? last : open(origin, networks, request);
      entry.users += 1;
      if (isLast) return entry;
      lastOf.set(origin, entry);
      closeUnused();
      return entry;
    },

    leave(entry) {
      entry.users -= 1;
      if (entry.users > 0 || closed) return;
      // No request waits for these connections any more.
      for (const socket of entry.connecting) socket.destroy(new Error('the request has ended'));
      entry.endsMs = performance.now() + keepAliveMs + idlePoolMs;
      closing.setFor(entry.endsMs);
      closeUnused();
    },

    async close() {
      closed = true;
      closing.clear();
      await Promise.all([...pools.values()].map(discard));
    },
  };
}

function openPool(
  origin: string,
  { allowedNetworks, group }: Pick<GuardedRequest, 'allowedNetworks' | 'group'>,
  { secureContextOf, lookups, connectionsPerOrigin, keepAliveMs }: OriginPoolsOptions,
): Pick<OriginPool, 'connections' | 'connecting' | 'users' | 'endsMs'> {
  const connecting = new Set<Socket>();
  const { hostname, protocol } = new URL(origin);
  const connector = buildConnector({
    ...(protocol === 'https:' && { secureContext: secureContextOf(hostname) }),
    rejectUnauthorized: true,
    autoSelectFamily: true,
    allowH2: false,
    timeout: connectTimeoutMs,
    lookup: guardedLookup(lookups(group), allowedNetworks),
  }) as (...args: Parameters<BuildConnector.connector>) => Socket;

  const connections = createConnectionQueue(origin, connectionsPerOrigin, {
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: keepAliveMs,
    // The exchange has a time limit of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect(target, callback) {
      // Node resolves no address literal, so the guarded lookup would not be called.
      if (isIP(target.hostname) !== 0 && !addressPermitted(target.hostname, allowedNetworks)) {
        callback(blockedAddress(target.hostname, target.hostname), null);
        return;
      }
      // Certificates and SNI hold a fully qualified `example.org.` without its final dot.
      const servername = isIP(target.hostname) === 0 ? target.hostname.replace(/\.$/, '') : '';
      const socket = connector({ ...target, servername }, (...result) => {
        connecting.delete(socket);
        callback(...result);
      });
      connecting.add(socket);
    },
  });
  return { connections, connecting, users: 0, endsMs: Number.POSITIVE_INFINITY };
}

/** Computed once for each list: callers pass the same list with each request. */
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
