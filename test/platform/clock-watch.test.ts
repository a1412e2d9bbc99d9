import { expect, test } from 'vitest';
import { createClockWatch } from '#platform/clock-watch.ts';
import { testClock } from '../bridge/parts.ts';

test('acts at first and when the clock was set back by more than a minute, again after a failure, and not otherwise', async () => {
  const clock = testClock();
  const watch = createClockWatch(clock);
  let acts = 0;
  const look = async () => {
    await watch(async () => void (acts += 1));
    return acts;
  };
  expect([await look(), await look()]).toEqual([1, 1]);
  clock.advance(3_600_000);
  expect(await look()).toBe(1);
  clock.advance(-60_000);
  expect(await look()).toBe(1);
  clock.advance(-60_001);
  await expect(watch(() => Promise.reject(new Error('The database is away.')))).rejects.toThrow('away');
  expect([await look(), await look()]).toEqual([2, 2]);
});
