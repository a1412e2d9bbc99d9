import { expect, test } from 'vitest';
import { inTurns } from '#service/turns.ts';

/** A worker whose pieces of work take 100 ms each, and a queue that holds the keys that were woken. */
function start({ turnMs }: { turnMs: number }) {
  let nowMs = 1_000;
  const worked: string[] = [];
  const queue: string[] = [];
  const left = new Map<string, number>();
  const signals = {
    wakeHere: (_lane: string, keys: readonly string[]) => void queue.push(...keys),
  };
  const work = inTurns({ signals, clock: { nowMs: () => nowMs } }, { lane: 'jobs', turnMs }, async (key) => {
    const count = left.get(key) ?? 0;
    if (count === 0) return false;
    left.set(key, count - 1);
    worked.push(key);
    nowMs += 100;
    return true;
  });
  const running = new AbortController();
  const runQueue = async () => {
    for (let key = queue.shift(); key !== undefined; key = queue.shift()) await work(key, running.signal);
  };
  return { worked, queue, left, work, runQueue, running };
}

test('a key whose turn is over waits behind the others, and is worked to its end', async () => {
  const { worked, queue, left, runQueue } = start({ turnMs: 250 });
  left.set('A', 7).set('B', 1);
  queue.push('A', 'B');
  await runQueue();
  expect(worked.join('')).toBe('AAABAAAA');
});

test('with turns of no length each piece is a turn', async () => {
  const { worked, queue, left, runQueue } = start({ turnMs: 0 });
  left.set('A', 3).set('B', 3);
  queue.push('A', 'B');
  await runQueue();
  expect(worked.join('')).toBe('ABABAB');
});

test('a worker that is to stop begins no other piece, and signals nothing', async () => {
  const { worked, queue, left, work, running } = start({ turnMs: 0 });
  left.set('A', 5);
  running.abort();
  await work('A', running.signal);
  expect([worked, queue]).toEqual([[], []]);
});
