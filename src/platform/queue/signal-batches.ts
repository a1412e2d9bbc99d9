/**
 * Collects the signals of one lane into batches: signals that arrive while a batch is being sent share the next one. So
 * a burst costs a few round trips, and a single signal is sent at once.
 */

/** `send` must not reject; every caller of a batch gets its answer. */
export function createSignalBatches(send: (keys: readonly string[]) => Promise<boolean>) {
  let gathering: { keys: Set<string>; held: Promise<boolean> } | undefined;
  let previous: Promise<unknown> = Promise.resolve();

  /** Resolves to the answer of `send` for the batch that holds these keys. */
  return function add(keys: readonly string[]): Promise<boolean> {
    if (!gathering) {
      const batch = new Set<string>();
      const held = previous.then(() => {
        // From here on a signal must go into the next batch: the worker may have taken the wake-up of this batch
        // already.
        gathering = undefined;
        return send([...batch]);
      });
      previous = held;
      gathering = { keys: batch, held };
    }
    for (const key of keys) gathering.keys.add(key);
    return gathering.held;
  };
}
