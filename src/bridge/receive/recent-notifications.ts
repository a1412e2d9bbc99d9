/**
 * Recognises notifications that come again. A verified signature stands for the bytes that it signs, so 64 bits of it are
 * all that is remembered, in this process and for the last few thousand notifications of a source. A notification that
 * comes again after that, or to another process, is stored again: it costs one more pull, as would any other
 * notification.
 *
 * What is remembered stands in arrays of numbers: an object for each of thousands of notifications would cost the garbage
 * collector more time than the receiver spends on checking signatures.
 */
import { ShortLived } from '#platform/short-lived.ts';

export interface RecentNotifications {
  /**
   * Stores a notification, unless one with this signature is remembered or being stored: then `stored` is the outcome of
   * that one. After a failure it is forgotten, so that the sender's next attempt stores it. `signature` has at least 64
   * bits.
   */
  storeOnce(signature: Buffer, store: () => Promise<void>): { isNew: boolean; stored: Promise<void> };
}

/** Notifications share a bucket by some bits of their signatures; a new one takes the place of the oldest there. */
const bucketSize = 8;
const alreadyStored = Promise.resolve();

/** A notification that is being stored. There are as many as requests at once: some dozens. */
interface Writing {
  readonly first: number;
  readonly second: number;
  readonly stored: Promise<void>;
}

interface Remembered {
  /** Two halves of 64 bits for each place; zero for both: empty. */
  readonly high: Uint32Array;
  readonly low: Uint32Array;
  /** The place of each bucket that is taken next. */
  readonly next: Uint8Array;
}

/** Remembers most of the last `max` notifications, and at most eight times as many. */
export function createRecentNotifications(max: number): RecentNotifications {
  const buckets = 2 ** Math.ceil(Math.log2(Math.max(1, max / 4)));
  // Made for the first notification: most of hundreds of sources may never send one.
  let remembered: Remembered | undefined;
  const writing = new ShortLived<Writing>();

  function isRemembered(first: number, second: number): boolean {
    if (!remembered) return false;
    const { high, low } = remembered;
    const from = (second & (buckets - 1)) * bucketSize;
    for (let place = from; place < from + bucketSize; place += 1)
      if (high[place] === first && low[place] === second) return true;
    return false;
  }

  function remember(first: number, second: number): void {
    remembered ??= {
      high: new Uint32Array(buckets * bucketSize),
      low: new Uint32Array(buckets * bucketSize),
      next: new Uint8Array(buckets),
    };
    const { high, low, next } = remembered;
    const bucket = second & (buckets - 1);
    const place = next[bucket] ?? 0;
    high[bucket * bucketSize + place] = first;
    low[bucket * bucketSize + place] = second;
    next[bucket] = (place + 1) % bucketSize;
  }

  return {
    storeOnce: (signature, store) => {
      const first = signature.readUInt32BE(0);
      const second = signature.readUInt32BE(4);
      const isSame = (other: Writing) => other.first === first && other.second === second;
      const known = writing.find(isSame)?.stored ?? (isRemembered(first, second) ? alreadyStored : undefined);
      if (known) return { isNew: false, stored: known };
      const stored = store();
      const place = writing.add({ first, second, stored });
      stored.then(
        () => {
          writing.remove(place);
          remember(first, second);
        },
        () => writing.remove(place),
      );
      return { isNew: true, stored };
    },
  };
}
