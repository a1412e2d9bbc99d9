/**
 * `npm run release`: shows what a release would publish. It publishes nothing. Refuses (exit code 1) a version that is not
 * semantic or not in the changelog, one of which the upgrade drill has no tables, and a working tree that is not committed.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { repositoryManifest } from './manifest.ts';

const root = join(import.meta.dirname, '../..');
const { version } = repositoryManifest();
const run = (program: string, ...args: string[]) =>
  execFileSync(program, args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

/** Whether test/upgrade has what this version leaves behind, with all of its migrations. */
function isStateKept(): boolean {
  const file = join(root, 'test/upgrade/releases', `${version}.json.gz`);
  if (!existsSync(file)) return false;
  const kept = JSON.parse(gunzipSync(readFileSync(file)).toString()) as Record<string, { migrations: string[] }>;
  return ['service', 'bridge'].every(
    (schema) =>
      kept[schema]?.migrations.join() ===
      readdirSync(join(root, 'src', schema, 'migrations'))
        .filter((name) => name.endsWith('.sql'))
        .toSorted()
        .join(),
  );
}

const problems = [
  !/^\d+\.\d+\.\d+(-[\w.-]+)?$/.test(version) && `${version} is no semantic version.`,
  !readFileSync(join(root, 'CHANGELOG.md'), 'utf8').includes(`\n## ${version}\n`) &&
    `CHANGELOG.md has no section "## ${version}".`,
  !isStateKept() &&
    `The next versions could not be tested on the tables of ${version}: npm run release:state, and commit.`,
  run('git', 'status', '--porcelain').trim() !== '' && 'The working tree has changes: commit them first.',
].filter((problem) => problem !== false);

if (problems.length > 0) {
  console.error(`Not released:\n  ${problems.join('\n  ')}`);
  process.exitCode = 1;
} else {
  for (const folder of ['./dist/package', './dist/library'])
    console.log(run('npm', 'publish', folder, '--dry-run', '--tag', 'latest'));
  console.log(
    `This was a dry run. To publish ${version}: npm publish ./dist/package, npm publish ./dist/library, and git tag v${version}`,
  );
}
