/**
 * Group commit: items that arrive while a write is running share the next write. A write costs one flush to disk,
 * whether it stores 1 notification or 500, so each item becomes cheaper the busier the receiver is.
 *
 * Example: a flush takes 5 ms, and 100 senders each send the next notification 0.5 ms after their answer.
 *
 *     0 ms    write 1 starts with the notifications of 50 senders; those of the other 50 arrive and wait
 *     5 ms    write 1 has committed, and its 50 senders are answered
 *     5.5 ms  they send again
 *
 * If write 2 started at 5 ms, it would take only the 50 that wait. The senders would stay in two groups, each of which
 * waits for the write of the other: 50 notifications for each flush, and up to 10 ms until an answer. Therefore write 2
 * first gathers for up to 1 ms until as many wait as before plus those that were just answered. It starts at 5.5 ms and
 * takes all 100. There is no such pause when no item waits, or when a write takes less than 5 ms, as then it would not pay.
 */
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';

/** The shortest time of a timer, and long enough for a sender to get its answer and send again. */
const gatherMs = 1;
/**
 * After a write that took less, the next write does not gather. Below it a write is slow because the processors are busy
 * rather than the disk, and the pause costs a fifth of what is received.
 */
const slowMs = 5 * gatherMs;

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
  clock: Clock;
}): SharedCommit<Item> {
  const { batchMax } = options;
  /** All but the last one are full. */
  const waiting: Batch<Item>[] = [];
  let waitingItems = 0;
  let running: Promise<void> | undefined;
  let gathering: { count: number; enough: () => void } | undefined;

  async function writeAll(): Promise<void> {
    // Items that arrive in the same turn of the event loop as the first one share its write.
    await setImmediate();
    for (let batch = waiting.shift(); batch; batch = waiting.shift()) {
      const { length } = batch.items;
      waitingItems -= length;
      const beganMs = options.clock.nowMs();
      await writeBatch(batch);
      const isSlow = options.clock.nowMs() - beganMs >= slowMs;
      if (isSlow && waitingItems > 0) await gather(Math.min(waitingItems + length, batchMax));
    }
    running = undefined;
  }

  /** Resolves when `count` items are waiting, or after `gatherMs`. */
  async function gather(count: number): Promise<void> {
    if (waitingItems >= count) return;
    // The timer is left to end by itself: to abort it would cost more than it does.
    await new Promise<void>((enough) => {
      gathering = { count, enough };
      void options.clock.sleep(gatherMs).then(enough);
    });
    gathering = undefined;
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
      if (gathering && waitingItems >= gathering.count) gathering.enough();
      running ??= writeAll();
      return written.promise;
    },
    idle: async () => {
      await running;
    },
  };
}
