/** What vitest.config.ts says of test files: which of them have a process of their own, and which run first. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isolated } from '../harness/isolated-files.ts';
import { longest } from '../harness/longest-first.ts';

const root = join(import.meta.dirname, '..', '..');
const folderOf = (path: string) => path.slice(0, path.lastIndexOf('/'));

test('only isolated tests, and modules beside them, replace modules: tests that share a process would get them, too', () => {
  const isolatedFolders = globSync(isolated, { cwd: root }).map(folderOf);
  const replacing = globSync('{test,connectors}/**/*.ts', { cwd: root }).filter((path) =>
    /\bvi\.(mock|doMock|hoisted)\(/.test(readFileSync(join(root, path), 'utf8')),
  );
  expect(replacing.length).toBeGreaterThan(0);
  expect(replacing.filter((path) => !isolatedFolders.includes(folderOf(path)))).toEqual([]);
});

test('every file that is to run first exists', () => {
  expect(longest.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});
