/**
 * Recognises notifications that come again, by their verified signatures, in this process and for the last few thousand
 * notifications of a source. A notification that comes again after that, or to another process, is stored again: it costs
 * one more pull, as would any other notification.
 */
export interface RecentNotifications {
  /**
   * Stores a notification, unless one with this signature is remembered or being stored: then its outcome is that of the
   * other one. Resolves with whether it was stored now. Rejects as `store` does, and forgets it, so that the sender's next
   * attempt stores it.
   */
  storeOnce(signature: Buffer, store: () => Promise<void>): Promise<boolean>;
}

/** Remembers the last `max` notifications. */
export function createRecentNotifications(max: number): RecentNotifications {
  const remembered = new Map<string, Promise<void>>();
  return {
    storeOnce: async (signature, store) => {
      const name = signature.toString('base64');
      const before = remembered.get(name);
      if (before) {
        await before;
        return false;
      }
      const stored = store();
      remembered.set(name, stored);
      const [oldest] = remembered.keys();
      if (remembered.size > max && oldest !== undefined) remembered.delete(oldest);
      try {
        await stored;
      } catch (error) {
        remembered.delete(name);
        throw error;
      }
      return true;
    },
  };
}
