/**
 * Markers: short texts that stand for a long one in SAP's short fields. A marker is the beginning of the SHA-256 in
 * base32 (RFC 4648): capital letters and digits, which no field of SAP changes.
 */
import { createHash } from 'node:crypto';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
/** Characters of CorrespncExternalReference ("Your reference"). 60 bits: two of a million keys collide once in 2 million. */
const referenceLength = 12;
/** Characters of BusinessPartnerIDByExtSystem. */
const externalIdLength = 20;
const hashPrefix = 'SB-';

/** The mark of a document's key on its order: `MZXW6YTBOI23`. */
export function keyMarker(key: string): string {
  return base32Hash(key, referenceLength);
}

/** What identifies a lot in the record of an order. */
export function lotMarker(lot: string): string {
  return base32Hash(lot, referenceLength);
}

/** The mark of a document's key in a field of 10 characters, which hold 50 bits. */
export function shortMarker(key: string): string {
  return base32Hash(key, 10);
}

/**
 * What an item of a contract carries in RequirementTracking (10 characters): 6 for its lot, 4 for the state in which the
 * connector left it. A person's change leaves the mark of the old state.
 */
export function contractItemMark(lot: string, state: string): string {
  return base32Hash(lot, contractLotLength) + base32Hash(state, 4);
}

/** The part of such a mark that is the lot's. */
export function contractLot(mark: string): string {
  return mark.slice(0, contractLotLength);
}

const contractLotLength = 6;

/**
 * The supplier's key in its external number of 20 characters: as it is where SAP is sure to keep it (capital letters and
 * digits), else a hash of 85 bits.
 */
export function externalNumber(key: string): string {
  const fits = /^[\dA-Z][\dA-Z._-]{0,19}$/.test(key) && !key.startsWith(hashPrefix);
  return fits ? key : `${hashPrefix}${base32Hash(key, externalIdLength - hashPrefix.length)}`;
}

function base32Hash(text: string, length: number): string {
  const hash = createHash('sha256').update(text, 'utf8').digest();
  let bits = BigInt(`0x${hash.toString('hex')}`) >> BigInt(256 - length * 5);
  let coded = '';
  for (let place = 0; place < length; place += 1) {
    coded = (alphabet[Number(bits & 31n)] as string) + coded;
    bits >>= 5n;
  }
  return coded;
}
