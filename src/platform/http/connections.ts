/**
 * The open connections of a listening server: how many there may be in all and from one address, and which of them are
 * ended. A new connection is taken in place of the oldest one that has not proved itself, so that a flood displaces
 * itself. A protected connection, one that has carried a request with a right key or signature, is never displaced. The
 * connections of one owner are protected up to a share of the port, so that no organisation can fill it with its key. If
 * all are protected, a small reserve is left, in which only `/healthz` is answered.
 *
 * Example with a limit of 1,000: an attacker opens 1,100 connections and sends nothing. The last 100 displace the first
 * 100. A sender connects, displaces one more, and is protected once its signature was verified: from then on the
 * attacker displaces only connections of its own. An attacker with a key of its own has 125 protected connections; its
 * others are displaced as those of strangers are.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { Counter, type Registry } from '../metrics.ts';
import { addressGroup } from '../network-guard.ts';

export interface ConnectionLimits {
  /** The most open connections of the port. */
  inAll: number;
  /** The most open connections from one address; trusted proxies have no such limit. */
  perAddress: number;
  /** A TLS handshake that takes longer is ended. */
  handshakeMs: number;
  isTrustedProxy: (address: string) => boolean;
}

export const connectionLimitsDefault: ConnectionLimits = {
  inAll: 1_000,
  perAddress: 250,
  handshakeMs: 10_000,
  isTrustedProxy: () => false,
};

const reserveMax = 16;
/** One owner has this part of the connections protected that an address may have, or the port if it has fewer. */
const ownerShare = 2;
/** How long after one side has ended it a connection may still be open. */
const endedMs = 20_000;
const sweptEveryMs = 1_000;

interface Connection {
  /** The TCP connection, which a server under TLS has beside the one of its requests. */
  readonly tcp: Socket;
  /** What the requests run on; under TLS undefined until the handshake has ended. */
  requests: Socket | undefined;
  readonly openedMs: number;
  endedMs: number | undefined;
  /** Has carried a request. A browser opens spare connections that it may never use. */
  used: boolean;
  /** The responses of its requests, in their order, which is that of the answers. Those that have ended may stand here. */
  readonly responses: ServerResponse[];
  /** Whose key or signature protects it. */
  owner: string | undefined;
  /** How many connections each owner has, of those of the server. */
  readonly byOwner: Map<string, number>;
  readonly ownerMax: number;
  readonly inReserve: boolean;
  /** The sets in which it stands. */
  readonly sets: readonly Set<Connection>[];
}

/** The connection of a request's socket. On the socket itself: each request looks for it, and a WeakMap takes longer. */
const connectionOf = Symbol('connection');

declare module 'node:net' {
  interface Socket {
    [connectionOf]?: Connection;
  }
}

/**
 * Protects the request's connection: its key or signature was right, and is that of this owner. It stays as it is when the
 * owner has its share of protected connections, or another owner protects it.
 */
export function protectConnection({ socket }: IncomingMessage, owner: string): void {
  const connection = socket[connectionOf];
  if (!connection || connection.owner !== undefined || connection.tcp.destroyed) return;
  const { byOwner, ownerMax } = connection;
  const owned = byOwner.get(owner) ?? 0;
  if (owned >= ownerMax) return;
  byOwner.set(owner, owned + 1);
  connection.owner = owner;
}

/** Ends the protection, of a connection that has ended. */
function release(connection: Connection): void {
  const { owner, byOwner } = connection;
  if (owner === undefined) return;
  connection.owner = undefined;
  const left = (byOwner.get(owner) ?? 1) - 1;
  if (left > 0) byOwner.set(owner, left);
  else byOwner.delete(owner);
}

/** Whether nothing but `/healthz` is answered to this request. */
export function isInReserve({ socket }: IncomingMessage): boolean {
  return socket[connectionOf]?.inReserve ?? false;
}

export interface Connections {
  /** Returns the responses of the requests that have begun and whose answers have not ended. */
  running(): Iterable<ServerResponse>;
  /** Called for each request before it is handled. */
  begin(request: IncomingMessage, response: ServerResponse): void;
  /** Destroys the socket's connection if its TLS handshake has not ended, and says whether it did. */
  dropUnshaken(socket: unknown): boolean;
  /** Destroys the connections that never had a request; `all`: every connection. */
  drop(which: 'unused' | 'all'): void;
}

/**
 * Why a connection was ended from here: another one took its place, there was no place for it outside of the reserve, its
 * handshake took too long, or the other side did not end it.
 */
type EndReason = 'displaced' | 'refused' | 'handshake' | 'ended';

/** Where ended connections are counted, and under which name of the port. */
export interface ConnectionMetrics {
  registry: Registry;
  port: 'service' | 'webhook' | 'console';
}

