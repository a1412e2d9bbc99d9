/** Name resolution for `net.connect` that returns only addresses which the guard permits. */
import type { LookupFunction } from 'node:net';
import { callbackify } from 'node:util';
import { errorText } from '../errors.ts';
import { addressPermitted, type Cidr } from '../network-guard.ts';
import { blockedAddress, fetchErrorOf } from './fetch-error.ts';

/** Resolves a host name to all its addresses. */
export type ResolveHost = (hostname: string) => Promise<readonly { address: string; family: number }[]>;

/**
 * Resolves each name once and checks every address, so the connection goes to an address that was checked. Fails with a
 * FetchError `dns` or `blocked`.
 */
export function guardedLookup(resolveHost: ResolveHost, allowedNetworks: readonly Cidr[]): LookupFunction {
  const resolve = callbackify(async (hostname: string) => {
    const addresses = await resolveHost(hostname).catch((error: unknown) => {
      throw fetchErrorOf('dns', hostname, errorText(error));
    });
    if (addresses.length === 0) throw fetchErrorOf('dns', hostname, 'no address');
    // One refused address refuses the name: security must not depend on which address answers first.
    const refused = addresses.find(({ address }) => !addressPermitted(address, allowedNetworks));
    if (refused) throw blockedAddress(hostname, refused.address);
    return [...addresses];
  });
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error || !first) callback(error, '');
      else if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}
