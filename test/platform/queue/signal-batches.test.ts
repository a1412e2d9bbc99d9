import { expect, test } from 'vitest';
import { createSignalBatches } from '#platform/queue/signal-batches.ts';

/** A `send` whose calls are answered by the test. */
function startSending() {
  const calls: { keys: readonly string[]; answer: (held: boolean) => void }[] = [];
  const add = createSignalBatches((keys) => new Promise((answer) => calls.push({ keys, answer })));
  return { calls, add };
}

test('a signal that comes while no batch is being sent is sent at once', async () => {
  const { calls, add } = startSending();
  const held = add(['a', 'b']);
  await expect.poll(() => calls.map(({ keys }) => keys)).toEqual([['a', 'b']]);
  calls[0]?.answer(true);
  expect(await held).toBe(true);
});

test('signals that come while a batch is being sent share the next one, even for a key of the first batch', async () => {
  const { calls, add } = startSending();
  const first = add(['a']);
  await expect.poll(() => calls).toHaveLength(1);
  const second = add(['b', 'a']);
  const third = add(['b', 'c']);
  expect(calls).toHaveLength(1);
  calls[0]?.answer(true);
  expect(await first).toBe(true);
  await expect.poll(() => calls.map(({ keys }) => keys)).toEqual([['a'], ['b', 'a', 'c']]);
  calls[1]?.answer(false);
  expect(await Promise.all([second, third])).toEqual([false, false]);
});
