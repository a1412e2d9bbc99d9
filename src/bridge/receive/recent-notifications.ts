/**
 * Recognises notifications that come again. A verified signature stands for the bytes that it signs, so it is all that
 * is remembered, in this process and for the last few thousand notifications of a source. A notification that comes
 * again after that, or to another process, is stored again: it costs one more pull, as would any other notification.
 */

export interface RecentNotifications {
  /**
   * Stores a notification, unless one with this signature is remembered: then `stored` is the outcome of that one.
   * After a failure it is forgotten, so that the sender's next attempt stores it.
   */
  storeOnce(signature: string, store: () => Promise<void>): { isNew: boolean; stored: Promise<void> };
}

/** Half of the signature's digits: more than enough to tell notifications apart, and looked up in half the time. */
const rememberedDigits = 32;

/** Remembers at least the last `max` notifications, and at most twice as many. */
export function createRecentNotifications(max: number): RecentNotifications {
  // Two generations: forgetting one by one would cost more than remembering.
  let young = new Map<string, Promise<void>>();
  let old = new Map<string, Promise<void>>();
  return {
    storeOnce: (given, store) => {
      const signature = given.slice(-rememberedDigits).toLowerCase();
      const known = young.get(signature) ?? old.get(signature);
      if (known) return { isNew: false, stored: known };
      const stored = store();
      if (young.size >= max) {
        old = young;
        young = new Map();
      }
      young.set(signature, stored);
      stored.catch(() => {
        young.delete(signature);
        old.delete(signature);
      });
      return { isNew: true, stored };
    },
  };
}
