/**
 * Returns the items, and asks for the next one while the caller works with the one before it: at most one is ahead, and
 * never are two asked for at once. When the caller stops, also by throwing, this ends after the item that is on its way.
 */
export async function* oneAhead<T>(items: AsyncGenerator<T, void>): AsyncGenerator<T, void> {
  let next = ask();
  try {
    for (;;) {
      const { done, value } = await next;
      if (done) return;
      next = ask();
      yield value;
    }
  } finally {
    await next.catch(() => undefined);
    await items.return();
  }

  function ask(): Promise<IteratorResult<T, void>> {
    const asked = items.next();
    // Until the caller comes for it, a failure has nobody else to hear it.
    asked.catch(() => undefined);
    return asked;
  }
}
