/**
 * `kill -9` of the demo's process group at seeded instants, again and again over one data folder, with fsync as in
 * production. FAULTS sets the number of kills, FAULT_SEED the instants.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { unfinished } from '#platform/database/create-cluster.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';
import { type Awards, readServiceState, readUnfinished } from './awards-in-sql.ts';
import {
  createInstallation,
  type Installation,
  outcomeOf,
  type Program,
  until,
  useEmbedded,
} from './program-process.ts';
import { seededRandom } from './seeded-random.ts';

const kills = Number(process.env['FAULTS'] ?? 2);
const seed = Number(process.env['FAULT_SEED'] ?? 7);
/** Kills over one folder. Then the demo must run to its end, and a new folder begins. */
const killsPerFolder = 9;
const events = 4;
const story = ['--events', String(events), '--suppliers', '5', '--lots', '6'];

/** A point in the program's run; the kill comes up to `spreadMs` after it. */
interface Instant {
  name: string;
  spreadMs: number;
  reached: (program: Program, dataDir: string) => boolean | Promise<boolean>;
}

const closedEvents = (program: Program) => program.lines.filter((line) => line.endsWith('" closed')).length;
const draftedEvents = (program: Program) => program.lines.filter((line) => line.includes('" drafted')).length;
const printed = (text: string) => (program: Program) => program.lines.some((line) => line.includes(text));

const whileMakingTheCluster: Instant = {
  name: 'while initdb runs',
  spreadMs: 400,
  reached: async (_program, dataDir) =>
    (await readdir(dataDir).catch(() => [])).some((name) => name.startsWith(unfinished)),
};

const anyInstant: Instant[] = [
  { name: 'while it loads', spreadMs: 900, reached: () => true },
  {
    name: 'while it migrates',
    spreadMs: 300,
    reached: (_program, dataDir) => existsSync(join(dataDir, 'postgres', 'postmaster.pid')),
  },
  {
    name: 'while it is set up',
    spreadMs: 250,
    reached: (_program, dataDir) => existsSync(join(dataDir, 'local-setup.json')),
  },
  { name: 'when the story begins', spreadMs: 300, reached: printed('webhooks to') },
  { name: 'in the middle of the story', spreadMs: 200, reached: (program) => closedEvents(program) >= 2 },
  { name: 'after the last award', spreadMs: 120, reached: (program) => closedEvents(program) >= events },
  { name: 'while documents are pushed', spreadMs: 20, reached: (program) => closedEvents(program) >= 1 },
];

interface KilledRun {
  instant: string;
  /** Events that the service had acknowledged before the kill. */
  drafted: number;
}

/** Starts the demo and kills it at the instant; a demo that ends before must have succeeded. */
async function killOnce(installation: Installation, instant: Instant, afterMs: number): Promise<KilledRun> {
  const program = installation.start(['demo', ...story]);
  await until(
    instant.name,
    () => instant.reached(program, installation.dataDir),
    () => (program.ended ? program.report() : undefined),
  );
  await Promise.race([sleep(afterMs), program.end]);
  await program.kill();
  expect(outcomeOf(program)).toMatch(/^(killed|exit code 0)$/);
  return { instant: instant.name, drafted: draftedEvents(program) };
}

async function killAgainAndAgain(installation: Installation, count: number, random: ReturnType<typeof seededRandom>) {
  const runs: KilledRun[] = [];
  for (let number = 0; number < count; number += 1) {
    const instant =
      number < 2 && !existsSync(join(installation.dataDir, 'postgres'))
        ? whileMakingTheCluster
        : (anyInstant[Math.floor(random.upTo(anyInstant.length))] as Instant);
    runs.push(await killOnce(installation, instant, random.upTo(instant.spreadMs)));
  }
  return runs;
}

/**
 * The awards in the folder without those of the events in `except`, with each file checked against the others; fails
 * for a file that belongs to no award.
 */
async function readFolder(folder: string, except: readonly string[]): Promise<Awards> {
  const awards: Awards = {};
  let held = 0;
  const names = (await readdir(folder)).filter((name) => !/^\.award_.*\.tmp$/.test(name));
  for (const name of names.filter((file) => file.endsWith('.json'))) {
    const document = JSON.parse(await readFile(join(folder, name), 'utf8'));
    // A second document for the same award would be another file.
    expect(awards).not.toHaveProperty([document.key]);
    const csv = await readFile(join(folder, document.lines_file));
    expect(createHash('sha256').update(csv).digest('hex')).toBe(document.lines_sha256);
    held += 1;
    // A withdrawn award stays, without lines: a system that has imported it must learn of the withdrawal.
    if (document.state === 'withdrawn') {
      expect(document.lines).toEqual([]);
      continue;
    }
    expect(document.state).toBe('awarded');
    if (except.includes(document.key.split('/')[0])) continue;
    awards[document.key] = document.lines
      .map((line: { lot: string; share: string; cost: string }) => `${line.lot} ${line.share} ${line.cost}`)
      .sort();
  }
  // A JSON and a CSV for each award, and nothing else.
  expect(names).toHaveLength(2 * held);
  return awards;
}

