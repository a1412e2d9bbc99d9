import { expect, test } from 'vitest';
import { createLogger, silentLogger } from '#platform/log.ts';
import { createLane, type Work } from '#platform/queue/lane.ts';

/** A lane whose work ends when the test says so. */
function laneOf(concurrency: number, work?: Work) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const lane = createLane('lane', {
    concurrency,
    log: silentLogger,
    work:
      work ??
      ((key, signal) => {
        begun.push(key);
        const { promise, resolve } = Promise.withResolvers<void>();
        ends.set(key, resolve);
        signal.addEventListener('abort', () => resolve());
        return promise;
      }),
  });
  return { lane, begun, end: (key: string) => ends.get(key)?.() };
}

test('keys begin in the order of their wake-ups, as many at once as the lane allows', async () => {
  const { lane, begun, end } = laneOf(2);
  for (const key of ['a', 'b', 'c', 'd']) lane.wake(key);
  await expect.poll(() => begun).toEqual(['a', 'b']);
  end('b');
  await expect.poll(() => begun).toEqual(['a', 'b', 'c']);
  end('a');
  await expect.poll(() => begun).toEqual(['a', 'b', 'c', 'd']);
});

test('ten wake-ups while a key is being worked cause one more run, after this one', async () => {
  const { lane, begun, end } = laneOf(5);
  lane.wake('a');
  await expect.poll(() => begun).toEqual(['a']);
  for (let n = 0; n < 10; n += 1) lane.wake('a');
  lane.wake('b');
  await expect.poll(() => begun).toEqual(['a', 'b']);
  end('a');
  await expect.poll(() => begun).toEqual(['a', 'b', 'a']);
  end('a');
  end('b');
  await lane.idle();
  expect(begun).toEqual(['a', 'b', 'a']);
});

test('work that fails is logged, and its key is free again', async () => {
  const lines: { level: string; msg: string; item: string }[] = [];
  const destination = { write: (text: string) => lines.push(JSON.parse(text) as (typeof lines)[number]) };
  let runs = 0;
  const lane = createLane('lane', {
    concurrency: 1,
    log: createLogger({ level: 'info', name: 'test', destination }),
    work: async () => {
      runs += 1;
      if (runs === 1) throw new Error('once');
    },
  });
  lane.wake('a');
  await expect.poll(() => lines).toMatchObject([{ level: 'warn', item: 'a', error: 'once' }]);
  lane.wake('a');
  await expect.poll(() => runs).toBe(2);
});

test('a stop aborts what runs, and begins nothing more', async () => {
  const { lane, begun } = laneOf(1);
  lane.wake('a');
  lane.wake('b');
  await expect.poll(() => begun).toEqual(['a']);
  lane.stop();
  lane.wake('c');
  await lane.idle();
  expect(begun).toEqual(['a']);
});
