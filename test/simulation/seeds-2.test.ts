import { expect, test } from 'vitest';
import { runSeeds, seedsOf, useSimulation } from './simulate.ts';

const run = useSimulation();
const seeds = seedsOf(1, 2);

test.runIf(seeds.length > 0)(
  `after all faults the ERP holds the documents of the source, each object made once (${seeds.length} seeds)`,
  { timeout: 3_600_000 },
  async () => {
    await expect(runSeeds(run, seeds)).resolves.toBeUndefined();
  },
);
