import { afterEach, expect, test, vi } from 'vitest';
import { createDeadline } from '#bridge/connectors/deadline.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** Blocks as a frozen process does: no timer fires meanwhile. */
function freeze(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

test('a signal that is read after its deadline is aborted, although no timer has fired yet', () => {
  const { signal } = createDeadline(20);
  expect(signal.aborted).toBe(false);
  signal.throwIfAborted();
  freeze(25);
  // Each of the two looks at the time by itself; the tests below read `aborted` first.
  expect(() => signal.throwIfAborted()).toThrow('no answer within 20 ms');
  expect(signal.aborted).toBe(true);
});

test('the deadline also holds on a machine that was suspended, where only the wall clock went on', () => {
  const { signal } = createDeadline(60_000);
  expect(signal.aborted).toBe(false);
  const now = Date.now();
  vi.spyOn(Date, 'now').mockReturnValue(now + 60_001);
  expect(signal.aborted).toBe(true);
});

test('a wall clock that is set back does not delay the deadline', () => {
  const { signal } = createDeadline(20);
  vi.spyOn(Date, 'now').mockReturnValue(0);
  freeze(25);
  expect(signal.aborted).toBe(true);
});

test('listeners are called, and an earlier end keeps its reason', () => {
  const controller = createDeadline(20);
  const reasons: unknown[] = [];
  controller.signal.addEventListener('abort', () => reasons.push(controller.signal.reason));
  controller.abort('stopped');
  freeze(25);
  expect(controller.signal.aborted).toBe(true);
  expect(reasons).toEqual(['stopped']);
});