/** Watches the server's connections until it is closed. */
export function watchConnections(server: Server, limits: ConnectionLimits, metrics?: ConnectionMetrics): Connections {
  const counter = metrics && endedCounter(metrics.registry);
  const count = (reason: EndReason) => counter?.inc({ port: metrics?.port ?? '', reason });
  const inAll = Math.min(limits.inAll, Math.floor(openFilesMax() / 4));
  const open = new Set<Connection>();
  const regular = new Set<Connection>();
  const reserve = new Set<Connection>();
  const byAddress = new Map<string, Set<Connection>>();
  const byPeer = new Map<string, Connection>();
  const byOwner = new Map<string, number>();
  // Half of what an address has: two organisations behind one address cannot keep a third one out.
  const ownerMax = Math.max(1, Math.floor(Math.min(limits.perAddress, inAll) / ownerShare));
  const isTls = 'setSecureContext' in server;

  function drop(connection: Connection): void {
    release(connection);
    for (const set of connection.sets) set.delete(connection);
    connection.requests?.destroy();
    connection.tcp.destroy();
  }

  /** Makes room in a full set by its oldest connection that is not protected; false when there is none. */
  function makeRoom(set: ReadonlySet<Connection>, max: number): boolean {
    if (set.size < max) return true;
    for (const connection of set)
      if (connection.owner === undefined) {
        drop(connection);
        count('displaced');
        return true;
      }
    return false;
  }

  server.on('connection', (tcp: Socket) => {
    const address = addressGroup(tcp.remoteAddress);
    if (address === undefined) {
      // The client is gone already.
      tcp.destroy();
      return;
    }
    const own = limits.isTrustedProxy(tcp.remoteAddress ?? '') ? undefined : (byAddress.get(address) ?? new Set());
    const hasRoom = (own === undefined || makeRoom(own, limits.perAddress)) && makeRoom(regular, inAll);
    if (!hasRoom) count('refused');
    if (!hasRoom && !makeRoom(reserve, reserveMax)) {
      tcp.destroy();
      return;
    }
    const sets = hasRoom ? [open, regular, ...(own ? [own] : [])] : [open, reserve];
    const connection: Connection = {
      tcp,
      requests: undefined,
      openedMs: performance.now(),
      endedMs: undefined,
      used: false,
      responses: [],
      owner: undefined,
      byOwner,
      ownerMax,
      inReserve: !hasRoom,
      sets,
    };
    for (const set of sets) set.add(connection);
    if (own) byAddress.set(address, own);
    const peer = peerOf(tcp);
    byPeer.set(peer, connection);
    if (!isTls) takeRequests(connection, tcp);
    tcp.on('close', () => {
      release(connection);
      for (const set of sets) set.delete(connection);
      if (own?.size === 0 && byAddress.get(address) === own) byAddress.delete(address);
      if (byPeer.get(peer) === connection) byPeer.delete(peer);
    });
  });
  // Under TLS the requests' socket is another object: the peer's address and port identify both.
  server.on('secureConnection', (socket: TLSSocket) => {
    const connection = byPeer.get(peerOf(socket));
    if (connection) takeRequests(connection, socket);
    else socket.destroy();
  });
  server.once('listening', () => {
    const dropOver = () => {
      const nowMs = performance.now();
      for (const connection of open) {
        if (!isOver(connection, nowMs, limits.handshakeMs)) continue;
        count(connection.requests ? 'ended' : 'handshake');
        drop(connection);
      }
    };
    const sweep = setInterval(dropOver, Math.min(sweptEveryMs, limits.handshakeMs)).unref();
    server.once('close', () => clearInterval(sweep));
  });

  return {
    running: function* () {
      for (const { responses } of open) for (const response of responses) if (!response.closed) yield response;
    },
    begin: ({ socket }, response) => {
      const connection = socket[connectionOf];
      if (!connection) return;
      connection.used = true;
      const { responses } = connection;
      // A listener for each response would cost more than this look. When the last one has ended, all have.
      if (responses.at(-1)?.closed) {
        responses.length = 1;
        responses[0] = response;
      } else responses.push(response);
    },
    dropUnshaken: (socket) => {
      if (!(socket instanceof TLSSocket) || socket[connectionOf]) return false;
      // Before it is destroyed: then it no longer has a peer.
      const connection = byPeer.get(peerOf(socket));
      socket.destroy();
      if (!connection) return true;
      count('handshake');
      drop(connection);
      return true;
    },
    drop: (which) => {
      for (const connection of open) if (which === 'all' || !connection.used) drop(connection);
    },
  };
}

function takeRequests(connection: Connection, socket: Socket): void {
  connection.requests = socket;
  socket[connectionOf] = connection;
}

/** Whether the handshake takes too long, or one side has ended the connection and the other does not. */
function isOver(connection: Connection, nowMs: number, handshakeMs: number): boolean {
  const { requests, openedMs } = connection;
  if (!requests) return nowMs - openedMs >= handshakeMs;
  if (requests.destroyed) return true;
  // A slow reader may still take the rest of its answer: the server's time limit for stalled connections bounds that.
  const isEnded = (requests.readableEnded || requests.writableEnded) && requests.writableLength === 0;
  if (!isEnded) return false;
  connection.endedMs ??= nowMs;
  return nowMs - connection.endedMs >= endedMs;
}

/** One counter for a registry, also when a program has several ports. */
function endedCounter(registry: Registry): Counter<'port' | 'reason'> {
  const name = 'http_connections_ended_total';
  return (
    (registry.getSingleMetric(name) as Counter<'port' | 'reason'> | undefined) ??
    new Counter({
      name,
      help: 'Connections that the program has ended to keep its limits: displaced, refused, handshake, ended',
      labelNames: ['port', 'reason'],
      registers: [registry],
    })
  );
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** How many files and sockets the process may open. Other systems than Linux are not asked. */
function openFilesMax(): number {
  try {
    const soft = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
