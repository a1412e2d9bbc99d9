import { expect, test } from 'vitest';
import { backlogEndMs } from '#bridge/status/backlog-end.ts';
import { limits } from '#contract/limits.ts';

const limit = limits.supplier_changes_write;
const hourMs = 3_600_000;

test.each([
  [13, { burst: 60, sustained: 500 }, 0],
  [60, { burst: 60, sustained: 500 }, 0],
  [61, { burst: 60, sustained: 500 }, hourMs],
  // 60 at once, and 60 in each of the next two hours.
  [180, { burst: 60, sustained: 500 }, 2 * hourMs],
  [13, { burst: 0, sustained: 440 }, hourMs],
  // The day's quota is spent.
  [1, { burst: 60, sustained: 0 }, 24 * hourMs],
  [0, { burst: 0, sustained: 0 }, 0],
])('%i submissions with %o left can be through after %i ms', (submissions, left, ms) => {
  expect(backlogEndMs(submissions, limit, left)).toBe(ms);
});

test('a service without limits takes a backlog at once', () => {
  expect(backlogEndMs(1_000, undefined, { burst: 0, sustained: 0 })).toBe(0);
});
