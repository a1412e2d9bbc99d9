import { expect, onTestFinished, test } from 'vitest';
import { timestampFromMicros } from '#contract/timestamp.ts';
import { createDueTimer } from '#platform/due-timer.ts';
import { silentLogger } from '#platform/log.ts';
import { createManualClock } from '../harness/manual-clock.ts';

test('what becomes due while the database is asked is woken, also where the clock then stands still', async () => {
  const clock = createManualClock();
  const dueMs = clock.nowMs() + 1_000;
  const woken: string[] = [];
  let asked = 0;
  const keeper = createDueTimer({
    lane: 'rounds',
    clock,
    log: silentLogger,
    signals: {
      signal: async (_lane, keys) => {
        woken.push(...keys);
        return true;
      },
    },
    nextMoment: async (now) => {
      const moment = timestampFromMicros(dueMs * 1_000);
      return now < moment ? moment : undefined;
    },
    due: async () => {
      asked += 1;
      const keys = clock.nowMs() >= dueMs ? ['event'] : [];
      if (asked === 1) clock.advance(1_000);
      return keys;
    },
  });
  onTestFinished(() => keeper.close());
  await expect.poll(() => woken).toEqual(['event']);
  // It waits again, and does not ask on and on.
  expect(asked).toBe(2);
});
