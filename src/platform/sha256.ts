import { hash } from 'node:crypto';

/**
 * The SHA-256 of bytes, or of a text in UTF-8. For what is hashed by the thousand: Node returns a short text sooner than a
 * buffer, and `createHash` makes an object outside of the heap for each.
 */
export function sha256(data: string | Uint8Array): Buffer {
  return Buffer.from(hash('sha256', data, 'binary'), 'binary');
}
