/** Tryton has no field for the name of somebody else's document: a marker stands for it where Tryton can search. */
import { createHash } from 'node:crypto';
import type { DocumentKind } from 'sourcing-bridge/connector';

/** `SB-` and sixteen letters and digits: 80 bits are enough for none to meet. `part`: of a part of the document. */
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

/** Without letters that are taken for digits. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
