/** `sourcing-bridge <args>` as a real process, under the Node that npm scripts get. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { onTestFinished, vi } from 'vitest';
import { runProgram } from '#cli/program.ts';

const root = join(import.meta.dirname, '..', '..');

export interface CommandLine {
  readonly pid: number;
  stdout(): string;
  stderr(): string;
  /**
   * Resolves with the line of standard output that matches; rejects with all output when the process ends without it.
   */
  line(pattern: RegExp): Promise<string>;
  signal(signal: NodeJS.Signals): void;
  /** Closes the pipes that read its output. */
  hangUp(): void;
  /** The exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

/** Starts the program, without the settings of the test run; it is killed with the test if it still runs. */
export function startCommandLine(args: readonly string[], env: Readonly<Record<string, string>> = {}): CommandLine {
  const foreign = /^(VITEST|NODE_ENV$|NODE_OPTIONS$|SOURCING_|DATABASE_URL$|REDIS_URL$|DATA_DIR$|LOG_LEVEL$)/;
  const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
  const child = spawn(join(root, 'node_modules', '.bin', 'node'), [join(root, 'src/cli/main.ts'), ...args], {
    cwd: root,
    env: { ...own, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { pid } = child;
  if (pid === undefined) throw new Error('The program could not be started.');
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (text) => {
    stdout += String(text);
  });
  child.stderr.on('data', (text) => {
    stderr += String(text);
  });
  let running = true;
  const ended = (async () => {
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    running = false;
    return code ?? signal ?? 'SIGKILL';
  })();
  onTestFinished(async () => {
    if (running) child.kill('SIGKILL');
    await ended;
  });
  return {
    pid,
    stdout: () => stdout,
    stderr: () => stderr,
    line: async (pattern) => {
      for (;;) {
        const found = stdout.split('\n').find((line) => pattern.test(line));
        if (found !== undefined) return found;
        if (!running) throw new Error(`It ended with ${await ended} and without ${pattern}:\n${stdout}\n${stderr}`);
        await Promise.race([once(child.stdout, 'data'), ended]);
      }
    },
    signal: (signal) => void child.kill(signal),
    hangUp: () => {
      child.stdout.destroy();
      child.stderr.destroy();
    },
    ended,
  };
}

/** Runs the program to its end. */
export async function runCommandLine(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const command = startCommandLine(args, env);
  const code = await command.ended;
  return { code, stdout: command.stdout(), stderr: command.stderr() };
}

/** Runs the program within this process, which is quicker: for commands that end by themselves. One at a time. */
export async function runHere(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  for (const name of ['DATABASE_URL', 'REDIS_URL', 'DATA_DIR', 'LOG_LEVEL', ...Object.keys(env)])
    vi.stubEnv(name, env[name]);
  let stdout = '';
  let stderr = '';
  const take = (add: (text: string) => void) => (text: unknown) => {
    add(String(text));
    return true;
  };
  const spies = [
    vi.spyOn(console, 'log').mockImplementation(take((text) => (stdout += `${text}\n`))),
    vi.spyOn(console, 'error').mockImplementation(take((text) => (stderr += `${text}\n`))),
    vi.spyOn(process.stdout, 'write').mockImplementation(take((text) => (stdout += text))),
    vi.spyOn(process.stderr, 'write').mockImplementation(take((text) => (stderr += text))),
  ];
  try {
    await runProgram(args);
    return { code: process.exitCode ?? 0, stdout, stderr };
  } finally {
    for (const spy of spies) spy.mockRestore();
    vi.unstubAllEnvs();
    process.exitCode = undefined;
  }
}
