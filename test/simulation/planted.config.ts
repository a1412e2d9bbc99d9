/** The simulation that has to find it, with the fault `SIM_FAULT` of `planted-faults.ts` planted in the bridge. */
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { project } from '../../vitest.config.ts';
import { plantedFaults, plantFault } from './planted-faults.ts';

const name = process.env['SIM_FAULT'] ?? '';
const isOfIntakes = plantedFaults.find((fault) => fault.name === name)?.by === 'intakes';
const include = isOfIntakes ? 'test/bridge/intake/simulation.test.ts' : 'test/simulation/seeds-*.test.ts';

export default defineConfig({
  root: join(import.meta.dirname, '..', '..'),
  test: {
    globalSetup: ['test/harness/global-setup.ts'],
    projects: [
      {
        plugins: plantFault(name),
        // The cache of modules does not know of a planted fault.
        test: { ...project, name: 'planted', include: [include], fsModuleCache: false },
      },
    ],
  },
});
