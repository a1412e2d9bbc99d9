/**
 * `npm run test:changed [COMMIT]`: the tests nearest to what has changed since that commit, HEAD by default; files that
 * git does not know yet count as changed. These are the tests that import a changed file themselves, and those in the
 * folder of test/ that mirrors the file's own. Long tests are left to `npm test`, unless they are what has changed.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { longest } from './longest-first.ts';

/** So many run within a minute. */
const filesMax = 25;

const testFiles = globSync('{test,connectors}/**/*.test.ts').filter((path) => !path.startsWith('test/rare/'));

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean);

/** The paths from the root that a test file imports. */
function importsOf(test: string): string[] {
  return [...readFileSync(test, 'utf8').matchAll(/(?:from|import|import\()\s*'([.#][^']+)'/g)].map(([, path = '']) =>
    path.startsWith('#') ? `src/${path.slice(1)}` : posix.join(posix.dirname(test), path),
  );
}

/** The nearest folder of tests: `test/cli` for `src/cli/commands/start.ts`; `test/check` for documents and examples. */
function folderOf(path: string): string {
  if (/^(docs|config)\/|\.md$/.test(path)) return 'test/check';
  let folder = posix
    .dirname(path)
    .replace(/^src\b/, 'test')
    .replace(/^connectors\b/, 'test/connectors');
  while (folder !== '.' && !testFiles.some((test) => posix.dirname(test) === folder)) folder = posix.dirname(folder);
  return folder;
}

const changed = [
  ...git('diff', '--name-only', '--relative', process.argv[2] ?? 'HEAD'),
  ...git('ls-files', '--others', '--exclude-standard'),
];
const folders = changed.map(folderOf);
const names = changed.map((path) => posix.basename(path).replace(/\.ts$/, '.test.ts'));
const quick = testFiles.filter((test) => !longest.includes(test));
const inFolder = quick.filter((test) => folders.includes(posix.dirname(test)));
const concerned = new Set([
  ...testFiles.filter((test) => changed.includes(test)),
  ...inFolder.filter((test) => names.includes(posix.basename(test))),
  ...inFolder,
  ...quick.filter((test) => importsOf(test).some((path) => changed.includes(path))),
]);
const chosen = [...concerned].slice(0, filesMax);

console.log(
  `${changed.length} changed files; ${concerned.size} test files are near, and ${chosen.length} run. The whole suite: npm test.`,
);
if (chosen.length > 0)
  process.exitCode =
    spawnSync('vitest', ['run', ...chosen], { stdio: 'inherit', shell: process.platform === 'win32' }).status ?? 1;
