/**
 * Tokens that the bridge gives itself: the moment they expire, and a MAC over it that is bound to the client and its
 * secret. Every receiver process with the same master key can check them, nothing is stored, and a client whose secret is
 * changed loses the tokens that it has.
 */
import { createHash } from 'node:crypto';
import type { SecretBox } from '#platform/secrets.ts';

/** Long enough that few are asked for, short enough that one that leaks is soon of no use. */
export const tokenLifetimeS = 600;

const expiryBytes = 8;
const macBytes = 32;

export interface IssuedClient {
  readonly client_id: string;
  readonly client_secret: string;
}

/** A token of 54 characters, good for `tokenLifetimeS` from now. */
export function issueToken(secrets: SecretBox, client: IssuedClient, nowMs: number): string {
  const expiry = Buffer.alloc(expiryBytes);
  expiry.writeBigUInt64BE(BigInt(nowMs + tokenLifetimeS * 1000));
  return Buffer.concat([expiry, secrets.mac(expiry, contextOf(client))]).toString('base64url');
}

/** Whether it was given to this client, under the secret that it has now, and has not expired. */
export function checkIssuedToken(secrets: SecretBox, client: IssuedClient, token: string, nowMs: number): boolean {
  const bytes = Buffer.from(token, 'base64url');
  // Decoding passes over what is no base64: the same bytes have one form only.
  if (bytes.length !== expiryBytes + macBytes || bytes.toString('base64url') !== token) return false;
  const expiry = bytes.subarray(0, expiryBytes);
  const genuine = secrets.verifiesMac(bytes.subarray(expiryBytes), expiry, contextOf(client));
  return genuine && Number(expiry.readBigUInt64BE()) > nowMs;
}

function contextOf({ client_id: id, client_secret: secret }: IssuedClient): string {
  return `bridge.bearer:${createHash('sha256').update(secret, 'utf8').digest('hex')}:${id}`;
}
