/**
 * Shared commits: items that arrive while one write is under way go together in the next one. A write costs the same
 * flush to disk for one item as for a hundred, so the busier it is, the cheaper each becomes. Who was answered often has
 * another item at once: while others wait anyway, and where writes take much longer than that, the next write waits a
 * moment for those, too. Else they would part into two groups, each of which waits for the other's write.
 */
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

/** As short as a timer can be, and enough to answer and to be asked again. */
const gatherMs = 1;
/** A write that took less is not worth a wait. */
const slowMs = 2 * gatherMs;

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
  clock: Clock;
}): SharedCommit<Item, Result> {
  interface Waiting {
    item: Item;
    resolve: (result: Result) => void;
    reject: (error: unknown) => void;
  }
  const waiting: Waiting[] = [];
  let running: Promise<void> | undefined;
  let gathering: { count: number; enough: AbortController } | undefined;

  async function writeAll(): Promise<void> {
    // What arrives in the same turn of the event loop as the first one goes with it.
    await setImmediate();
    while (waiting.length > 0) {
      const batch = waiting.splice(0, options.batchMax);
      const beganMs = options.clock.nowMs();
      await writeBatch(batch);
      const isSlow = options.clock.nowMs() - beganMs >= slowMs;
      if (isSlow && waiting.length > 0) await gather(Math.min(waiting.length + batch.length, options.batchMax));
    }
    running = undefined;
  }

  /** Resolves when so many wait, or after `gatherMs`. */
  async function gather(count: number): Promise<void> {
    if (waiting.length >= count) return;
    const enough = new AbortController();
    gathering = { count, enough };
    await options.clock.sleep(gatherMs, enough.signal).catch(() => undefined);
    gathering = undefined;
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
        if (gathering && waiting.length >= gathering.count) gathering.enough.abort();
        running ??= writeAll();
      }),
    idle: async () => {
      await running;
    },
  };
}
