/**
 * A listening HTTP or HTTPS server that stops gracefully: it accepts no new connections, lets running requests end,
 * closes idle connections, and closes the rest after the grace time.
 */
import { createServer, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Problem, problemMediaType } from '#contract/problem.ts';
import { AppError } from '../errors.ts';

export interface HttpServer {
  /** `http://127.0.0.1:8080`, with the actual port and a name that a client can use. */
  readonly url: string;
  readonly port: number;
  /** Resolves when the last connection is closed: after the running requests, and after `graceMs` at the latest. */
  close(graceMs: number): Promise<void>;
}

export interface ListenOptions {
  host: string;
  /** 0 takes a free port. */
  port: number;
  /** Set: the server speaks HTTPS. */
  tls?: { certPem: string; keyPem: string };
  /** The name in `url`; default `host`. */
  publicHost?: string;
  /** A connection without traffic for this long is closed; every answer must begin before that (default 2 min). */
  stalledMs?: number;
}

const stalledDefaultMs = 120_000;

const limits = {
  requestTimeout: 60_000,
  headersTimeout: 15_000,
  keepAliveTimeout: 65_000,
  maxHeaderSize: 32_768,
  requireHostHeader: false,
};

/** Starts listening. Throws an AppError that names host and port, and what to do, when that is not possible. */
export async function listen(handler: RequestListener, options: ListenOptions): Promise<HttpServer> {
  const server = options.tls
    ? createTlsServer({ ...limits, cert: options.tls.certPem, key: options.tls.keyPem }, withReadableTarget(handler))
    : createServer(limits, withReadableTarget(handler));
  // Node itself sets no time limit for a client that does not read: its answer would stay in memory for ever.
  server.timeout = options.stalledMs ?? stalledDefaultMs;
  const connections = trackConnections(server);
  server.on('checkExpectation', (_request, response: ServerResponse) => refuse(response, 417));
  server.on('clientError', (error, socket) => refuseUnreadable(error, socket, connections));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, () => {
      server.removeListener('error', reject);
      resolve();
    });
  }).catch((cause: unknown) => {
    throw cannotListen(options, cause);
  });
  // From here on an error is a connection that could not be accepted (no file descriptor left). The next one may
  // succeed, and the error must not end the process.
  server.on('error', () => undefined);
  const { port } = server.address() as AddressInfo;
  const host = options.publicHost ?? (['0.0.0.0', '::'].includes(options.host) ? 'localhost' : options.host);
  return {
    url: `${options.tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    close: (graceMs) => closeGracefully(server, connections, graceMs),
  };
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken by another program. Stop that program, or choose another port',
  EACCES: 'this user may not use the port. Choose one above 1023',
  EADDRNOTAVAIL: 'this machine does not have the address',
  ENOTFOUND: 'the name does not exist',
};

function cannotListen({ host, port }: ListenOptions, cause: unknown): AppError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
  return new AppError('unavailable', `Cannot listen on ${host}:${port}: ${reasons[code] ?? code}.`, {
    cause,
    recovery: { do: 'halt' },
  });
}

/**
 * Refuses a request target that the handler could not parse: a client may send a whole URL in place of a path. It also
 * refuses HTTP/1.1 without a Host header, since Node would refuse that with an empty answer.
 */
function withReadableTarget(handler: RequestListener): RequestListener {
  return (request, response) => {
    const target = request.url ?? '';
    const isReadable = /^[/*]/.test(target) || URL.canParse(target);
    const hasHost = request.headers.host !== undefined || request.httpVersion === '1.0';
    if (isReadable && hasHost) handler(request, response);
    else refuse(response, 400);
  };
}

function refuse(response: ServerResponse, status: number): void {
  const text = problemText(status);
  const headers = { 'content-type': problemMediaType, 'content-length': Buffer.byteLength(text), connection: 'close' };
  response.writeHead(status, headers).end(text);
}

/** Answers where Node refuses before there is a request: Node itself would answer without a body. */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: Duplex, { running }: Connections): void {
  const isAnswering = [...running].some((response) => response.socket === socket && response.headersSent);
  if (!socket.writable || isAnswering || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = unreadableStatuses[error.code ?? ''] ?? 400;
  const text = problemText(status);
  socket.once('finish', () => socket.destroy());
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      `Content-Type: ${problemMediaType}`,
      `Content-Length: ${Buffer.byteLength(text)}`,
      'Connection: close',
      '',
      text,
    ].join('\r\n'),
  );
}

const unreadableStatuses: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

const unreadableTexts: Readonly<Record<number, string>> = {
  408: 'The request did not come in time.',
  413: 'The extensions of the chunks are too large.',
  417: 'Nothing but 100-continue can be expected.',
  431: `The path and the headers are larger than ${limits.maxHeaderSize} bytes together.`,
};

function problemText(status: number): string {
  const detail = unreadableTexts[status] ?? 'The request is not valid HTTP.';
  const problem: Problem = { type: 'about:blank', title: STATUS_CODES[status] ?? '', status, detail };
  return JSON.stringify(problem);
}

interface Connections {
  /** Every TCP connection, also one in its TLS handshake, which the server itself does not count. */
  readonly open: Set<Socket>;
  /** Connections that have carried a request. A browser opens spare ones that it may never use. */
  readonly used: WeakSet<Socket>;
  readonly running: Set<ServerResponse>;
}

function trackConnections(server: Server): Connections {
  const connections: Connections = { open: new Set(), used: new WeakSet(), running: new Set() };
  const byPeer = new Map<string, Socket>();
  const seen = new WeakSet<Socket>();
  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket);
    connections.open.add(socket);
    byPeer.set(peer, socket);
    socket.on('close', () => {
      connections.open.delete(socket);
      if (byPeer.get(peer) === socket) byPeer.delete(peer);
    });
  });
  server.prependListener('request', (request, response) => {
    if (!seen.has(request.socket)) {
      seen.add(request.socket);
      // Under TLS the request's socket is another object than the connection's: the peer's address and port identify
      // both.
      const socket = byPeer.get(peerOf(request.socket));
      if (socket) connections.used.add(socket);
    }
    connections.running.add(response);
    response.on('close', () => connections.running.delete(response));
    if (!server.listening) response.setHeader('Connection', 'close');
  });
  return connections;
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

async function closeGracefully(server: Server, connections: Connections, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A client that gets this header does not send its next request into a closing connection.
  for (const response of connections.running) if (!response.headersSent) response.setHeader('Connection', 'close');
  for (const socket of connections.open) if (!connections.used.has(socket)) socket.destroy();
  server.closeIdleConnections();
  // A keep-alive connection that was busy becomes idle when its answer has been sent: it must be closed then, too.
  const idle = setInterval(() => server.closeIdleConnections(), 50);
  const grace = setTimeout(() => {
    server.closeAllConnections();
    for (const socket of connections.open) socket.destroy();
  }, graceMs);
  await closed;
  clearInterval(idle);
  clearTimeout(grace);
}
