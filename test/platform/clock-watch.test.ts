import { expect, test } from 'vitest';
import { createClockWatch } from '#platform/clock-watch.ts';
import { testClock } from '../bridge/parts.ts';

test('acts at the first call, when the clock was set back by over a minute, and again after a failure', async () => {
  const clock = testClock();
  const whenSetBack = createClockWatch(clock);
  let acts = 0;
  const check = async () => {
    await whenSetBack(async () => void (acts += 1));
    return acts;
  };
  expect([await check(), await check()]).toEqual([1, 1]);
  clock.advance(3_600_000);
  expect(await check()).toBe(1);
  clock.advance(-60_000);
  expect(await check()).toBe(1);
  clock.advance(-60_001);
  await expect(whenSetBack(() => Promise.reject(new Error('The database is away.')))).rejects.toThrow('away');
  expect([await check(), await check()]).toEqual([2, 2]);
});
