/** Counts and hashes bytes on their way into a storage. */
import { createHash } from 'node:crypto';
import type { StoredBytes } from './file-storage.ts';

export interface Measured {
  /** The same bytes; to be read once. */
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Whether the source of the bytes has failed, and not the code that reads them here. */
  hasFailed(): boolean;
  /** Size and SHA-256 of the bytes that were read so far. */
  result(): StoredBytes;
}

/** Passes the bytes of `source` on unchanged. */
export function measure(source: AsyncIterable<Uint8Array>): Measured {
  const hash = createHash('sha256');
  let size = 0;
  let failed = false;
  async function* pass(): AsyncGenerator<Uint8Array, void, undefined> {
    const chunks = source[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await chunks.next().catch((error: unknown) => {
          failed = true;
          throw error;
        });
        if (next.done === true) return;
        size += next.value.length;
        hash.update(next.value);
        yield next.value;
      }
    } finally {
      await chunks.return?.();
    }
  }
  return { bytes: pass(), hasFailed: () => failed, result: () => ({ size, sha256: hash.copy().digest() }) };
}
