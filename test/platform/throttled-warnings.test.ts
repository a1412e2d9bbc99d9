import { expect, test } from 'vitest';
import { createThrottledWarnings } from '#platform/throttled-warnings.ts';

test('of each kind one warning a second is written, which says how many were not', () => {
  let nowMs = 5_000;
  const lines: [object, string][] = [];
  const warn = createThrottledWarnings(
    { warn: (facts: object, text: string) => void lines.push([facts, text]) },
    () => nowMs,
  );
  for (let times = 0; times < 3; times += 1) warn('away', { request: times }, 'not stored');
  warn('forged', {}, 'refused');
  nowMs += 999;
  warn('away', { request: 3 }, 'not stored');
  expect(lines).toEqual([
    [{ request: 0 }, 'not stored'],
    [{}, 'refused'],
  ]);
  nowMs += 1;
  warn('away', { request: 4 }, 'not stored');
  warn('forged', {}, 'refused');
  nowMs += 5_000;
  warn('away', { request: 5 }, 'not stored');
  expect(lines.slice(2)).toEqual([
    [{ request: 4, suppressed: 3 }, 'not stored'],
    [{}, 'refused'],
    [{ request: 5 }, 'not stored'],
  ]);
});
