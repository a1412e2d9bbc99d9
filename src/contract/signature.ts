/**
 * The `X-Signature` header: `hmac-sha256=<hex>` over the exact bytes of the body, keyed with the webhook's
 * `signing_key` as UTF-8. Source: API document, "Authentication", 2.
 */
import { createHash, createHmac, hash, timingSafeEqual } from 'node:crypto';

const prefix = 'hmac-sha256=';
const form = /^hmac-sha256=[0-9a-fA-F]{64}$/;

/** Returns the header for these bytes, or for this text as UTF-8. A key is text, or was made ready, which is faster. */
export function signBody(body: string | Uint8Array, signingKey: string | ReadyKey): string {
  const hex =
    typeof signingKey === 'string'
      ? createHmac('sha256', signingKey).update(body).digest('hex')
      : readyHmac(signingKey, typeof body === 'string' ? Buffer.from(body) : body, 'hex');
  return prefix + hex;
}

/**
 * Returns the 32 bytes of the signature in a header; undefined for any header that is not of the genuine form: then the
 * body need not even be read.
 */
export function readSignature(header: string | undefined): Buffer | undefined {
  if (header === undefined || !form.test(header)) return undefined;
  return Buffer.from(header.slice(prefix.length), 'hex');
}

/** A key made ready for many bodies: what an HMAC hashes before the body, and before the hash of that (RFC 2104). */
export interface ReadyKey {
  readonly inner: Uint8Array;
  readonly outer: Uint8Array;
}

const blockBytes = 64;

/** Makes a key ready. Throws for an empty one, with which anybody could sign. */
export function readyKey(signingKey: string): ReadyKey {
  if (signingKey === '') throw new RangeError('A signing key must not be empty.');
  const bytes = Buffer.from(signingKey);
  const key = bytes.length > blockBytes ? createHash('sha256').update(bytes).digest() : bytes;
  const blockOf = (pad: number) => Uint8Array.from({ length: blockBytes }, (_, at) => (key[at] ?? 0) ^ pad);
  return { inner: blockOf(0x36), outer: blockOf(0x5c) };
}

/**
 * Whether the signature signs these bytes with one of the keys; there are several while a key is rotated. The comparison
 * takes the same time for all signatures. A key is text, or was made ready, which is faster.
 */
export function isSignedWith(
  signingKeys: readonly (string | ReadyKey)[],
  body: Uint8Array,
  signature: Uint8Array,
): boolean {
  return signingKeys.some((key) => key !== '' && timingSafeEqual(hmacOf(key, body), signature));
}

function hmacOf(key: string | ReadyKey, body: Uint8Array): Uint8Array {
  return typeof key === 'string'
    ? createHmac('sha256', key).update(body).digest()
    : Buffer.from(readyHmac(key, body, 'binary'), 'binary');
}

/**
 * By hand: Node's own Hmac is an object outside of the heap for each body, and takes twice the time of these two hashes.
 * As text: Node returns a short text sooner than a buffer.
 */
function readyHmac({ inner, outer }: ReadyKey, body: Uint8Array, encoding: 'hex' | 'binary'): string {
  const innerHash = hash('sha256', Buffer.concat([inner, body]), 'binary');
  return hash('sha256', Buffer.concat([outer, Buffer.from(innerHash, 'binary')]), encoding);
}

/** Whether the header signs these bytes with one of the keys; false for a header of any other form. */
export function signatureMatches(
  body: Uint8Array,
  header: string | undefined,
  signingKeys: readonly string[],
): boolean {
  const signature = readSignature(header);
  return signature !== undefined && isSignedWith(signingKeys, body, signature);
}
