/**
 * A listening HTTP or HTTPS server that stops gracefully: it accepts no new connections, lets running requests end,
 * closes idle connections, and closes the rest after the grace time.
 */
import { createServer, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Problem, problemMediaType } from '#contract/problem.ts';
import { AppError } from '../errors.ts';
import {
  type ConnectionLimits,
  type ConnectionMetrics,
  type Connections,
  connectionLimitsDefault,
  watchConnections,
} from './connections.ts';
import type { ServerCertificate } from './server-certificate.ts';
import { hostInUrl } from './url-host.ts';

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
  tls?: ServerCertificate | undefined;
  /** The name in `url`; default `host`. */
  publicHost?: string;
  /** A connection without traffic for this long is closed; every answer must begin before that (default 2 min). */
  stalledMs?: number;
  /** How many connections there may be, and how long a handshake may take. */
  connections?: ConnectionLimits | undefined;
  metrics?: ConnectionMetrics;
}

const stalledDefaultMs = 120_000;

const limits = {
  requestTimeout: 60_000,
  headersTimeout: 15_000,
  keepAliveTimeout: 65_000,
  maxHeaderSize: 32_768,
  requireHostHeader: false,
  // Every 30 s by default: a connection that sends nothing would be open for up to 45 s.
  connectionsCheckingInterval: 5_000,
};

/** Starts listening. Throws an AppError that names host and port, and what to do, when that is not possible. */
export async function listen(handler: RequestListener, options: ListenOptions): Promise<HttpServer> {
  const { tls, connections: connectionLimits = connectionLimitsDefault } = options;
  const { clientMs: handshakeTimeout } = connectionLimits;
  const server = tls
    ? createTlsServer({ ...limits, handshakeTimeout, cert: tls.certPem, key: tls.keyPem })
    : createServer(limits);
  tls?.onRenewed?.(() => {
    if ('setSecureContext' in server) server.setSecureContext({ cert: tls.certPem, key: tls.keyPem });
  });
  // Node itself sets no time limit for a client that does not read: its answer would stay in memory for ever.
  server.timeout = options.stalledMs ?? stalledDefaultMs;
  const connections = watchConnections(server, connectionLimits, options.metrics);
  const serve = onlyReadable(handler);
  server.on('request', (request, response) => {
    if (!connections.begin(request, response)) return;
    if (!server.listening) response.setHeader('Connection', 'close');
    serve(request, response);
  });
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
    url: `${options.tls ? 'https' : 'http'}://${hostInUrl(host)}:${port}`,
    port,
    close: (graceMs) => closeGracefully(server, connections, graceMs),
  };
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken by another program; stop that program, or choose another port',
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
function onlyReadable(handler: RequestListener): RequestListener {
  return (request, response) => {
    const target = request.url ?? '';
    const isReadable = target.startsWith('/') || target.startsWith('*') || URL.canParse(target);
    const hasHost = request.headers.host !== undefined || request.httpVersion === '1.0';
    if (isReadable && hasHost) handler(request, response);
    else refuse(response, 400);
  };
}

function refuse(response: ServerResponse, status: number): void {
  const text = problemText(status);
  const headers = {
    'content-type': problemMediaType,
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  };
  response.writeHead(status, headers).end(text);
}

/** Answers where Node refuses before there is a request: Node itself would answer without a body. */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: Duplex, connections: Connections): void {
  // Without a handshake nothing can be said to the client, and an end would wait for it for ever.
  if (connections.dropUnshaken(socket)) return;
  const isAnswering = connections.running().some((response) => response.socket === socket && response.headersSent);
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

async function closeGracefully(server: Server, connections: Connections, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A client that gets this header does not send its next request into a closing connection.
  for (const response of connections.running()) if (!response.headersSent) response.setHeader('Connection', 'close');
  connections.drop('unused');
  server.closeIdleConnections();
  // A keep-alive connection that was busy becomes idle when its answer has been sent: it must be closed then, too.
  const idle = setInterval(() => server.closeIdleConnections(), 50);
  const grace = setTimeout(() => {
    server.closeAllConnections();
    connections.drop('all');
  }, graceMs);
  await closed;
  clearInterval(idle);
  clearTimeout(grace);
}
