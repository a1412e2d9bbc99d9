/**
 * The pools of kept connections, one for each origin, each group and each list of allowed networks. A kept connection was
 * checked for the caller that opened it: an organisation that may reach 10.0.0.0/8 must not leave a connection there that
 * another organisation, which may not, would find. And a group that waits for slow answers of a host uses up its own
 * connections there, not those of another group.
 */
import { createRequire } from 'node:module';
import { isIP, type Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { buildConnector as BuildConnector, Pool } from 'undici';
import { addressPermitted, type Cidr } from '../network-guard.ts';
import { blockedAddress } from './fetch-error.ts';
import { guardedLookup, type ResolveHost } from './guarded-lookup.ts';
import type { GuardedRequest } from './guarded-request.ts';

// Its two parts that are used here. All of the package, with its fetch, mocks and caches, takes 12 MB more.
const load = createRequire(import.meta.url);
const OnePool = load('undici/lib/dispatcher/pool.js') as typeof Pool;
const buildConnector = load('undici/lib/core/connect.js') as typeof BuildConnector;

/** Above this number, pools without a request are closed, the longest unused first. */
const poolsMax = 500;
/** A connection attempt that takes longer is given up, so that the next request starts a new one. */
const connectTimeoutMs = 10_000;
/** Added to the time for which a connection is kept: then its empty pool goes too. */
const idlePoolMs = 1_000;

export interface OriginPool {
  readonly key: string;
  readonly pool: Pool;
  /** Sockets that are not connected yet: undici does not know them, so closing the pool would leave them open. */
  readonly connecting: Set<Socket>;
  users: number;
  idleTimer?: NodeJS.Timeout;
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
  /** Those without a user are in the order of their last use. */
  const pools = new Map<string, OriginPool>();
  let closed = false;

  function discard(entry: OriginPool): Promise<void> {
    pools.delete(entry.key);
    clearTimeout(entry.idleTimer);
    for (const socket of entry.connecting) socket.destroy(new Error('the pool was closed'));
    return entry.pool.destroy();
  }

  function closeUnused(): void {
    if (pools.size <= poolsMax) return;
    for (const entry of pools.values()) {
      if (entry.users === 0) void discard(entry);
      if (pools.size <= poolsMax) return;
    }
  }

  return {
    enter(origin, { allowedNetworks, group }) {
      const key = `${origin} ${textOfNetworks(allowedNetworks)} ${group ?? ''}`;
      const known = pools.get(key);
      const entry = known ?? openPool(key, origin, { allowedNetworks, group }, options);
      entry.users += 1;
      if (known) clearTimeout(known.idleTimer);
      else pools.set(key, entry);
      closeUnused();
      return entry;
    },

    leave(entry) {
      entry.users -= 1;
      if (entry.users > 0 || closed) return;
      // No request waits for these connections any more.
      for (const socket of entry.connecting) socket.destroy(new Error('the request has ended'));
      entry.idleTimer = setTimeout(() => void discard(entry), keepAliveMs + idlePoolMs).unref();
      pools.delete(entry.key);
      pools.set(entry.key, entry);
      closeUnused();
    },

    async close() {
      closed = true;
      await Promise.all([...pools.values()].map(discard));
    },
  };
}

function openPool(
  key: string,
  origin: string,
  { allowedNetworks, group }: Pick<GuardedRequest, 'allowedNetworks' | 'group'>,
  { secureContextOf, lookups, connectionsPerOrigin, keepAliveMs }: OriginPoolsOptions,
): OriginPool {
  const connecting = new Set<Socket>();
  const connector = buildConnector({
    secureContext: secureContextOf(new URL(origin).hostname),
    rejectUnauthorized: true,
    autoSelectFamily: true,
    allowH2: false,
    timeout: connectTimeoutMs,
    lookup: guardedLookup(lookups(group), allowedNetworks),
  }) as (...args: Parameters<BuildConnector.connector>) => Socket;

  const pool = new OnePool(origin, {
    connections: connectionsPerOrigin,
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
  return { key, pool, connecting, users: 0 };
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
