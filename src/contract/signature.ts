/**
 * The `X-Signature` header: `hmac-sha256=<hex>` over the exact bytes of the body, keyed with the webhook's
 * `signing_key` as UTF-8. Source: API document, "Authentication", 2. And the signature of Standard Webhooks, which a webhook
 * may have beside it.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

const prefix = 'hmac-sha256=';
const form = /^hmac-sha256=[0-9a-fA-F]{64}$/;

/** Returns the header for these bytes, or for this text as UTF-8. Throws for an empty key, with which anybody could sign. */
export function signBody(body: string | Uint8Array, signingKey: string): string {
  if (signingKey === '') throw new RangeError('A signing key must not be empty.');
  return prefix + createHmac('sha256', signingKey).update(body).digest('hex');
}

const standardPrefix = 'whsec_';

/** A new key for Standard Webhooks (standardwebhooks.com): `whsec_` and 32 random bytes in Base64. */
export function createStandardKey(): string {
  return standardPrefix + randomBytes(32).toString('base64');
}

/**
 * Returns the header `webhook-signature` of Standard Webhooks: `v1,` and the HMAC-SHA256 of id, timestamp and body, keyed
 * with the bytes of the key. The timestamp is in seconds since 1970.
 */
export function signStandard(
  { id, timestampS, body }: { id: string; timestampS: number; body: Uint8Array },
  key: string,
): string {
  const bytes = Buffer.from(key.slice(standardPrefix.length), 'base64');
  return `v1,${createHmac('sha256', bytes).update(`${id}.${timestampS}.`).update(body).digest('base64')}`;
}

/**
 * Returns the 32 bytes of the signature in a header; undefined for any header that is not of the genuine form: then the
 * body need not even be read.
 */
export function readSignature(header: string | undefined): Buffer | undefined {
  if (header === undefined || !form.test(header)) return undefined;
  return Buffer.from(header.slice(prefix.length), 'hex');
}

/**
 * Whether the signature (32 bytes) signs these bytes with one of the keys; there are several while a key is rotated. The
 * comparison takes the same time for all signatures. An empty key signs nothing.
 */
export function isSignedWith(signingKeys: readonly string[], body: Uint8Array, signature: Uint8Array): boolean {
  return signingKeys.some(
    (key) => key !== '' && timingSafeEqual(createHmac('sha256', key).update(body).digest(), signature),
  );
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
