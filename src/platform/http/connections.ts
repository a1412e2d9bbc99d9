/**
 * The open connections of a listening server: how many there may be in all and from one address. A new connection is taken
 * in place of the oldest one that has not proved itself, so that a flood displaces itself. A protected connection, one that
 * has carried a request with a right key or signature, makes room only if all are protected and it is not answering; if
 * all are answering, the new one is refused.
 *
 * Example with a limit of 1,000: an attacker opens 1,100 connections and sends nothing. The last 100 displace the first
 * 100. A sender connects, displaces one more, and is protected once its signature was verified: from then on the
 * attacker displaces only connections of its own.
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
  /** How long a client may take for its TLS handshake, and for the body of a notification. */
  clientMs: number;
  isTrustedProxy: (address: string) => boolean;
}

/**
 * Requests of one connection whose answers have not ended. Node stops reading by the bytes of answers that wait, not by
 * requests, of which each takes some kilobytes.
 */
const pipelinedMax = 32;

export const connectionLimitsDefault: ConnectionLimits = {
  inAll: 1_000,
  perAddress: 250,
  clientMs: 15_000,
  isTrustedProxy: () => false,
};

interface Connection {
  /** The TCP connection, which a server under TLS has beside the one of its requests. */
  readonly tcp: Socket;
  /** Those of its address; undefined for a trusted proxy. */
  readonly own: Set<Connection> | undefined;
  /** What the requests run on; under TLS undefined until the handshake has ended. */
  requests: Socket | undefined;
  /** Has carried a request. A browser opens spare connections that it may never use. */
  used: boolean;
  isProtected: boolean;
  /** The responses that have not ended. */
  readonly running: Set<ServerResponse>;
}

/** By the socket of its requests. */
const connections = new WeakMap<Socket, Connection>();

/** Protects the request's connection: its key or signature was right. */
export function protectConnection({ socket }: IncomingMessage): void {
  const connection = connections.get(socket);
  if (connection) connection.isProtected = true;
}

export interface Connections {
  /** Returns the responses of the requests that have begun and whose answers have not ended. */
  running(): ServerResponse[];
  /** Called for each request before it is handled; false: its connection was ended, and nobody would read an answer. */
  begin(request: IncomingMessage, response: ServerResponse): boolean;
  /** Destroys the socket's connection if its TLS handshake has not ended, and says whether it did. */
  dropUnshaken(socket: unknown): boolean;
  /** Destroys the connections that never had a request; `all`: every connection. */
  drop(which: 'unused' | 'all'): void;
}

/**
 * Why a connection was ended from here: another one took its place, there was none for it, its handshake failed, it sent
 * more requests than it took answers.
 */
type EndReason = 'displaced' | 'refused' | 'handshake' | 'pipelined';

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
  const byAddress = new Map<string, Set<Connection>>();
  const byPeer = new Map<string, Connection>();
  const isTls = 'setSecureContext' in server;

  function drop(connection: Connection): void {
    open.delete(connection);
    connection.own?.delete(connection);
    connection.requests?.destroy();
    connection.tcp.destroy();
  }

  /** Makes room in a full set; false when each of its connections is protected and answers a request. */
  function makeRoom(set: ReadonlySet<Connection>, max: number): boolean {
    if (set.size < max) return true;
    const all = [...set];
    const oldest = all.find(({ isProtected }) => !isProtected) ?? all.find(({ running }) => running.size === 0);
    if (!oldest) return false;
    drop(oldest);
    count('displaced');
    return true;
  }

  server.on('connection', (tcp: Socket) => {
    const address = addressGroup(tcp.remoteAddress);
    if (address === undefined) {
      // The client is gone already.
      tcp.destroy();
      return;
    }
    const own = limits.isTrustedProxy(tcp.remoteAddress ?? '')
      ? undefined
      : (byAddress.get(address) ?? new Set<Connection>());
    if ((own && !makeRoom(own, limits.perAddress)) || !makeRoom(open, inAll)) {
      count('refused');
      tcp.destroy();
      return;
    }
    const connection: Connection = {
      tcp,
      own,
      requests: undefined,
      used: false,
      isProtected: false,
      running: new Set(),
    };
    open.add(connection);
    own?.add(connection);
    if (own) byAddress.set(address, own);
    const peer = peerOf(tcp);
    byPeer.set(peer, connection);
    if (!isTls) takeRequests(connection, tcp);
    tcp.on('close', () => {
      open.delete(connection);
      own?.delete(connection);
      if (own?.size === 0 && byAddress.get(address) === own) byAddress.delete(address);
      if (byPeer.get(peer) === connection) byPeer.delete(peer);
    });
  });
  // Under TLS the requests' socket is another object: the peer's address and port identify both.
  server.on('secureConnection', (socket: TLSSocket) => {
    const connection = byPeer.get(peerOf(socket));
    if (!connection) {
      socket.destroy();
      return;
    }
    takeRequests(connection, socket);
    socket.on('close', () => connection.tcp.destroy());
  });

  return {
    running: () => [...open].flatMap(({ running }) => [...running]),
    begin: ({ socket }, response) => {
      const connection = connections.get(socket);
      if (!connection || socket.destroyed) return false;
      connection.used = true;
      connection.running.add(response);
      if (connection.running.size > pipelinedMax) {
        // A listener takes the bytes from Node's parser, which would go on with all that it has read.
        socket.on('data', () => undefined);
        // Else the system would keep the answers for a client that does not read.
        connection.tcp.resetAndDestroy();
        drop(connection);
        count('pipelined');
        return false;
      }
      response.on('close', () => connection.running.delete(response));
      return true;
    },
    dropUnshaken: (socket) => {
      if (!(socket instanceof TLSSocket) || connections.has(socket)) return false;
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
  connections.set(socket, connection);
}

/** One counter for a registry, also when a program has several ports. */
function endedCounter(registry: Registry): Counter<'port' | 'reason'> {
  const name = 'http_connections_ended_total';
  return (
    (registry.getSingleMetric(name) as Counter<'port' | 'reason'> | undefined) ??
    new Counter({
      name,
      help: 'Connections that the program has ended to keep its limits: displaced, refused, handshake, pipelined',
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
