import { expect, test } from 'vitest';
import { createUnitOfWork } from '#service/unit-of-work.ts';

test('wakes deliveries in this process and all else through the queue, after the commit', async () => {
  const steps: string[] = [];
  const wakes = (where: string) => async (lane: string, keys: readonly string[]) => {
    steps.push(`${where}: ${lane} ${keys.join()}`);
    return true;
  };
  const run = createUnitOfWork({
    database: {
      transaction: async (work) => {
        const result = await work({ query: async () => [], copy: async () => undefined });
        steps.push('commit');
        return result;
      },
    },
    signals: { signal: wakes('queue'), signalHere: wakes('here') },
  });
  await run(async (unit) => {
    unit.wake('deliveries', 'a');
    unit.wake('jobs', 'x');
    unit.wake('deliveries', 'b');
    unit.wake('deliveries', 'a');
  });
  expect(steps).toEqual(['commit', 'here: deliveries a,b', 'queue: jobs x']);
});
