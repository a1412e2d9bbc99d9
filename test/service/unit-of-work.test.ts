import { expect, test } from 'vitest';
import { createUnitOfWork } from '#service/unit-of-work.ts';

test('wakes each key of each lane once, after the commit', async () => {
  const steps: string[] = [];
  const signal = async (lane: string, keys: readonly string[]) => void steps.push(`${lane} ${keys.join()}`);
  const run = createUnitOfWork({
    database: {
      transaction: async (work) => {
        const result = await work({ query: async () => [] });
        steps.push('commit');
        return result;
      },
    },
    signals: { signal },
  });
  await run(async (unit) => {
    unit.wake('deliveries', 'a');
    unit.wake('jobs', 'x');
    unit.wake('deliveries', 'b');
    unit.wake('deliveries', 'a');
  });
  expect(steps).toEqual(['commit', 'deliveries a,b', 'jobs x']);
});
