/** Random tokens of sessions and links. The database has only their hashes: who reads it can log in with none. */
import { createHash, randomBytes } from 'node:crypto';

/** Returns 256 random bits as text for a cookie or a URL, and their hash. */
export function createSessionToken(): { token: string; hash: Buffer } {
  const token = randomBytes(32).toString('base64url');
  return { token, hash: hashSessionToken(token) };
}

export function hashSessionToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
