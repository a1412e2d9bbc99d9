/** Runs seeds for a test file (`choose-seeds.ts` says which). `SIM_LOG=1` prints the log of everything that happens. */
import './replaced-imports.ts';
import type { Client } from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { createTestDatabase } from '../harness/test-database.ts';
import { chooseSeeds, commitHere } from './choose-seeds.ts';
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
  let tried = 0;
  for (const seed of seeds) {
    const result = await run(seed);
    tried += 1;
    if (result.violation) failed.push(result);
    if (failed.length >= failuresMost) break;
  }
  const [first, ...others] = failed;
  const count = `${failed.length} of ${tried} seeds have failed.`;
  if (first) throw new Error([reportOf(first), ...others.map(summaryOf), count].join('\n'));
}

/** It stops after so many failed seeds: they most likely have one cause. */
const failuresMost = Number(process.env['SIM_FAILURES'] ?? 5);

/** The seeds of one test file, of several that share them; the first of these files says which they are. */
export function seedsOf(share: number, shares: number): string[] {
  const { seeds, told } = chooseSeeds(process.env, commitHere());
  if (share === 0) process.stdout.write(`Simulation: ${told}\n`);
  return seeds.filter((_, index) => index % shares === share);
}

const summaryOf = ({ seed, violation }: SeedResult) => `Seed ${seed}: ${violation?.message.slice(0, 500) ?? 'nothing'}`;

function reportOf(result: SeedResult): string {
  const { seed, lines } = result;
  return [
    summaryOf(result),
    `The end of the log (all of it: SIM_SEED=${seed} SIM_LOG=1 npx vitest run test/simulation/seeds-1.test.ts):`,
    ...lines.slice(-linesShown),
  ].join('\n');
}
