/**
 * The token of a pre-signed download link: the file's id, the time when the link expires, and a MAC over both. 54 bytes
 * are exactly 72 characters of base64url, so a token has only one spelling.
 */
import type { SecretBox } from '#platform/secrets.ts';

const idBytes = 16;
const signedBytes = idBytes + 6;
const tokenForm = /^[\w-]{72}$/;
const context = 'download link';

/** A token for the file (a UUID) that is valid until `expiresMs`, milliseconds since 1970. */
export function createDownloadToken(secrets: SecretBox, fileId: string, expiresMs: number): string {
  const signed = Buffer.alloc(signedBytes);
  signed.write(fileId.replaceAll('-', ''), 'hex');
  signed.writeUIntBE(expiresMs, idBytes, signedBytes - idBytes);
  return Buffer.concat([signed, secrets.mac(signed, context)]).toString('base64url');
}

/**
 * The file's id; undefined for a token that this service did not make, that was altered, or that has expired by
 * `nowMs`.
 */
export function readDownloadToken(secrets: SecretBox, token: string, nowMs: number): string | undefined {
  if (!tokenForm.test(token)) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  const signed = bytes.subarray(0, signedBytes);
  if (!secrets.verifiesMac(bytes.subarray(signedBytes), signed, context)) return undefined;
  if (nowMs >= signed.readUIntBE(idBytes, signedBytes - idBytes)) return undefined;
  return signed.toString('hex', 0, idBytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
