import { describe, expect, test } from 'vitest';
import { provideAsyncDisposableStack } from '#platform/async-disposable-stack.ts';

const scope: { AsyncDisposableStack?: typeof AsyncDisposableStack } = {};
provideAsyncDisposableStack(scope);

// Node's own, and the one for a Node that has none, must behave alike.
describe.each([
  ['of Node', AsyncDisposableStack],
  ['provided', scope.AsyncDisposableStack as typeof AsyncDisposableStack],
])('AsyncDisposableStack %s', (_name, Stack) => {
  test('closes what was opened last first, waits for each, and closes nothing twice', async () => {
    const closed: string[] = [];
    const stack = new Stack();
    stack.defer(async () => {
      await Promise.resolve();
      closed.push('first');
    });
    stack.defer(() => void closed.push('second'));
    await stack.disposeAsync();
    await stack.disposeAsync();
    expect(closed).toEqual(['second', 'first']);
    expect(() => stack.defer(() => undefined)).toThrow(ReferenceError);
  });

  test('closes the others when one cannot be closed, and rejects with its error', async () => {
    const closed: string[] = [];
    const failed = new Error('stuck');
    const stack = new Stack();
    stack.defer(() => void closed.push('first'));
    stack.defer(() => Promise.reject(failed));
    await expect(stack.disposeAsync()).rejects.toBe(failed);
    expect(closed).toEqual(['first']);
  });

  test('what was moved is closed by its new owner alone', async () => {
    const closed: string[] = [];
    const stack = new Stack();
    stack.defer(() => void closed.push('once'));
    const moved = stack.move();
    await stack.disposeAsync();
    expect(closed).toEqual([]);
    await moved[Symbol.asyncDispose]();
    expect(closed).toEqual(['once']);
  });
});

test('an AsyncDisposableStack that Node has stays', () => {
  const own = { AsyncDisposableStack: 'own' };
  provideAsyncDisposableStack(own);
  expect(own.AsyncDisposableStack).toBe('own');
});
