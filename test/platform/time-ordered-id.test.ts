import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { firstIdAt, timeOrderedId } from '#platform/time-ordered-id.ts';

const times = fc.integer({ min: 0, max: 2 ** 48 - 2 });

test('is a UUID of version 7 that holds the time: RFC 9562, 5.7', () => {
  // 2022-02-22T19:22:22Z, the example of the RFC's appendix A.6.
  expect(timeOrderedId(1_645_557_742_000)).toMatch(/^017f22e2-79b0-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test('ids of later times sort later, and those of one millisecond in their order', () => {
  fc.assert(
    fc.property(times, fc.integer({ min: 1, max: 1_000_000 }), (ms, later) => {
      const ids = [timeOrderedId(ms), timeOrderedId(ms), timeOrderedId(Math.min(ms + later, 2 ** 48 - 1))];
      expect(ids.toSorted()).toEqual(ids);
      expect(new Set(ids).size).toBe(3);
    }),
  );
});

test('a range of time is a range of ids', () => {
  fc.assert(
    fc.property(times, (ms) => {
      expect(firstIdAt(ms) <= timeOrderedId(ms)).toBe(true);
      expect(timeOrderedId(ms) < firstIdAt(ms + 1)).toBe(true);
    }),
  );
});
