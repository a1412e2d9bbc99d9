import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { exchangeMs, responseBytesMax } from '#service/webhooks/exchange-limits.ts';
import { disabledAfterMs, givenUpAfterMs, heldForMs, retryDelayMs } from '#service/webhooks/retry-schedule.ts';

const [second, minute, hour] = [1_000, 60_000, 3_600_000];
const delays = [5 * second, 30 * second, 2 * minute, 10 * minute, 30 * minute, hour, 2 * hour, 4 * hour, 8 * hour];

describe('the wait after a failed attempt', () => {
  test.each([...delays, 8 * hour, 8 * hour].map((delay, index) => [index + 1, delay]))(
    'number %i is %i ms, plus or minus a fifth',
    (failures, delay) => {
      expect(retryDelayMs(failures, undefined, () => 0.5)).toBe(delay);
      expect(retryDelayMs(failures, undefined, () => 0)).toBe(delay * 0.8);
      expect(retryDelayMs(failures, undefined, () => 1)).toBe(delay * 1.2);
    },
  );

  test('stays within the jitter and is never shorter than Retry-After', () => {
    const chance = fc.double({ min: 0, max: 1, noNaN: true });
    const after = fc.option(fc.nat(48 * hour), { nil: undefined });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), after, chance, (failures, retryAfterMs, random) => {
        const delay = delays[Math.min(failures, delays.length) - 1] ?? 0;
        const actual = retryDelayMs(failures, retryAfterMs, () => random);
        expect(actual).toBeGreaterThanOrEqual(Math.max(delay * 0.8, retryAfterMs ?? 0));
        expect(actual).toBeLessThanOrEqual(Math.max(delay * 1.2, retryAfterMs ?? 0));
      }),
    );
  });
});

test('a webhook is held for the longest Retry-After, and up to a fifth more', () => {
  expect(heldForMs([undefined, 60_000, 100_000], () => 0)).toBe(100_000);
  expect(heldForMs([100_000], () => 1)).toBe(120_000);
  expect(heldForMs([undefined, 0], () => 1)).toBeUndefined();
});

test('the limits are the published ones', () => {
  expect({ givenUpAfterMs, disabledAfterMs, exchangeMs, responseBytesMax }).toEqual({
    givenUpAfterMs: 3 * 24 * hour,
    disabledAfterMs: 5 * 24 * hour,
    exchangeMs: 15 * second,
    responseBytesMax: 65_536,
  });
});
