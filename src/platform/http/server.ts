/**
 * A listening HTTP or HTTPS server that stops gracefully: it stops taking connections, lets running requests end, and
 * cuts what is left after the grace time.
 */
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { AppError, errorText } from '../errors.ts';

export interface HttpServer {
  /** `http://127.0.0.1:8080`, with the port that was really taken and a name that a client can use. */
  readonly url: string;
  readonly port: number;
  /** Resolves when the last connection is gone. */
  close(graceMs: number): Promise<void>;
}

export interface ListenOptions {
  host: string;
  /** 0 takes a free port. */
  port: number;
  /** Makes it HTTPS. */
  tls?: { certPem: string; keyPem: string };
  /** The name in `url` where it is not `host`. */
  publicHost?: string;
}

/** Starts listening; throws AppError naming host and port when that is not possible. */
export async function listen(handler: RequestListener, options: ListenOptions): Promise<HttpServer> {
  const limits = { requestTimeout: 60_000, headersTimeout: 15_000, keepAliveTimeout: 65_000, maxHeaderSize: 32_768 };
  const server = options.tls
    ? createTlsServer({ ...limits, cert: options.tls.certPem, key: options.tls.keyPem }, handler)
    : createServer(limits, handler);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, () => {
      server.removeListener('error', reject);
      resolve();
    });
  }).catch((cause: unknown) => {
    throw new AppError('unavailable', `Cannot listen on ${options.host}:${options.port}: ${errorText(cause)}.`, {
      cause,
    });
  });
  const { port } = server.address() as AddressInfo;
  const host = options.publicHost ?? (['0.0.0.0', '::'].includes(options.host) ? 'localhost' : options.host);
  return {
    url: `${options.tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    close: (graceMs) => closeGracefully(server, graceMs),
  };
}

async function closeGracefully(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  // A kept connection that was busy becomes idle when its answer is out: it has to be closed then, too.
  const idle = setInterval(() => server.closeIdleConnections(), 50);
  const cut = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearInterval(idle);
  clearTimeout(cut);
}
