/** `npm run test:changed` on a repository of a few files. */
import { expect, test } from 'vitest';
import { concernedTests, importGraphOf } from '../harness/changed-tests.ts';

const graph = importGraphOf(
  new Map([
    ['src/contract/feed.ts', ''],
    [
      'src/service/feeds/read-feed.ts',
      `import { feeds } from '#contract/feed.ts';\nimport type { Job } from '#service/jobs/job.ts';`,
    ],
    ['src/service/jobs/job.ts', ''],
    ['src/service/create-service.ts', `import { readFeed } from './feeds/read-feed.ts';\nimport './jobs/job.ts';`],
    ['src/cli/commands/start.ts', `const start = () => import('#service/create-service.ts');`],
    ['test/harness/test-service.ts', `import {\n  startService,\n} from '#service/create-service.ts';`],
    ['test/service/feeds/paging.ts', `export { readFeed } from '#service/feeds/read-feed.ts';`],
    ['test/service/feeds/paging.test.ts', `import { page } from './paging.ts';`],
    ['test/service/feeds/order.test.ts', `import { startTestService } from '../../harness/test-service.ts';`],
    ['test/service/jobs/job.test.ts', `import { startTestService } from '../../harness/test-service.ts';`],
    ['test/cli/start.test.ts', `import { run } from '#cli/commands/start.ts';`],
    ['connectors/file/index.ts', `import { defineConnector } from 'sourcing-bridge/connector';`],
    ['src/connector/index.ts', ''],
    ['connectors/file/conformance.test.ts', `import file from './index.ts';`],
    ['test/connectors/file/names.test.ts', ''],
    ['test/check/links.test.ts', ''],
  ]),
);
const concerned = (...changed: string[]) => concernedTests(changed, graph);

test('a change concerns the tests that import the file, the nearest first, and those in the folder of its tests', () => {
  expect(concerned('src/service/feeds/read-feed.ts')).toEqual([
    'test/service/feeds/paging.test.ts',
    'test/service/feeds/order.test.ts',
  ]);
  expect(concerned('src/service/jobs/job.ts')).toEqual(['test/service/jobs/job.test.ts']);
  expect(concerned('test/service/feeds/paging.ts')).toEqual(['test/service/feeds/paging.test.ts']);
  expect(concerned('test/service/jobs/job.test.ts')).toEqual(['test/service/jobs/job.test.ts']);
});

test('a test that reaches the file only through a whole program is not concerned', () => {
  expect(concerned('src/contract/feed.ts')).toEqual(['test/service/feeds/paging.test.ts']);
});

test('a change of what starts the programs concerns every test that starts one', () => {
  expect(concerned('test/harness/test-service.ts')).toEqual([
    'test/service/feeds/order.test.ts',
    'test/service/jobs/job.test.ts',
  ]);
});

test('where the folder has no tests, those of the folder above are concerned', () => {
  expect(concerned('src/cli/commands/stop.ts')).toEqual(['test/cli/start.test.ts']);
});

test('a connector has tests in two places; a change of what every connector imports concerns them, too', () => {
  expect(concerned('connectors/file/index.ts')).toEqual([
    'connectors/file/conformance.test.ts',
    'test/connectors/file/names.test.ts',
  ]);
  expect(concerned('src/connector/index.ts')).toEqual(['connectors/file/conformance.test.ts']);
});

test('documents are looked at by the checks', () => {
  expect(concerned('docs/glossary.md', 'README.md')).toEqual(['test/check/links.test.ts']);
});
