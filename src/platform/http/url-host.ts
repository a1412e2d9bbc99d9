import { isIP } from 'node:net';

/** A host name or an address as a URL has it: an IPv6 address stands in brackets. */
export function hostInUrl(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
