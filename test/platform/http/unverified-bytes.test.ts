import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AppError } from '#platform/errors.ts';
import { createUnverifiedBytes } from '#platform/http/unverified-bytes.ts';

/** What each chunk counts beside its bytes. */
const overhead = 256;

/** Bodies whose refusals are kept. */
function bodiesOf(bytesMax: number) {
  const bytes = createUnverifiedBytes(bytesMax);
  return () => {
    const body = bytes.begin();
    const refusals: AppError[] = [];
    return {
      refusals,
      end: () => body.end(),
      add: (count: number) => body.add(count, (error) => void refusals.push(error)),
    };
  };
}

test('beyond the bound the largest body is refused, and the others go on', () => {
  const begin = bodiesOf(10_000);
  const [small, large, medium] = [begin(), begin(), begin()];
  small.add(1_000);
  large.add(5_000);
  // 1,256 + 5,256 + 3,488 is exactly the bound.
  medium.add(3_488 - overhead);
  expect([small.refusals, large.refusals, medium.refusals]).toEqual([[], [], []]);
  small.add(1);
  expect([small.refusals, medium.refusals]).toEqual([[], []]);
  expect(large.refusals).toMatchObject([{ code: 'unavailable', recovery: { do: 'retry' } }]);
});

test('a body that has ended counts no more, and one that was refused is refused once', () => {
  const begin = bodiesOf(10_000);
  const first = begin();
  first.add(9_000);
  first.end();
  const second = begin();
  second.add(9_000);
  expect(second.refusals).toEqual([]);
  second.add(9_000);
  second.add(9_000);
  second.end();
  expect(second.refusals).toHaveLength(1);
  const third = begin();
  third.add(9_000);
  expect([first.refusals, third.refusals]).toEqual([[], []]);
});

test('a body of many small chunks counts what the chunks need', () => {
  const body = bodiesOf(10_000)();
  for (let chunk = 0; chunk < 38; chunk += 1) body.add(1);
  expect(body.refusals).toEqual([]);
  body.add(1);
  expect(body.refusals).toHaveLength(1);
});

test('whatever others send, the bound is kept, and a body below its share of the bound is never refused', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 20 }),
      fc.array(fc.tuple(fc.nat(19), fc.nat(5_000)), { maxLength: 200 }),
      (count, chunks) => {
        const bytesMax = 20_000;
        const begin = bodiesOf(bytesMax);
        const bodies = Array.from({ length: count }, begin);
        const held = bodies.map(() => 0);
        const refused: number[] = [];
        for (const [at, bytes] of chunks) {
          const index = at % count;
          const body = bodies[index];
          if (!body || body.refusals.length > 0) continue;
          const before = bodies.map(({ refusals }) => refusals.length);
          held[index] = (held[index] ?? 0) + bytes + overhead;
          body.add(bytes);
          for (const [other, { refusals }] of bodies.entries())
            if (refusals.length > (before[other] ?? 0)) {
              refused.push(held[other] ?? 0);
              held[other] = 0;
            }
          expect(held.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(bytesMax);
        }
        expect(refused.filter((bytes) => bytes <= bytesMax / count)).toEqual([]);
      },
    ),
  );
});
