/**
 * The `X-Signature` header: `hmac-sha256=<hex>` over the exact bytes of the body, keyed with the webhook's
 * `signing_key` as UTF-8. Source: API document, "Authentication", 2.
 */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';

const prefix = 'hmac-sha256=';
/** The form of every genuine header. With any other header, neither the signature nor the body need be looked at. */
export const signatureForm = /^hmac-sha256=[0-9a-fA-F]{64}$/;

export function signBody(body: string | Uint8Array, signingKey: string): string {
  return prefix + createHmac('sha256', signingKey).update(body).digest('hex');
}

/**
 * Whether the header signs these bytes with one of the keys; there are several while a key is rotated. The form is
 * checked first: an empty or short signature is never compared, and the comparison takes the same time for all others.
 * A key is text or a KeyObject made of it; the KeyObject is faster.
 */
export function signatureMatches(
  body: Uint8Array,
  header: string | undefined,
  signingKeys: readonly (string | KeyObject)[],
): boolean {
  if (header === undefined || !signatureForm.test(header)) return false;
  const given = Buffer.from(header.slice(prefix.length), 'hex');
  return signingKeys.some(
    (key) => key !== '' && timingSafeEqual(createHmac('sha256', key).update(body).digest(), given),
  );
}
