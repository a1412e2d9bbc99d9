/** The simulation with the fault `SIM_FAULT` of `planted-faults.ts` planted in the bridge. */
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { project } from '../../vitest.config.ts';
import { plantFault } from './planted-faults.ts';

export default defineConfig({
  root: join(import.meta.dirname, '..', '..'),
  test: {
    globalSetup: ['test/harness/global-setup.ts'],
    projects: [
      {
        plugins: plantFault(process.env['SIM_FAULT'] ?? ''),
        // The cache of modules does not know of a planted fault.
        test: { ...project, name: 'planted', include: ['test/simulation/seeds-*.test.ts'], fsModuleCache: false },
      },
    ],
  },
});
