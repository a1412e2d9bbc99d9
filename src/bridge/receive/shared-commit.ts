/**
 * Shared commits: items that arrive while one write is under way go together in the next one. A write costs the same
 * flush to disk for one item as for a hundred, so the busier it is, the cheaper each becomes.
 */
import { AppError } from '#platform/errors.ts';

export interface SharedCommit<Item, Result> {
  /**
   * Resolves with the item's own result once its write has committed; rejects when that write failed, which says nothing
   * of the items of other writes. Rejects with AppError `unavailable` when too many are waiting.
   */
  add(item: Item): Promise<Result>;
  /** Resolves when nothing waits any more. */
  idle(): Promise<void>;
}

/** `write` gives one result for each item, in their order. Beyond `backlogMax` waiting items `add` is refused. */
export function createSharedCommit<Item, Result>(options: {
  write: (items: readonly Item[]) => Promise<readonly Result[]>;
  batchMax: number;
  backlogMax: number;
}): SharedCommit<Item, Result> {
  interface Waiting {
    item: Item;
    resolve: (result: Result) => void;
    reject: (error: unknown) => void;
  }
  const waiting: Waiting[] = [];
  let running: Promise<void> | undefined;

  async function writeAll(): Promise<void> {
    // What arrives in the same turn of the event loop as the first one goes with it.
    await Promise.resolve();
    while (waiting.length > 0) await writeBatch(waiting.splice(0, options.batchMax));
    running = undefined;
  }

  async function writeBatch(batch: readonly Waiting[]): Promise<void> {
    try {
      const results = await options.write(batch.map(({ item }) => item));
      if (results.length !== batch.length)
        throw new AppError('internal', `A write of ${batch.length} items gave ${results.length} results.`);
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        if (waiting.length >= options.backlogMax) {
          reject(new AppError('unavailable', 'Too many notifications are waiting to be stored. Send it again later.'));
          return;
        }
        waiting.push({ item, resolve, reject });
        running ??= writeAll();
      }),
    idle: async () => {
      await running;
    },
  };
}
