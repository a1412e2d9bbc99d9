/**
 * Runs seeds for a test file. `SIM_SEEDS` is how many in all, `SIM_SEED` runs a single seed, `SIM_FROM` is the first
 * seed instead of 1, and `SIM_LOG=1` prints the log of everything that happens.
 */
import './replaced-imports.ts';
import type { Client } from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { createTestDatabase } from '../harness/test-database.ts';
import { replaceGlobals } from './replaced-globals.ts';
import { runSeed, type SeedResult } from './run-seed.ts';
import { createEmptying, createRealSessions, type RealSessions } from './simulated-postgres.ts';
import type { Sabotage } from './simulation.ts';

const linesShown = 60;

/** Prepares a database and the globals for the whole test file; returns the function that runs a seed. */
export function useSimulation(): (seed: string, options?: { sabotage?: Sabotage }) => Promise<SeedResult> {
  let prepared: { sql: Client; real: RealSessions; empty: () => Promise<void>; restore: () => void } | undefined;
  beforeAll(async () => {
    const { url } = await createTestDatabase();
    const real = createRealSessions(url);
    const sql = await real.open();
    prepared = { sql, real, empty: await createEmptying(sql), restore: replaceGlobals() };
  });
  afterAll(async () => {
    prepared?.restore();
    await prepared?.real.close();
  });
  return async (seed, options) => {
    if (!prepared) throw new Error('The simulation has not been prepared yet.');
    await prepared.empty();
    return runSeed(seed, { ...prepared, echo: process.env['SIM_LOG'] !== undefined, ...options });
  };
}

/** Runs these seeds; throws an error that shows the log of the first that failed, and names the others. */
export async function runSeeds(run: ReturnType<typeof useSimulation>, seeds: readonly string[]): Promise<void> {
  const failed: SeedResult[] = [];
  for (const seed of seeds) {
    const result = await run(seed);
    if (result.violation) failed.push(result);
    if (failed.length >= failuresMost) break;
  }
  const [first, ...others] = failed;
  if (first) throw new Error([reportOf(first), ...others.map(summaryOf)].join('\n'));
}

/** It stops after so many failed seeds: they most likely have one cause. */
const failuresMost = Number(process.env['SIM_FAILURES'] ?? 5);

/** The seeds of one test file, of several that share them. */
export function seedsOf(share: number, shares: number): string[] {
  const single = process.env['SIM_SEED'];
  if (single !== undefined) return share === 0 ? [single] : [];
  const first = Number(process.env['SIM_FROM'] ?? 1);
  const count = Number(process.env['SIM_SEEDS'] ?? seedsInAll);
  return Array.from({ length: count }, (_, index) => first + index)
    .filter((seed) => seed % shares === share)
    .map(String);
}

/** Few, as every run of all tests has them; `npm run test:simulation` runs 10,000. */
const seedsInAll = 400;

const summaryOf = ({ seed, violation }: SeedResult) => `Seed ${seed}: ${violation?.message.slice(0, 500) ?? 'nothing'}`;

function reportOf(result: SeedResult): string {
  const { seed, lines } = result;
  return [
    summaryOf(result),
    `The end of the log (all of it: SIM_SEED=${seed} SIM_LOG=1 npx vitest run test/simulation/seeds-1.test.ts):`,
    ...lines.slice(-linesShown),
  ].join('\n');
}
