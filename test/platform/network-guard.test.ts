import { isIP } from 'node:net';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Issue } from '#contract/issue.ts';
import { AppError } from '#platform/errors.ts';
import {
  addressGroup,
  addressInNetworks,
  addressPermitted,
  canonicalDomain,
  domainAllowed,
  parseCidrs,
  specialRangeOf,
} from '#platform/network-guard.ts';

/** From the IANA special-purpose registries (IPv4 and IPv6), multicast and metadata addresses beside them. */
const special4: [network: string, prefixLength: number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
  ['255.255.255.255', 32],
];
const special6: [network: string, prefixLength: number][] = [
  ['::', 128],
  ['::1', 128],
  ['::', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['4000::', 2],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
];

const word = fc.integer({ min: 0, max: 0xffffffff });

/** Any address of the network, as a number: the network's bits, with the rest at random. */
function inside(network: bigint, prefixLength: number, bits: number): fc.Arbitrary<bigint> {
  const free = BigInt(bits - prefixLength);
  return fc.bigInt({ min: 0n, max: (1n << free) - 1n }).map((low) => (network & ~((1n << free) - 1n)) | low);
}
const toDotted = (value: bigint): string => [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join('.');
const from4 = (text: string): bigint => text.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n);
const toGroups = (value: bigint): string =>
  [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n].map((shift) => ((value >> shift) & 0xffffn).toString(16)).join(':');
/** Reads `a:b::` and `::a:b:c` forms, which are all this file needs. */
function from6(text: string): bigint {
  const [left = '', right = ''] = text.split('::');
  const head = left === '' ? [] : left.split(':');
  const tail = right === '' ? [] : right.split(':');
  const groups = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  return groups.reduce((sum, group) => sum * 65536n + BigInt(`0x${group}`), 0n);
}

const anySpecial4 = fc.constantFrom(...special4).chain(([network, length]) => inside(from4(network), length, 32));
const anySpecial6 = fc.constantFrom(...special6).chain(([network, length]) => inside(from6(network), length, 128));

describe('addresses', () => {
  it('refuses every address of every special IPv4 range, also inside mapped, compatible, NAT64, 6to4 and Teredo', () => {
    fc.assert(
      fc.property(anySpecial4, word, (value, filler) => {
        const dotted = toDotted(value);
        const notations = [
          dotted,
          `::ffff:${dotted}`,
          toGroups((0xffffn << 32n) | value),
          `::${dotted}`,
          `64:ff9b::${dotted}`,
          toGroups((0x2002n << 112n) | (value << 80n) | BigInt(filler)),
          // Teredo holds the client's address with every bit inverted.
          toGroups((0x2001n << 112n) | (BigInt(filler) << 64n) | (value ^ 0xffffffffn)),
        ];
        expect(notations.filter((notation) => isIP(notation) === 0)).toEqual([]);
        expect(notations.filter((notation) => addressPermitted(notation, []))).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it('refuses every address of every special IPv6 range, in short and long form', () => {
    fc.assert(
      fc.property(anySpecial6, (value) => {
        const long = toGroups(value);
        const short = new URL(`https://[${long}]/`).hostname.slice(1, -1);
        const spellings = [long, short, long.toUpperCase()];
        expect(spellings.filter((spelling) => addressPermitted(spelling, []))).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it('refuses a special IPv4 address in every notation of a URL', () => {
    fc.assert(
      fc.property(anySpecial4, (value) => {
        const octets = [24n, 16n, 8n, 0n].map((shift) => Number((value >> shift) & 255n));
        const [first = 0, second = 0] = octets;
        const spellings = [
          octets.join('.'),
          `${octets.join('.')}.`,
          octets.map((octet) => `0x${octet.toString(16)}`).join('.'),
          octets.map((octet) => `0${octet.toString(8)}`).join('.'),
          value.toString(),
          `0x${value.toString(16)}`,
          `0${value.toString(8)}`,
          `${first}.${value & 0xffffffn}`,
          `${first}.${second}.${value & 0xffffn}`,
          Buffer.from(octets.join('.')).toString('hex').replace(/../g, '%$&'),
        ];
        const hostnames = spellings.map((spelling) => new URL(`http://${spelling}/`).hostname);
        expect(hostnames.filter((hostname) => isIP(hostname) !== 4)).toEqual([]);
        expect(hostnames.filter((hostname) => addressPermitted(hostname, []))).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it.each([
    '0x7f.1',
    '0177.0.0.1',
    '2130706433',
    '127.1',
    '017700000001',
    '127.0.0.1.',
    '%31%32%37.0.0.1',
    '①②⑦.0.0.1',
  ])('sees loopback behind http://%s/', (spelling) => {
    expect(new URL(`http://${spelling}/`).hostname).toBe('127.0.0.1');
  });

  it.each(['8.8.8.8', '1.1.1.1', '172.15.255.255', '172.32.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'])(
    'permits the public address %s, and the same address mapped to IPv6 or behind NAT64',
    (address) => {
      expect(addressPermitted(address, [])).toBe(true);
      expect(addressPermitted(`::ffff:${address}`, [])).toBe(true);
      expect(addressPermitted(`64:ff9b::${address}`, [])).toBe(true);
    },
  );

  it.each(['2606:4700:4700::1111', '2001:4860:4860::8888', '2a00:1450::1', '2003::1'])('permits %s', (address) => {
    expect(addressPermitted(address, [])).toBe(true);
  });

  it.each([
    ['169.254.169.254', 'linkLocal'],
    ['100.100.100.200', 'carrierGradeNat'],
    ['168.63.129.16', 'metadata'],
    ['fd00:ec2::254', 'uniqueLocal'],
    ['fe80::1%eth0', 'linkLocal'],
    ['::ffff:169.254.169.254', 'linkLocal'],
    ['::127.0.0.1', 'unallocated'],
    ['::8.8.8.8', 'unallocated'],
    ['8.8.8.8', undefined],
  ])('names the range of %s: %s', (address, range) => {
    expect(specialRangeOf(address)).toBe(range);
  });

  it.each(['', 'localhost', '0x7f.1', '010.0.0.1', '8.8.8', '8.8.8.8.', '[2606:4700::1]', '8.8.8.8/32', ' 8.8.8.8'])(
    'refuses %j, which is no plain address, even with everything allowed',
    (text) => {
      expect(addressPermitted(text, parseCidrs(['0.0.0.0/0', '::/0']))).toBe(false);
      expect(specialRangeOf(text)).toBe('not an address');
    },
  );
});

function issuesOf(run: () => unknown): readonly Issue[] {
  try {
    run();
  } catch (error) {
    if (error instanceof AppError) return error.issues;
    throw error;
  }
  throw new Error('it should have failed');
}

describe('allowed networks', () => {
  it('permits exactly the special addresses inside them', () => {
    fc.assert(
      fc.property(word, fc.integer({ min: 0, max: 32 }), word, (network, prefixLength, address) => {
        const masked = (value: number): bigint => BigInt(value) >> BigInt(32 - prefixLength);
        const special = toDotted((BigInt(address) & 0xffffffn) | (10n << 24n));
        const inNetwork = masked(network) === masked(Number(from4(special)));
        const cidrs = parseCidrs([`${toDotted(BigInt(network))}/${prefixLength}`]);
        expect(addressPermitted(special, cidrs)).toBe(inNetwork);
        expect(addressPermitted(`::ffff:${special}`, cidrs)).toBe(inNetwork);
      }),
    );
  });

  it('does not permit NAT64 addresses by an IPv4 network, or IPv4 addresses by ::/0', () => {
    expect(addressPermitted('64:ff9b::10.0.0.1', parseCidrs(['10.0.0.0/8']))).toBe(false);
    expect(addressPermitted('64:ff9b::10.0.0.1', parseCidrs(['64:ff9b::/96']))).toBe(true);
    expect(addressPermitted('::ffff:10.0.0.1', parseCidrs(['::/0']))).toBe(false);
  });

  it('reads networks in any spelling and returns one canonical text', () => {
    const texts = parseCidrs(['10.1.2.3/8', 'FD00:0:0::1/8', '::ffff:10.0.0.0/104', '127.0.0.1/32', '0.0.0.0/0']).map(
      (cidr) => cidr.text,
    );
    expect(texts).toEqual(['10.0.0.0/8', 'fd00::/8', '127.0.0.1/32', '0.0.0.0/0']);
  });

  it('names every bad entry with its place and its fault', () => {
    const bad = [
      '10.0.0.0',
      '10.0.0.0/33',
      '010.0.0.0/8',
      'localhost/8',
      '::1/129',
      '10.0.0.0/8/8',
      '10.0.0.0/',
      '1/8',
    ];
    const issues = issuesOf(() => parseCidrs(['192.168.0.0/16', ...bad]));
    expect(issues.map((issue) => issue.path)).toEqual(bad.map((_, index) => `[${index + 1}]`));
    expect(issues[0]).toMatchObject({ message: expect.stringContaining('10.0.0.0/32') });
    expect(issues[1]).toMatchObject({ message: expect.stringContaining('0 to 32') });
  });
});

describe('whitelisted domains', () => {
  it.each([
    ['hooks.example.org', ['*.example.org'], true],
    ['a.b.c.example.org', ['*.example.org'], true],
    ['example.org', ['*.example.org'], false],
    ['example.org', ['example.org'], true],
    ['www.example.org', ['example.org'], false],
    ['badexample.org', ['*.example.org', 'example.org'], false],
    ['example.org.evil.com', ['*.example.org', 'example.org'], false],
    ['HOOKS.Example.ORG', ['*.eXample.org'], true],
    ['hooks.example.org.', ['*.example.org'], true],
    ['hooks.example.org', ['hooks.example.org.'], true],
    ['bücher.example', ['xn--bcher-kva.example'], true],
    ['shop.xn--bcher-kva.example', ['*.BÜCHER.example'], true],
    ['192.0.2.7', ['192.0.2.7'], true],
    ['192.0.2.7', ['*.0.2.7'], false],
    ['192.0.2.7', ['*.2.7', '*'], false],
    ['[2001:DB8::1]', ['2001:db8:0:0:0:0:0:1'], true],
    ['2001:db8::1', ['[2001:db8::1]'], true],
    ['[2001:db8::2]', ['2001:db8::1'], false],
    ['example.org', [], false],
    ['example.org', ['*', '*.*', '', '.', '*.'], false],
    ['example.org/evil.com', ['*.com', 'example.org'], false],
    ['.example.org', ['*.example.org'], false],
    ['', ['*.example.org', ''], false],
  ])('%s under %j: %s', (host, domains, allowed) => {
    expect(domainAllowed(host, domains)).toBe(allowed);
  });

  it('covers any subdomain under a wildcard and no sibling', () => {
    const label = fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/);
    fc.assert(
      fc.property(fc.array(label, { minLength: 1, maxLength: 4 }), label, (labels, sibling) => {
        expect(domainAllowed(`${labels.join('.')}.example.org`, ['*.example.org'])).toBe(true);
        expect(domainAllowed(`${labels.join('.')}.${sibling}example.org`, ['*.example.org'])).toBe(false);
      }),
    );
  });

  it('recognises an entry that can never match', () => {
    expect(canonicalDomain('*.Example.org.')).toBe('*.example.org');
    const bad = ['https://example.org', 'example.org/x', 'example.org:443', 'a.*.org', '*.10.0.0.1', '*', ''];
    expect(bad.filter((entry) => canonicalDomain(entry) !== undefined)).toEqual([]);
  });
});

it.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
  ['fe80::1%eth0', 'fe80::/64'],
  ['no address', undefined],
  [undefined, undefined],
])('counts the client with the address %s as %s', (address, group) => {
  expect(addressGroup(address)).toBe(group);
});

it('finds an address in a network also in its IPv4-mapped form', () => {
  const networks = parseCidrs(['10.0.0.0/8', '2001:db8::/32']);
  for (const address of ['10.255.0.1', '::ffff:10.0.0.1', '2001:db8:ffff::1'])
    expect(addressInNetworks(address, networks)).toBe(true);
  for (const address of ['11.0.0.1', '::ffff:11.0.0.1', '2001:db9::1', 'text', ''])
    expect(addressInNetworks(address, networks)).toBe(false);
  expect(addressInNetworks('10.0.0.1', [])).toBe(false);
});
