import { configDefaults, defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { isolated } from './test/harness/isolated-files.ts';
import { LongestFirst } from './test/harness/longest-first.ts';

/** For each project, not inherited: vitest would set up the run once more for each. */
export const project = {
  setupFiles: ['test/harness/leaks.ts', 'test/harness/property-seed.ts'],
  // Real servers and real fsync: slow machines need room, and a hang still has to end.
  testTimeout: 180_000,
  hookTimeout: 180_000,
  // Machines that run CI may stall for seconds. The report names what passed at its second try.
  retry: process.env['CI'] === undefined ? 0 : 1,
  expect: { poll: { timeout: 30_000 } },
} satisfies TestProjectInlineConfiguration['test'];

/** These need packages that npm run test:rare installs, or take minutes. */
const rare = ['test/rare/**', 'test/bridge/traces.test.ts', 'test/check/run-commands-in-docs.test.ts'];

export default defineConfig({
  test: {
    globalSetup: ['test/harness/global-setup.ts'],
    // More than cores: many tests wait for time-outs and other processes.
    maxWorkers: 6,
    sequence: { sequencer: LongestFirst },
    projects: [
      { test: { ...project, name: 'isolated', include: isolated } },
      {
        test: {
          ...project,
          name: 'shared',
          include: ['test/**/*.test.ts', 'connectors/*/*.test.ts'],
          exclude: [...configDefaults.exclude, ...isolated, ...(process.env['RARE'] === '1' ? [] : rare)],
          // Files share a process, which spares each its start and its imports.
          isolate: false,
        },
      },
    ],
  },
});
