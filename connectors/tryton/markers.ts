/**
 * Tryton has no field for an external document's key. The connector therefore writes a marker, which is derived from
 * the key, into a field that Tryton can search.
 */
import { createHash } from 'node:crypto';
import { type DocumentKind } from 'sourcing-bridge/connector';

/**
 * The marker of a document, or of a `part` of it: `SB-` and 16 letters and digits. Its 80 bits of a hash are enough to
 * rule out that two documents get the same marker.
 */
export function markerOf(kind: DocumentKind, key: string, part = ''): string {
  const digest = createHash('sha256').update(`${kind}\n${key}\n${part}`).digest();
  let bits = BigInt(`0x${digest.subarray(0, 10).toString('hex')}`);
  let marker = '';
  for (let index = 0; index < 16; index += 1) {
    marker = `${alphabet[Number(bits & 31n)]}${marker}`;
    bits >>= 5n;
  }
  return `SB-${marker}`;
}

/** Without the letters that look like digits. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
