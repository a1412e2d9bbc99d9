/**
 * The part of a pre-signed download link that carries the right to a file: the file's id, when the link expires, and a
 * MAC over both. 54 bytes are 72 digits of base64url without a rest, so that a token has one spelling only.
 */
import type { SecretBox } from '#platform/secrets.ts';

const idBytes = 16;
const signedBytes = idBytes + 6;
const tokenForm = /^[\w-]{72}$/;
const context = 'download link';

/** A token for the file (a UUID) that is good until `expiresMs`, milliseconds since 1970. */
export function createDownloadToken(secrets: SecretBox, fileId: string, expiresMs: number): string {
  const signed = Buffer.alloc(signedBytes);
  signed.write(fileId.replaceAll('-', ''), 'hex');
  signed.writeUIntBE(expiresMs, idBytes, signedBytes - idBytes);
  return Buffer.concat([signed, secrets.mac(signed, context)]).toString('base64url');
}

/** The file's id; undefined for a token that was not made here, was altered, or has expired by `nowMs`. */
export function readDownloadToken(secrets: SecretBox, token: string, nowMs: number): string | undefined {
  if (!tokenForm.test(token)) return undefined;
  const bytes = Buffer.from(token, 'base64url');
  const signed = bytes.subarray(0, signedBytes);
  if (!secrets.verifiesMac(bytes.subarray(signedBytes), signed, context)) return undefined;
  if (nowMs >= signed.readUIntBE(idBytes, signedBytes - idBytes)) return undefined;
  return signed.toString('hex', 0, idBytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
