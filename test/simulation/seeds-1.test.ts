import { expect, test } from 'vitest';
import { runSeeds, seedsOf, useSimulation } from './simulate.ts';

const run = useSimulation();
const seeds = seedsOf(0, 2);

test.runIf(seeds.length > 0)(
  `when things calm down, the ERP holds what the source asks for, each object made once (${seeds.length} seeds)`,
  { timeout: 3_600_000 },
  async () => {
    await expect(runSeeds(run, seeds)).resolves.toBeUndefined();
  },
);
