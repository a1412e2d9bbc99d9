/** What counts as this machine itself: addresses, and the names by which a browser calls it. */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

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

/**
 * Whether a request comes from this machine, names it, and was not passed on by a proxy, as far as the proxy says so: a
 * page of an attacker can have its own name resolve to this machine, but not send another name.
 */
export function isFromThisMachine({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): boolean {
  const forwarded = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];
  return (
    isLoopback(socket.remoteAddress ?? '') &&
    isLoopbackHost(headers.host ?? '') &&
    forwarded.every((name) => headers[name] === undefined)
  );
}
