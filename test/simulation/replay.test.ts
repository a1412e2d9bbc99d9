import { expect, test } from 'vitest';
import { useSimulation } from './simulate.ts';
import type { Sabotage } from './simulation.ts';

const run = useSimulation();
const timeout = 600_000;

test('the same seed produces the same log, whichever seed ran before', { timeout }, async () => {
  const first = await run('3');
  await run('5');
  const again = await run('3');
  expect(first.lines.length).toBeGreaterThan(200);
  expect(again.lines).toEqual(first.lines);
});

/** Whether one of the sixty seeds of version 2 from this one on reports a violation of this invariant. */
async function isFound(sabotage: Sabotage, invariant: string, from: number): Promise<boolean> {
  for (let seed = from; seed < from + 60; seed += 1) {
    const { violation } = await run(`v2:${seed}`, { sabotage });
    if (violation?.message.startsWith(invariant)) return true;
  }
  return false;
}

test('a second object in the ERP is reported: an ERP that forgets its objects gets one', { timeout }, async () => {
  expect(await isFound('forgetful ERP', 'each object is made once', 1)).toBe(true);
});

test('a change that the bridge has not seen is reported', { timeout }, async () => {
  expect(await isFound('silent change', 'the mirror holds what the source shows', 172)).toBe(true);
});
