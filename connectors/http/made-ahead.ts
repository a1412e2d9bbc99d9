/**
 * Makes the requests of the operations that come next while the ERP works on those before. With 4 requests at once, the
 * fifth is made when the first was sent, and waits for its turn.
 */
export interface MadeAhead<Item, Made> {
  /** What was made for the item; undefined where it was not made ahead. Items are taken in their order. */
  take(item: Item): Made | undefined;
  /** Has the next item made in this round of the event loop, after what the caller has just sent is written. */
  makeNext(): void;
}

/**
 * `make` depends on nothing but the item. It returns undefined for an item that is not to be made ahead. What it throws
 * is ignored: it is thrown again when the item is made in its turn.
 */
export function madeAhead<Item, Made>(
  items: readonly Item[],
  make: (item: Item) => Made | undefined,
): MadeAhead<Item, Made> {
  const made = new Map<Item, Made | undefined>();
  let taken = 0;
  let next = 0;

  function makeOne(): void {
    next = Math.max(next, taken);
    const item = items[next];
    if (item === undefined) return;
    next += 1;
    try {
      const value = make(item);
      // A promise that is rejected before it is awaited must not count as unhandled.
      if (value instanceof Promise) value.catch(() => undefined);
      made.set(item, value);
    } catch {
      // As if it was not made.
    }
  }

  return {
    take(item) {
      taken += 1;
      const value = made.get(item);
      made.delete(item);
      return value;
    },
    makeNext: () => void setImmediate(makeOne),
  };
}