/** Runs the demo once more to its end, and compares the folder with the awards of all runs. */
async function endAndCompare(
  installation: Installation,
  runs: readonly KilledRun[],
  withDatabase: <T>(use: (url: string) => Promise<T>) => Promise<T>,
) {
  const last = installation.start(['demo', ...story]);
  await last.end;
  return withDatabase(async (url) => {
    const service = await readServiceState(url);
    return {
      end: outcomeOf(last),
      ownComparisonEqual: last.lines.includes('The connector holds exactly what the service awarded.'),
      // The service still has everything that it acknowledged before a kill: the same database, with nothing lost.
      acknowledgedEventsLost: Math.max(0, runs.reduce((sum, { drafted }) => sum + drafted, events) - service.events),
      organisations: service.organisations,
      unfinished: await readUnfinished(url),
      awards: service.awards,
      // A run that was killed between reopening an event and closing it again leaves it open.
      folder: await readFolder(join(installation.dataDir, 'erp-inbox'), service.reopened),
    };
  });
}

type Comparison = Awaited<ReturnType<typeof endAndCompare>>;

/** The comparison as it must be, with the service's own awards as the reference. */
function everythingOnce({ awards }: Comparison): Comparison {
  return {
    end: 'exit code 0',
    ownComparisonEqual: true,
    acknowledgedEventsLost: 0,
    organisations: 1,
    unfinished: [],
    awards,
    folder: awards,
  };
}

/** The number that initdb assigns to a database cluster: the first eight bytes of its control file. */
async function clusterIdentity(dataDir: string): Promise<string | undefined> {
  const control = await readFile(join(dataDir, 'postgres', 'global', 'pg_control')).catch(() => undefined);
  return control?.subarray(0, 8).toString('hex');
}

test(`the demo, killed at ${kills} instants over one folder, ends with every award exactly once and no clean-up`, {
  timeout: 120_000 + kills * 20_000,
}, async () => {
  const random = seededRandom(seed);
  for (let left = kills; left > 0; left -= killsPerFolder) {
    const installation = await createInstallation();
    const first = Math.min(left, killsPerFolder);
    const early = await killAgainAndAgain(installation, Math.ceil(first / 2), random);
    const identity = await clusterIdentity(installation.dataDir);
    // Half a document, as a kill between writing and renaming leaves it: no reader may take it for a document.
    const inbox = join(installation.dataDir, 'erp-inbox');
    const leftover = join(inbox, '.award_left_over.json.0123456789abcdef.tmp');
    await mkdir(inbox, { recursive: true });
    await writeFile(leftover, '{"key": "left/over", "li');
    const twoDaysAgo = Date.now() / 1000 - 2 * 86_400;
    await utimes(leftover, twoDaysAgo, twoDaysAgo);
    const late = await killAgainAndAgain(installation, Math.floor(first / 2), random);
    const runs = [...early, ...late];
    const compared = await endAndCompare(installation, runs, (use) => useEmbedded(installation.dataDir, use));
    expect(compared).toEqual(everythingOnce(compared));
    // Undefined when no kill came after initdb.
    expect([undefined, await clusterIdentity(installation.dataDir)]).toContain(identity);
    expect(existsSync(leftover)).toBe(false);
    expect((await readdir(installation.dataDir)).filter((name) => name.startsWith(unfinished))).toEqual([]);
  }
});

// By `npm run test:kills`: it differs from the test above in the database alone.
const killsAsked = process.env['FAULTS'] !== undefined;

test.skipIf(!killsAsked)(
  'the demo, killed on a PostgreSQL server of the operator, also ends with every award exactly once',
  async () => {
    const { url } = await createEmptyDatabase();
    const installation = await createInstallation({ databaseUrl: url });
    const random = seededRandom(seed + 1);
    const runs: KilledRun[] = [];
    for (const name of ['while it loads', 'in the middle of the story', 'after the last award']) {
      const instant = anyInstant.find((each) => each.name === name) as Instant;
      runs.push(await killOnce(installation, instant, random.upTo(instant.spreadMs)));
    }
    const compared = await endAndCompare(installation, runs, (use) => use(url));
    expect(compared).toEqual(everythingOnce(compared));
  },
);
