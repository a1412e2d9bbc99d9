/**
 * Collects signals of one lane: while a batch is on its way, those that come share the next one. So a burst costs a
 * few round trips, and a signal that finds nothing under way is sent at once.
 */

/** `send` must not reject; its answer is given to everyone in the batch. */
export function createSignalBatches(send: (keys: readonly string[]) => Promise<boolean>) {
  let gathering: { keys: Set<string>; held: Promise<boolean> } | undefined;
  let previous: Promise<unknown> = Promise.resolve();

  /** Resolves to what `send` said of the batch that took these keys. */
  return function add(keys: readonly string[]): Promise<boolean> {
    if (!gathering) {
      const batch = new Set<string>();
      const held = previous.then(() => {
        // From here on, a signal must go into the next batch: this one may be past the worker that it should wake.
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
