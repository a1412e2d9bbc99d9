import { expect, test } from 'vitest';
import { createVerdicts } from '#bridge/receive/bearer/token-verdicts.ts';
import { testClock } from '../../parts.ts';

test('only the newest thousand verdicts are cached', async () => {
  const clock = testClock();
  const judged: string[] = [];
  const check = createVerdicts(clock, async (token) => {
    judged.push(token);
    return { isValid: true, untilMs: clock.nowMs() + 60_000 };
  });
  for (let number = 0; number <= 1_000; number += 1) await check(`token-${number}`);
  judged.length = 0;
  for (const number of [1_000, 1, 0]) await check(`token-${number}`);
  expect(judged).toEqual(['token-0']);
});
