/** Name resolution for `net.connect` that returns only addresses which the guard permits. */
import { isIP, type LookupFunction } from 'node:net';
import { callbackify } from 'node:util';
import { errorText } from '../errors.ts';
import { createFairSlots } from '../fair-slots.ts';
import { addressPermitted, type Cidr } from '../network-guard.ts';
import { blockedAddress, fetchErrorOf } from './fetch-error.ts';

type Addresses = readonly { address: string; family: number }[];

/** Resolves a host name to all its addresses. */
export type ResolveHost = (hostname: string) => Promise<Addresses>;

/** No request waits longer than this for its connection. */
const turnWithinMs = 10_000;

/**
 * Has each group resolve one name at a time. The system's resolver works on very few names at once for the whole process
 * (with libuv's four threads on two), and a name whose servers never answer keeps it for ten seconds and more. So names
 * that one group has made up delay the names of another by one lookup, not by all of them. Without a group, a name waits
 * for itself only.
 */
export function createLookupTurns(resolveHost: ResolveHost): (group: string | undefined) => ResolveHost {
  const turns = createFairSlots({ slots: Number.POSITIVE_INFINITY, slotsEach: 1 });
  return (group) => async (hostname) => {
    const turn = turns.enter(group ?? ` ${hostname}`, { signal: AbortSignal.timeout(turnWithinMs) });
    const end = await turn.catch((cause: unknown) => {
      throw new Error('other names are still being resolved', { cause });
    });
    try {
      return await resolveHost(hostname);
    } finally {
      end();
    }
  };
}

/** Throws a FetchError `blocked` for an address that is not permitted: Node does not look it up. A name passes. */
export function checkLiteral(hostname: string, allowedNetworks: readonly Cidr[]): void {
  if (isIP(hostname) !== 0 && !addressPermitted(hostname, allowedNetworks)) throw blockedAddress(hostname, hostname);
}

/** Returns all addresses of the name. Throws a FetchError: `dns`, or `blocked` when one of them is not permitted. */
export async function checkedAddresses(
  resolveHost: ResolveHost,
  hostname: string,
  allowedNetworks: readonly Cidr[],
): Promise<Addresses> {
  const addresses = await resolveHost(hostname).catch((error: unknown) => {
    throw fetchErrorOf('dns', hostname, errorText(error));
  });
  if (addresses.length === 0) throw fetchErrorOf('dns', hostname, 'no address');
  // One refused address refuses the name: security must not depend on which address answers first.
  const refused = addresses.find(({ address }) => !addressPermitted(address, allowedNetworks));
  if (refused) throw blockedAddress(hostname, refused.address);
  return addresses;
}

/** Resolves a name once for each connection, and checks every address, so it goes to an address that was checked. */
export function guardedLookup(resolveHost: ResolveHost, allowedNetworks: readonly Cidr[]): LookupFunction {
  const resolve = callbackify((hostname: string) => checkedAddresses(resolveHost, hostname, allowedNetworks));
  return (hostname, options, callback) => {
    resolve(hostname, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error || !first) callback(error, '');
      else if (options.all) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}
