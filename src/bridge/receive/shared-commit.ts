/**
 * Group commit: items that arrive while a write is running share the next write. A write costs one flush to disk,
 * whether it stores 1 notification or 500, so each item becomes cheaper the busier the receiver is.
 */
import { setImmediate } from 'node:timers/promises';
import { AppError } from '#platform/errors.ts';

export interface SharedCommit<Item> {
  /**
   * Resolves once the item's write has committed. Rejects when that write failed; items of other writes are not
   * affected. Rejects with AppError `unavailable` when too many items are waiting.
   */
  add(item: Item): Promise<void>;
  /** Resolves when no item is waiting any more. */
  idle(): Promise<void>;
}

/** Items that share a write, and how it ended. One promise for all of them: hundreds would cost more than the write. */
interface Batch<Item> {
  readonly items: Item[];
  readonly written: PromiseWithResolvers<void>;
}

/** `write` stores up to `batchMax` items. `add` rejects while `backlogMax` items are waiting. */
export function createSharedCommit<Item>(options: {
  write: (items: readonly Item[]) => Promise<void>;
  batchMax: number;
  backlogMax: number;
}): SharedCommit<Item> {
  const { batchMax } = options;
  /** All but the last one are full. */
  const waiting: Batch<Item>[] = [];
  let waitingItems = 0;
  let running: Promise<void> | undefined;

  async function writeAll(): Promise<void> {
    // Items that arrive in the same turn of the event loop as the first one share its write.
    await setImmediate();
    for (let batch = waiting.shift(); batch; batch = waiting.shift()) {
      waitingItems -= batch.items.length;
      await writeBatch(batch);
    }
    running = undefined;
  }

  async function writeBatch({ items, written }: Batch<Item>): Promise<void> {
    try {
      await options.write(items);
      written.resolve();
    } catch (error) {
      written.reject(error);
    }
  }

  function openBatch(): Batch<Item> {
    const last = waiting.at(-1);
    if (last && last.items.length < batchMax) return last;
    const batch = { items: [], written: Promise.withResolvers<void>() };
    waiting.push(batch);
    return batch;
  }

  return {
    add: (item) => {
      if (waitingItems >= options.backlogMax)
        return Promise.reject(
          new AppError('unavailable', 'Too many notifications are waiting to be stored. Send it again later.'),
        );
      const { items, written } = openBatch();
      items.push(item);
      waitingItems += 1;
      running ??= writeAll();
      return written.promise;
    },
    idle: async () => {
      await running;
    },
  };
}
