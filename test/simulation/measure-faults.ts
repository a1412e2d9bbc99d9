/**
 * `npm run test:planted [PART OF A NAME OR A FILE]`: plants each fault of `planted-faults.ts` in turn, and prints how many seeds
 * found it. A fault is measured until two seeds of a test file have found it, or `SIM_SEEDS` seeds in all (100); one of
 * an intake with all of them; one of the reading of feeds by the tests of its own.
 */
import { spawnSync } from 'node:child_process';
import { stripVTControlCharacters as plain } from 'node:util';
import { plantedFaults } from './planted-faults.ts';

const seeds = process.env['SIM_SEEDS'] ?? '100';
const part = process.argv[2] ?? '';

for (const { name, file, by } of plantedFaults.filter(
  (fault) => fault.name.includes(part) || fault.file.includes(part),
)) {
  const { stdout, stderr } = spawnSync('vitest', ['run', '--config', 'test/simulation/planted.config.ts'], {
    env: {
      SIM_FROM: '1',
      ...process.env,
      SIM_FAULT: name,
      SIM_FAILURES: '2',
      SIM_SEEDS: seeds,
      INTAKE_STEPS: String(50 * Number(seeds)),
    },
    encoding: 'utf8',
    shell: process.platform === 'win32',
  });
  // A test a seed, or a test of the reading of feeds.
  const [, ofIntakes = 0] = /Tests\s+(\d+) failed/.exec(plain(stdout)) ?? [];
  const [, seedsOfIntakes] = /Tests.*\((\d+)\)/.exec(plain(stdout)) ?? [];
  if (by !== undefined) {
    process.stdout.write(`| ${name} | ${file} | ${ofIntakes} of ${seedsOfIntakes} | |\n`);
    continue;
  }
  const counts = [...`${stdout}${stderr}`.matchAll(/(\d+) of (\d+) seeds? (?:have|has) failed/g)];
  const passed = [...stdout.matchAll(/✓.*\((\d+) seeds\)/g)];
  const failed = counts.reduce((sum, [, count]) => sum + Number(count), 0);
  const tried = [...counts.map(([, , count]) => count), ...passed.map(([, count]) => count)];
  const [, invariant = '-'] = /Caused by[^\n]*: Seed \S+: ([^:\n]+)/.exec(stdout + stderr) ?? [];
  const sum = tried.reduce((total, count) => total + Number(count), 0);
  process.stdout.write(`| ${name} | ${file} | ${failed} of ${sum} | ${invariant} |\n`);
}
