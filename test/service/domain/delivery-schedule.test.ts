import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  disabledAfterMs,
  exchangeMs,
  givenUpAfterMs,
  responseBytesMax,
  retryDelayMs,
} from '#service/domain/delivery-schedule.ts';

const [second, minute, hour] = [1_000, 60_000, 3_600_000];
const steps = [5 * second, 30 * second, 2 * minute, 10 * minute, 30 * minute, hour, 2 * hour, 4 * hour, 8 * hour];

describe('the wait after a failed try', () => {
  test.each([...steps, 8 * hour, 8 * hour].map((step, index) => [index + 1, step]))(
    'number %i is %i ms, give or take a fifth',
    (failures, step) => {
      expect(retryDelayMs(failures, undefined, () => 0.5)).toBe(step);
      expect(retryDelayMs(failures, undefined, () => 0)).toBe(step * 0.8);
      expect(retryDelayMs(failures, undefined, () => 1)).toBe(step * 1.2);
    },
  );

  test('is never outside of the jitter, nor shorter than Retry-After', () => {
    const chance = fc.double({ min: 0, max: 1, noNaN: true });
    const after = fc.option(fc.nat(48 * hour), { nil: undefined });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), after, chance, (failures, retryAfterMs, random) => {
        const step = steps[Math.min(failures, steps.length) - 1] ?? 0;
        const delay = retryDelayMs(failures, retryAfterMs, () => random);
        expect(delay).toBeGreaterThanOrEqual(Math.max(step * 0.8, retryAfterMs ?? 0));
        expect(delay).toBeLessThanOrEqual(Math.max(step * 1.2, retryAfterMs ?? 0));
      }),
    );
  });
});

test('the limits are the published ones', () => {
  expect({ givenUpAfterMs, disabledAfterMs, exchangeMs, responseBytesMax }).toEqual({
    givenUpAfterMs: 3 * 24 * hour,
    disabledAfterMs: 5 * 24 * hour,
    exchangeMs: 15 * second,
    responseBytesMax: 65_536,
  });
});
