/** One role of the bridge, or the service, as the process that an operator starts. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { BridgeRole } from '#bridge/settings/bridge-deps.ts';
import type { Installation } from '#cli/installation.ts';

export interface RoleProcess {
  readonly pid: number;
  /** CPU milliseconds since its start, and the memory that it holds now. */
  usage(): Promise<{ cpuMs: number; rss: number }>;
  close(): Promise<void>;
}

const root = join(import.meta.dirname, '..', '..');
const program = join(root, 'dist', 'package', 'src', 'cli', 'launch.js');

/** Builds the package that the processes run: the container image and an installation have the same. */
export function buildPackage(): void {
  execFileSync(process.execPath, [join(root, 'docker', 'package', 'build.ts')], { stdio: 'ignore' });
}

/** Starts it over a folder of its own, with the bridge's settings; resolves when it is ready. */
export async function startRole(options: {
  role: BridgeRole;
  folder: string;
  databaseUrl: string;
  bridge: Record<string, unknown>;
}): Promise<RoleProcess> {
  const { role, folder, databaseUrl } = options;
  const consolePort = await freePort();
  return startProgram(['bridge', '--role', role], {
    file: join(folder, `${role}.yaml`),
    settings: { bridge: { ...options.bridge, console_port: consolePort } },
    dataDir: join(folder, 'data'),
    databaseUrl,
    metrics: { port: consolePort },
  });
}

/** Starts the service over an installation's data folder and database; resolves when it is ready. */
export async function startServiceProcess(installation: Installation, port: number): Promise<RoleProcess> {
  const { dataDir, open } = installation;
  return startProgram(['service', '--port', `${port}`], {
    file: join(dataDir, 'service.yaml'),
    settings: { sweep_seconds: 0.5 },
    dataDir,
    databaseUrl: open.url,
    metrics: { port, token: await installation.adminToken() },
  });
}

async function startProgram(
  command: readonly string[],
  options: {
    file: string;
    settings: Record<string, unknown>;
    dataDir: string;
    databaseUrl: string;
    metrics: { port: number; token?: string };
  },
): Promise<RoleProcess> {
  const { file, metrics } = options;
  // JSON is YAML.
  await writeFile(file, JSON.stringify({ log_level: 'error', ...options.settings }));
  const child = spawn(process.execPath, [program, ...command, '--config', file, '--data', options.dataDir], {
    env: { ...process.env, DATABASE_URL: options.databaseUrl },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (/ ready /.test(line)) resolve();
    });
    void exited.then(([code]) => reject(new Error(`The process "${command.join(' ')}" ended with ${code}.`)));
  });
  const headers = metrics.token === undefined ? {} : { authorization: `Bearer ${metrics.token}` };
  return {
    pid: child.pid ?? 0,
    usage: async () => {
      const system = await usageOf(child.pid ?? 0);
      if (system) return system;
      const text = await (await fetch(`http://127.0.0.1:${metrics.port}/metrics`, { headers })).text();
      const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
      return { cpuMs: value('process_cpu_seconds_total') * 1000, rss: value('process_resident_memory_bytes') };
    },
    close: async () => {
      child.kill();
      await exited;
    },
  };
}

/**
 * What the system says of a process, where /proc shows it: a bridge with 500 sources would have to look at 2,000 feeds
 * for each answer with its metrics, and that would be measured, too.
 */
async function usageOf(pid: number): Promise<{ cpuMs: number; rss: number } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => undefined);
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  const rssKb = /^VmRSS:\s+(\d+) kB$/m.exec(status ?? '')?.[1];
  // Ticks of 10 ms.
  return fields && rssKb
    ? { cpuMs: (Number(fields[11]) + Number(fields[12])) * 10, rss: Number(rssKb) * 1024 }
    : undefined;
}

/** A port that no other program listens on at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
