import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ShortLived } from '#platform/short-lived.ts';

test('holds what was added and not removed, whatever the order', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 9 })), (steps) => {
      const held = new ShortLived<{ id: number }>();
      const places = new Map<{ id: number }, number>();
      for (const [id, step] of steps.entries()) {
        const [oldest] = places;
        if (step < 4 && oldest) {
          held.remove(oldest[1]);
          places.delete(oldest[0]);
        } else {
          const item = { id };
          places.set(item, held.add(item));
        }
        expect(new Set(held)).toEqual(new Set(places.keys()));
      }
    }),
  );
});
