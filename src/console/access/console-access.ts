/** Decides for each request of the console who makes it. */
import { isIP } from 'node:net';
import type { RequestHandler } from 'express';

/**
 * Lets a request pass that comes from this machine and names it, as its operator. Every other one passes as a viewer: the
 * console shows no secret.
 */
export function createConsoleAccess(): RequestHandler {
  return (request, response, next) => {
    const local = isLoopback(request.socket.remoteAddress ?? '') && isLoopbackHost(request.headers.host ?? '');
    response.locals.viewer = { name: 'local', role: local ? 'operator' : 'viewer', flows: 'all' };
    next();
  };
}

/** Whether an address, as a socket or a setting has it, is that of this machine itself. */
export function isLoopback(address: string): boolean {
  const plain = address.replace(/^::ffff:/i, '');
  return plain === '::1' || plain === 'localhost' || (isIP(plain) === 4 && plain.startsWith('127.'));
}

/** Whether a `Host` header, with or without a port, names this machine itself. */
export function isLoopbackHost(host: string): boolean {
  const name = URL.parse(`http://${host}`)?.hostname.replace(/^\[(.*)\]$/, '$1') ?? '';
  return isLoopback(name);
}
