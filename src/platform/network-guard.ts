/**
 * Which network addresses and hosts an organisation's URLs may reach. Pure: `guarded-fetch.ts` applies it to each
 * address that it is about to connect to. An address that is not known to be public is refused, and so is text that is
 * no address.
 */
import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import type { Issue } from '#contract/issue.ts';
import { AppError } from './errors.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A network in canonical form; `text` is like `10.0.0.0/8` and equal for equal networks. */
export interface Cidr {
  readonly text: string;
  /** Four, or sixteen of IPv6. */
  readonly bytes: readonly number[];
  readonly prefixLength: number;
}

/**
 * Reads networks in CIDR notation (`10.0.0.0/8`, `fd00::/8`, a single address as `10.1.2.3/32`). Bits behind the prefix
 * are set to 0, and duplicates are dropped. Throws an `invalid` AppError with an issue for each entry that it cannot
 * read.
 */
export function parseCidrs(list: readonly string[]): Cidr[] {
  const byText = new Map<string, Cidr>();
  const issues: Issue[] = [];
  for (const [index, entry] of list.entries()) {
    const cidr = parseCidr(entry);
    if (typeof cidr === 'string') issues.push({ path: `[${index}]`, message: `${JSON.stringify(entry)}: ${cidr}` });
    else byText.set(cidr.text, cidr);
  }
  if (issues.length > 0)
    throw new AppError('invalid', `Not a network: ${issues.map((issue) => issue.message).join('; ')}.`, { issues });
  return [...byText.values()];
}

/** Every address: URLs that the operator has set, and not an organisation, may lie in any network. */
export const anyNetwork: readonly Cidr[] = parseCidrs(['0.0.0.0/0', '::/0']);

/** Returns the network, or as a string what is wrong with the entry. */
function parseCidr(entry: string): Cidr | string {
  const [addressText = '', prefixText, ...rest] = entry.trim().split('/');
  const family = isIP(addressText);
  if (family === 0) return 'the part before the slash must be an IPv4 or IPv6 address, like 10.0.0.0/8 or fd00::/8';
  if (addressText.includes('%')) return 'a network has no zone';
  const bits = family === 4 ? 32 : 128;
  if (prefixText === undefined || rest.length > 0)
    return `a prefix length must follow, like ${addressText}/${bits} for this address alone`;
  const prefixLength = Number(prefixText);
  if (!/^\d{1,3}$/.test(prefixText) || prefixLength > bits) return `the prefix length must be from 0 to ${bits}`;

  const address = readAddress(addressText);
  // An IPv4-mapped address counts as its IPv4 address, so a network of such addresses must be an IPv4 network too.
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && prefixLength >= 96)
    return cidrOf(address.toIPv4Address(), prefixLength - 96);
  return cidrOf(address, prefixLength);
}

function cidrOf(address: Address, prefixLength: number): Cidr {
  const bytes = address.toByteArray().map((byte, index) => {
    const kept = Math.min(8, Math.max(0, prefixLength - index * 8));
    return byte & (0xff00 >> kept) & 0xff;
  });
  return { text: `${ipaddr.fromByteArray(bytes).toString()}/${prefixLength}`, bytes, prefixLength };
}

const globalUnicast6 = cidrOf(ipaddr.parse('2000::'), 3);
const nat64 = cidrOf(ipaddr.parse('64:ff9b::'), 96);
// Azure's metadata service: the only well-known metadata address that lies in no special range.
const azureMetadata = cidrOf(ipaddr.parse('168.63.129.16'), 32);

/**
 * Why the address is not publicly reachable (`private`, `loopback`, `linkLocal`, `metadata` ...), or undefined for an
 * ordinary public one. A NAT64 address, which a gateway turns into IPv4, counts as the IPv4 address inside it. 6to4 and
 * Teredo addresses are refused altogether: no receiver runs behind them, and they can carry any IPv4 address.
 */
export function specialRangeOf(address: string): string | undefined {
  const parsed = parseAddress(address);
  return parsed === undefined ? 'not an address' : specialRange(parsed);
}

