/**
 * The extension of a certificate authority that bounds the hosts for which it can vouch (RFC 5280, 4.2.1.10), written
 * here because the certificate library has no class for it.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

export const nameConstraintsOid = '2.5.29.30';

const [sequence, permitted, excluded, dnsName, ipAddress] = [0x30, 0xa0, 0xa1, 0x82, 0x87];

/**
 * Returns the DER of the constraints for these host names and addresses, whose order counts. A name also permits the
 * names below it: the standard has no way to permit it alone. Where no address is permitted all are excluded, and where
 * no name is, all names: a kind that the constraints do not mention would be free.
 */
export function nameConstraints(hostnames: readonly string[]): Buffer {
  const names = hostnames.filter((hostname) => isIP(hostname) === 0).map((name) => name.replace(/^\*\./, ''));
  const addresses = hostnames
    .filter((hostname) => isIP(hostname) !== 0)
    .map((text) => ipaddr.parse(text).toByteArray());
  const nameTree = (name: string) => der(sequence, der(dnsName, Buffer.from(name, 'ascii')));
  const addressTree = (bytes: readonly number[]) => der(sequence, der(ipAddress, Buffer.from(bytes)));
  const allAddresses = [8, 32].map((length) => addressTree(Array<number>(length).fill(0)));
  const trees = [
    ...names.map(nameTree),
    ...addresses.map((bytes) => addressTree([...bytes, ...bytes.map(() => 0xff)])),
  ];
  const never = [...(names.length === 0 ? [nameTree('')] : []), ...(addresses.length === 0 ? allAddresses : [])];
  return der(
    sequence,
    der(permitted, Buffer.concat(trees)),
    ...(never.length === 0 ? [] : [der(excluded, Buffer.concat(never))]),
  );
}

/** A value with its tag and its length, which takes one byte below 128 and two or three beyond. */
function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const value = Buffer.concat(parts);
  const { length } = value;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), value]);
}
