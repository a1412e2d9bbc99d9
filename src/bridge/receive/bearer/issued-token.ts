/**
 * Tokens that the bridge issues itself: the time at which they expire, and a MAC of it that is bound to the client and
 * its secret. Every receiver process with the same master key can check them, and nothing is stored. When a client's
 * secret changes, its tokens become invalid.
 */
import { createHash } from 'node:crypto';
import type { SecretBox } from '#platform/secrets.ts';

/** Long enough that few tokens are requested, short enough that a leaked token soon expires. */
export const tokenLifetimeS = 600;

const expiryBytes = 8;
const macBytes = 32;

export interface IssuedClient {
  readonly client_id: string;
  readonly client_secret: string;
}

/** Returns a token of 54 characters that is valid for `tokenLifetimeS` from now. */
export function issueToken(secrets: SecretBox, client: IssuedClient, nowMs: number): string {
  const expiry = Buffer.alloc(expiryBytes);
  expiry.writeBigUInt64BE(BigInt(nowMs + tokenLifetimeS * 1000));
  return Buffer.concat([expiry, secrets.mac(expiry, contextOf(client))]).toString('base64url');
}

/** Whether the token was issued to this client under its present secret and has not expired. */
export function checkIssuedToken(secrets: SecretBox, client: IssuedClient, token: string, nowMs: number): boolean {
  const bytes = Buffer.from(token, 'base64url');
  // Decoding ignores characters that are not base64; only one text of the same bytes is accepted.
  if (bytes.length !== expiryBytes + macBytes || bytes.toString('base64url') !== token) return false;
  const expiry = bytes.subarray(0, expiryBytes);
  const genuine = secrets.verifiesMac(bytes.subarray(expiryBytes), expiry, contextOf(client));
  return genuine && Number(expiry.readBigUInt64BE()) > nowMs;
}

function contextOf({ client_id: id, client_secret: secret }: IssuedClient): string {
  return `bridge.bearer:${createHash('sha256').update(secret, 'utf8').digest('hex')}:${id}`;
}
