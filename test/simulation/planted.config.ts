/** The tests that have to find it, with the fault `SIM_FAULT` of `planted-faults.ts` planted in the bridge. */
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { project } from '../../vitest.config.ts';
import { plantedFaults, plantFault } from './planted-faults.ts';

const name = process.env['SIM_FAULT'] ?? '';
/** The reading of feeds is tested against sources with every quirk, by what the watermark promises after each pull. */
const finders = {
  seeds: ['test/simulation/seeds-*.test.ts'],
  intakes: ['test/bridge/intake/simulation.test.ts'],
  reading: [
    'any-source',
    'quirks',
    'public-source',
    'pull-feed',
    'wrong-date',
    'late-record',
    'advance-watermark',
    'backfill/untimed-read',
    'range/*',
  ].map((test) => `test/bridge/pull/${test}.test.ts`),
};
const by = plantedFaults.find((fault) => fault.name === name)?.by ?? 'seeds';

export default defineConfig({
  root: join(import.meta.dirname, '..', '..'),
  test: {
    globalSetup: ['test/harness/global-setup.ts'],
    projects: [
      {
        plugins: plantFault(name),
        // The cache of modules does not know of a planted fault.
        test: { ...project, name: 'planted', include: finders[by], fsModuleCache: false },
      },
    ],
  },
});
