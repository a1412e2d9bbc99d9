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
   * Stores a notification, unless one with this signature is remembered or being stored: then its outcome is that of the
   * other one. Resolves with whether it was stored now. Rejects as `store` does, and forgets it, so that the sender's next
   * attempt stores it. `signature` has at least 64 bits.
   */
  storeOnce(signature: Buffer, store: () => Promise<void>): Promise<boolean>;
}

/** Notifications share a bucket by some bits of their signatures; a new one takes the place of the oldest there. */
const bucketSize = 8;

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

  /** Returns the place where it is remembered, among those of its bucket; -1 when it is not. */
  function placeOf({ high, low }: Remembered, first: number, second: number): number {
    const from = (second & (buckets - 1)) * bucketSize;
    for (let place = from; place < from + bucketSize; place += 1)
      if (high[place] === first && low[place] === second) return place;
    return -1;
  }

  function remember({ high, low, next }: Remembered, first: number, second: number): void {
    const bucket = second & (buckets - 1);
    const place = next[bucket] ?? 0;
    high[bucket * bucketSize + place] = first;
    low[bucket * bucketSize + place] = second;
    next[bucket] = (place + 1) % bucketSize;
  }

  function forget(from: Remembered, first: number, second: number): void {
    const place = placeOf(from, first, second);
    if (place < 0) return;
    from.high[place] = 0;
    from.low[place] = 0;
  }

  return {
    storeOnce: async (signature, store) => {
      const first = signature.readUInt32BE(0);
      const second = signature.readUInt32BE(4);
      remembered ??= {
        high: new Uint32Array(buckets * bucketSize),
        low: new Uint32Array(buckets * bucketSize),
        next: new Uint8Array(buckets),
      };
      if (placeOf(remembered, first, second) >= 0) {
        await writing.find((other) => other.first === first && other.second === second)?.stored;
        return false;
      }
      const stored = store();
      // From now on: so those that are being stored are looked at only for a notification that comes again.
      remember(remembered, first, second);
      const place = writing.add({ first, second, stored });
      try {
        await stored;
      } catch (error) {
        forget(remembered, first, second);
        throw error;
      } finally {
        writing.remove(place);
      }
      return true;
    },
  };
}
