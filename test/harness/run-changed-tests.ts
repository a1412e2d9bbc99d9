/**
 * `npm run test:changed [COMMIT]`: runs the tests that the changes since that commit concern, HEAD by default; files that
 * git does not know yet count as changed. Of more than 25 test files it runs the nearest 25, and says so.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { concernedTests, importGraphOf } from './changed-tests.ts';

const filesMost = 25;

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean);
const changed = [
  ...git('diff', '--name-only', '--relative', process.argv[2] ?? 'HEAD'),
  ...git('ls-files', '--others', '--exclude-standard'),
];
const modules = globSync('{src,connectors,test}/**/*.ts').map((path) => [path, readFileSync(path, 'utf8')] as const);
const tests = concernedTests(changed, importGraphOf(new Map(modules)));
const chosen = tests.slice(0, filesMost);

console.log(`${changed.length} changed files concern ${tests.length} test files.`);
if (tests.length > chosen.length) console.log(`The nearest ${chosen.length} run now; npm test runs all of them.`);
if (chosen.length > 0)
  process.exitCode =
    spawnSync('vitest', ['run', ...chosen], { stdio: 'inherit', shell: process.platform === 'win32' }).status ?? 1;
