/**
 * Which seeds a run tries: all that failed once; half of the others the same in every run; and half made of the id of
 * the commit, so that each commit tries worlds that were never run before, and a second run of it tries the same ones.
 *
 * `SIM_SEED` runs a single seed, `SIM_SEEDS` is how many in all, and with `SIM_FROM` they are the ones from that number
 * on.
 */
import { execFileSync } from 'node:child_process';
import { failedSeeds } from './failed-seeds.ts';

/** Few, as every run of all tests has them; `npm run test:simulation` runs 10,000. */
const seedsInAll = 12;
/** Where git cannot name the commit, as in an archive of the files. */
const commitUnknown = '000000000';
/** The first digits of a commit's id, each of which has so many seeds of its own, above all that people type. */
const commitDigits = 9;
const seedsOfCommit = 10_000;
const commitSeedsFrom = 1_000_000;

type Environment = Readonly<Record<string, string | undefined>>;

interface ChosenSeeds {
  readonly seeds: readonly string[];
  /** A line that says which they are. */
  readonly told: string;
}

export function chooseSeeds(environment: Environment, commit: string | undefined): ChosenSeeds {
  const { SIM_SEED: single, SIM_FROM: from, SIM_SEEDS: many } = environment;
  if (single !== undefined) return { seeds: [single], told: `Seed ${single}.` };
  const count = Number(many ?? seedsInAll);
  if (from !== undefined) {
    const first = Number(from);
    return { seeds: numbers(first, count), told: `Seeds ${first} to ${first + count - 1}.` };
  }
  const fixed = numbers(1, Math.ceil(count / 2));
  const first = commitSeedsFrom + seedsOfCommit * Number.parseInt((commit ?? commitUnknown).slice(0, commitDigits), 16);
  const fresh = numbers(first, count - fixed.length);
  const source = commit === undefined ? 'git names no commit: the fallback' : `commit ${commit.slice(0, commitDigits)}`;
  return {
    seeds: [...failedSeeds.map(({ seed }) => seed), ...fixed, ...fresh],
    told:
      `${failedSeeds.length} seeds that failed once; 1 to ${fixed.length}; and ${fresh[0]} to ${fresh.at(-1)} ` +
      `(${source}). Again: SIM_FROM=${first} SIM_SEEDS=${fresh.length} npm run test:simulation`,
  };
}

function numbers(first: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(first + index));
}

/** The id of the commit that is checked out; undefined where git does not know it. */
export function commitHere(): string | undefined {
  try {
    const text = execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return /^[0-9a-f]{40}/.exec(text)?.[0];
  } catch {
    return undefined;
  }
}
