/**
 * The real command line as a process that can be killed as a whole: it leads a process group, as a program does that
 * was started in a terminal. Programs that a test leaves running are killed after the file, and so is the embedded
 * database of each folder, which by design outlives a killed program.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { startEmbeddedPostgres } from '#platform/database/embedded-postgres.ts';
import { hasErrorCode } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const root = join(import.meta.dirname, '..', '..');
const patienceMs = 120_000;
const pollMs = 5;

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Program {
  readonly pid: number;
  /** The lines of standard output so far. */
  readonly lines: readonly string[];
  /** The lines of standard error so far. */
  readonly errors: readonly string[];
  /** Undefined while it runs. */
  readonly ended: Ended | undefined;
  /** Resolves when the process is gone and its output is read. */
  readonly end: Promise<Ended>;
  /** Its latest output, for the message of a failed expectation. */
  report(): string;
  /** Sends a signal to every process of the group; does nothing when the program has ended. */
  signal(name: NodeJS.Signals): void;
  /** Ends every process of the group at once, as `kill -9` does. */
  kill(): Promise<Ended>;
  /** Sends SIGTERM to the program, as a service manager does. */
  terminate(): Promise<Ended>;
}

export interface Installation {
  /** The data folder of the programs. */
  readonly dataDir: string;
  /** Starts `sourcing-bridge <args>` over this folder. */
  start(args: readonly string[], env?: Readonly<Record<string, string>>): Program;
}

/**
 * Prepares a data folder that does not exist yet, or uses the given one, and writes a configuration file. `openFiles` is
 * how many files and sockets its programs may open; `code` the repository whose programs are started, by default this one.
 */
export async function createInstallation(
  options: { configuration?: object; databaseUrl?: string; dataDir?: string; openFiles?: number; code?: string } = {},
): Promise<Installation> {
  const folder = await scratchFolder();
  const dataDir = options.dataDir ?? join(folder, 'data');
  const configFile = join(folder, 'bridge.yaml');
  // JSON is YAML.
  await writeFile(configFile, JSON.stringify(options.configuration ?? {}));
  const programs: Program[] = [];
  closeAtEnd(async () => {
    for (const program of programs) if (!program.ended) await program.kill();
    if (options.databaseUrl === undefined) await useEmbedded(dataDir, async () => undefined);
  });
  return {
    dataDir,
    start: (args, env = {}) => {
      const environment = {
        ...ownEnvironment(),
        ...(options.databaseUrl === undefined ? {} : { DATABASE_URL: options.databaseUrl }),
        ...env,
      };
      const program = startProgram([...args, '--config', configFile, '--data', dataDir], environment, {
        code: options.code ?? root,
        openFiles: options.openFiles,
      });
      programs.push(program);
      return program;
    },
  };
}

/** Lends the embedded database of a folder; the server stops afterwards unless a program uses it. */
export async function useEmbedded<T>(dataDir: string, use: (url: string) => Promise<T>): Promise<T> {
  const server = await startEmbeddedPostgres({ dataDir, log: silentLogger });
  try {
    return await use(server.url);
  } finally {
    await server.stop();
  }
}

/**
 * Resolves when `look` returns a value; rejects with `what` after two minutes, or as soon as `unless` returns a reason.
 */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  unless: () => string | undefined = () => undefined,
): Promise<T> {
  const giveUpMs = performance.now() + patienceMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    const reason = unless();
    if (reason !== undefined) throw new Error(`This cannot happen any more: ${what}. ${reason}`);
    if (performance.now() > giveUpMs) throw new Error(`This did not happen: ${what}`);
    await sleep(pollMs);
  }
}

/** Resolves with the line of the program that matches; rejects when it ends without one. */
export function lineOf(program: Program, pattern: RegExp): Promise<string> {
  return until(
    `a line like ${pattern}`,
    () => program.lines.find((line) => pattern.test(line)),
    () => (program.ended ? program.report() : undefined),
  );
}

/** How the program ended: `exit code 0`, `killed`, or else its report. */
export function outcomeOf(program: Program): string {
  if (program.ended?.code === 0) return 'exit code 0';
  return program.ended?.signal === 'SIGKILL' ? 'killed' : program.report();
}

/** Stops the program; fails unless it ends with exit code 0 within the ten seconds that a service manager allows. */
export async function expectGracefulEnd(program: Program): Promise<void> {
  const startedMs = performance.now();
  await program.terminate();
  expect(outcomeOf(program)).toBe('exit code 0');
  expect(performance.now() - startedMs).toBeLessThan(10_000);
}

/** The environment without the settings of the test run. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const foreign = /^(VITEST|NODE_ENV$|SOURCING_|DATABASE_URL$|REDIS_URL$|DATA_DIR$|LOG_LEVEL$)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
}

function startProgram(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { code, openFiles }: { code: string; openFiles: number | undefined },
): Program {
  const command = [process.execPath, join(code, 'src/cli/main.ts'), ...args];
  const limited =
    openFiles === undefined ? command : ['sh', '-c', `ulimit -n ${openFiles}; exec "$@"`, 'sh', ...command];
  const [file = '', ...rest] = limited;
  const child = spawn(file, rest, {
    cwd: code,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { pid } = child;
  if (pid === undefined) throw new Error('The program could not be started.');
  const lines: string[] = [];
  const errors: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  createInterface({ input: child.stderr }).on('line', (line) => errors.push(line));
  let ended: Ended | undefined;
  const end = (async () => {
    const [code, signal] = await once(child, 'close');
    ended = { code, signal };
    return ended;
  })();
  const signal = (name: NodeJS.Signals) => {
    try {
      if (!ended) process.kill(-pid, name);
    } catch (error) {
      // The program ended by itself just now.
      if (!hasErrorCode(error, 'ESRCH')) throw error;
    }
  };
  return {
    pid,
    lines,
    errors,
    get ended() {
      return ended;
    },
    end,
    report: () =>
      [`${args[0]} ended with ${JSON.stringify(ended)}`, ...lines.slice(-40), ...errors.slice(-40)].join('\n'),
    signal,
    kill: () => {
      signal('SIGKILL');
      return end;
    },
    terminate: () => {
      process.kill(pid, 'SIGTERM');
      return end;
    },
  };
}
