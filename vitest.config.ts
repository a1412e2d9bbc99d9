import { configDefaults, defineConfig } from 'vitest/config';

/** Functions that do no I/O: these files may share a process, which spares each its start and its imports. */
const pure = ['test/contract/**/*.test.ts', 'test/service/domain/**/*.test.ts', 'test/bridge/documents/**/*.test.ts'];

export default defineConfig({
  test: {
    setupFiles: ['test/harness/leaks.ts', 'test/harness/property-seed.ts'],
    // Real servers and real fsync: slow machines need room, and a hang still has to end.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 10_000 } },
    // More than cores: many tests wait for time-outs and other processes.
    maxWorkers: 3,
    projects: [
      {
        extends: true,
        test: {
          name: 'real',
          include: ['test/**/*.test.ts', 'connectors/*/*.test.ts'],
          exclude: [...configDefaults.exclude, ...pure],
          globalSetup: ['test/harness/global-setup.ts'],
        },
      },
      { extends: true, test: { name: 'pure', include: pure, isolate: false } },
    ],
  },
});