function specialRange(address: Address): string | undefined {
  if (contains(azureMetadata, address)) return 'metadata';
  if (contains(nat64, address)) return specialRange(ipaddr.fromByteArray(address.toByteArray().slice(12)));
  const range = address.range();
  if (range !== 'unicast') return range;
  // ipaddr.js calls everything unlisted unicast, also the IPv4-compatible ::/96. Only 2000::/3 is allocated.
  if (address instanceof ipaddr.IPv6 && !contains(globalUnicast6, address)) return 'unallocated';
  return undefined;
}

/**
 * Whether a connection to this address is permitted: it is public, or inside one of the allowed networks. An
 * IPv4-mapped IPv6 address counts as its IPv4 address. A NAT64 address is in no allowed IPv4 network: 10.0.0.1 behind
 * the gateway is another machine than 10.0.0.1 here.
 */
export function addressPermitted(address: string, allowedNetworks: readonly Cidr[]): boolean {
  const parsed = parseAddress(address);
  if (parsed === undefined) return false;
  return specialRange(parsed) === undefined || allowedNetworks.some((cidr) => contains(cidr, parsed));
}

/** Whether the address lies in one of the networks. An IPv4-mapped IPv6 address counts as its IPv4 address. */
export function addressInNetworks(address: string, networks: readonly Cidr[]): boolean {
  const parsed = parseAddress(address);
  return parsed !== undefined && networks.some((cidr) => contains(cidr, parsed));
}

/**
 * What counts as one client where clients are counted by address: an IPv4 address, or the /64 of an IPv6 address, of
 * which one machine has all addresses. Undefined for text that is no address.
 */
export function addressGroup(address: string | undefined): string | undefined {
  const parsed = parseAddress(address ?? '');
  if (parsed instanceof ipaddr.IPv6) return cidrOf(parsed, 64).text;
  return parsed?.toString();
}

function parseAddress(text: string): Address | undefined {
  // isIP knows only the plain notations; ipaddr.js would also accept 0x7f.1 and 017700000001.
  if (isIP(text) === 0) return undefined;
  const address = readAddress(text);
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

/** Reads an address that isIP has accepted; a zone (`fe80::1%eth0`) is left out. */
function readAddress(text: string): Address {
  if (isIP(text) === 4) return ipaddr.parse(text);
  // ipaddr.js reads ::8.8.8.8 as the mapped ::ffff:8.8.8.8, which is not what a socket does: spell it in groups first.
  return ipaddr.parse(new URL(`http://[${text.split('%', 1)[0] ?? ''}]/`).hostname.slice(1, -1));
}

function contains(cidr: Cidr, address: Address): boolean {
  const network = ipaddr.fromByteArray([...cidr.bytes]);
  return address.kind() === network.kind() && address.match(network, cidr.prefixLength);
}

/**
 * Whether the whitelist covers this host (a URL's `hostname`, without port). `example.org` covers only itself;
 * `*.example.org` covers its subdomains of any depth, and not itself. An IP address must be listed literally. Case, a
 * trailing dot, the brackets of IPv6 and the Unicode or punycode spelling make no difference. An entry that is no
 * domain covers no host.
 */
export function domainAllowed(host: string, domains: readonly string[]): boolean {
  const canonical = canonicalHost(host);
  if (canonical === undefined) return false;
  return domains.some((entry) => {
    const pattern = canonicalDomain(entry);
    if (pattern === undefined) return false;
    // No pattern matches a part of an IP address: canonicalDomain refuses a wildcard before a number.
    return pattern.startsWith('*.') ? canonical.endsWith(pattern.slice(1)) : canonical === pattern;
  });
}

/**
 * A whitelist entry in the form in which it is compared; undefined when it can never match, so a form can refuse it.
 */
export function canonicalDomain(entry: string): string | undefined {
  if (!entry.startsWith('*.')) return canonicalHost(entry);
  const base = canonicalHost(entry.slice(2));
  return base === undefined || isIP(base) !== 0 ? undefined : `*.${base}`;
}

/** Lower case, punycode, no trailing dot, no brackets; IP addresses in their shortest form. */
function canonicalHost(host: string): string | undefined {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
  if (isIP(bare) !== 0) return bare.includes('%') ? undefined : readAddress(bare).toString();
  // domainToASCII stops reading at a path and decodes percent signs: a text with either is no host.
  if (/[\s/\\?#@:%*[\]]/.test(host)) return undefined;
  const ascii = domainToASCII(host).replace(/\.$/, '');
  return ascii === '' || ascii.split('.').includes('') ? undefined : ascii;
}
