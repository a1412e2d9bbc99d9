/**
 * `AsyncDisposableStack` where Node has none (before 24). The parts of the standard that this program uses: what is
 * opened last is closed first, each is closed even when closing another has failed, and closing twice does nothing.
 */

/** Sets the global where it is missing. Runs before anything is opened. */
export function provideAsyncDisposableStack(scope: { AsyncDisposableStack?: unknown } = globalThis): void {
  scope.AsyncDisposableStack ??= DisposableStackOfOldNode;
}

class DisposableStackOfOldNode {
  #closers: (() => unknown)[] = [];
  #isDisposed = false;

  defer(close: () => unknown): void {
    if (this.#isDisposed) throw new ReferenceError('This stack has been disposed of.');
    this.#closers.push(close);
  }

  move(): DisposableStackOfOldNode {
    const moved = new DisposableStackOfOldNode();
    for (const close of this.#closers) moved.defer(close);
    this.#closers = [];
    this.#isDisposed = true;
    return moved;
  }

  async disposeAsync(): Promise<void> {
    this.#isDisposed = true;
    const errors: unknown[] = [];
    for (let close = this.#closers.pop(); close; close = this.#closers.pop())
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    if (errors.length === 1) throw errors[0];
    if (errors.length > 1) throw new AggregateError(errors, 'Several things could not be closed.');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.disposeAsync();
  }
}
