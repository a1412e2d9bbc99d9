import { expect, test } from 'vitest';
import { requestTurns } from '#connector/request-limits.ts';
import { createManualClock } from '../harness/manual-clock.ts';

const never = new AbortController().signal;
const limits = { perSecond: 2, perMinute: 5 };

test('requests wait for their turn in the order in which they ask, for the second and for the minute', async () => {
  const sleptMs: number[] = [];
  const clock = { nowMs: () => 0, sleep: async (ms: number) => void sleptMs.push(ms) };
  // Two flows with the same target, which ask in turns.
  const turns = [requestTurns('https://a', limits, clock), requestTurns('https://a', limits, clock)] as const;
  for (let n = 0; n < 4; n += 1) for (const turn of turns) await turn(never);
  expect(sleptMs).toEqual([1_050, 1_050, 2_100, 60_050, 60_050, 61_100]);
});

test('another target has turns of its own', async () => {
  const clock = createManualClock();
  await requestTurns('https://a', { perMinute: 1 }, clock)(never);
  await requestTurns('https://b', { perMinute: 1 }, clock)(never);
  expect(clock.nowMs()).toBe(createManualClock().nowMs());
});

test('an abort ends the wait', async () => {
  const clock = createManualClock();
  const turn = requestTurns('https://a', { perMinute: 1 }, clock);
  await turn(never);
  const stop = new AbortController();
  const waiting = turn(stop.signal);
  stop.abort(new Error('stopped'));
  await expect(waiting).rejects.toThrow('stopped');
});

test('a clock that is set back makes nobody wait for longer', async () => {
  const clock = createManualClock();
  const turn = requestTurns('https://a', { perSecond: 1 }, clock);
  await turn(never);
  clock.advance(-3_600_000);
  const waiting = turn(never);
  clock.advance(1_050);
  await expect(waiting).resolves.toBeUndefined();
});
