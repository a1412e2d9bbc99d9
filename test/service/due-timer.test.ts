import { expect, onTestFinished, test } from 'vitest';
import { timestampFromMicros } from '#contract/timestamp.ts';
import { silentLogger } from '#platform/log.ts';
import { createDueTimer } from '#service/due-timer.ts';
import { createManualClock } from '../harness/manual-clock.ts';

test('work that becomes due while the database is asked is signalled, also when the clock then stands still', async () => {
  const clock = createManualClock();
  const dueMs = clock.nowMs() + 1_000;
  const signalled: string[] = [];
  let queries = 0;
  const timer = createDueTimer({
    lane: 'rounds',
    clock,
    log: silentLogger,
    signals: {
      wakeHere: (_lane, keys) => void signalled.push(...keys),
    },
    nextMoment: async (now) => {
      const moment = timestampFromMicros(dueMs * 1_000);
      return now < moment ? moment : undefined;
    },
    due: async () => {
      queries += 1;
      const keys = clock.nowMs() >= dueMs ? ['event'] : [];
      if (queries === 1) clock.advance(1_000);
      return keys;
    },
  });
  onTestFinished(() => timer.close());
  await expect.poll(() => signalled).toEqual(['event']);
  // It waits again instead of asking without a pause.
  expect(queries).toBe(2);
});
