/**
 * The token of a pre-signed link: an id, the time when the link expires, and a MAC over both and what the link is for. 54
 * bytes are exactly 72 characters of base64url, so a token has only one spelling.
 */
import type { SecretBox } from '#platform/secrets.ts';

const idBytes = 16;
const signedBytes = idBytes + 6;
const tokenForm = /^[\w-]{72}$/;

/** A token for the id (a UUID) that is valid until `expiresMs`, milliseconds since 1970. Another `use` has other tokens. */
export function createLinkToken(secrets: SecretBox, use: string, id: string, expiresMs: number): string {
  const signed = Buffer.alloc(signedBytes);
  signed.write(id.replaceAll('-', ''), 'hex');
  signed.writeUIntBE(expiresMs, idBytes, signedBytes - idBytes);
  return Buffer.concat([signed, secrets.mac(signed, use)]).toString('base64url');
}

/**
 * The id; undefined for a token that this service did not make, that was altered or made for another use, or that has
 * expired by `nowMs`.
 */
export function readLinkToken(secrets: SecretBox, use: string, token: string, nowMs: number): string | undefined {
  if (!tokenForm.test(token)) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  const signed = bytes.subarray(0, signedBytes);
  if (!secrets.verifiesMac(bytes.subarray(signedBytes), signed, use)) return undefined;
  if (nowMs >= signed.readUIntBE(idBytes, signedBytes - idBytes)) return undefined;
  return signed.toString('hex', 0, idBytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
