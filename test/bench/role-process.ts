/** One role of the bridge, or the service, as the process that an operator starts; its figures are its own metrics. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { BridgeRole } from '#bridge/bridge-deps.ts';

export interface RoleProcess {
  /** CPU milliseconds since its start, and the memory that it holds now. */
  usage(): Promise<{ cpuMs: number; rss: number }>;
  close(): Promise<void>;
}

const program = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts');

/** Starts it over a folder of its own, with the bridge's settings; resolves when it is ready. */
export async function startRole(options: {
  role: BridgeRole;
  folder: string;
  databaseUrl: string;
  bridge: Record<string, unknown>;
}): Promise<RoleProcess> {
  const consolePort = await freePort();
  const file = join(options.folder, `${options.role}.yaml`);
  // JSON is YAML.
  await writeFile(
    file,
    JSON.stringify({ log_level: 'error', bridge: { ...options.bridge, console_port: consolePort } }),
  );
  const args = [program, 'bridge', '--role', options.role, '--config', file, '--data', join(options.folder, 'data')];
  const child = spawn(process.execPath, args, {
    env: { ...process.env, DATABASE_URL: options.databaseUrl },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (/ ready /.test(line)) resolve();
    });
    void exited.then(([code]) => reject(new Error(`The process of the role ${options.role} ended with ${code}.`)));
  });
  return {
    usage: async () => {
      const text = await (await fetch(`http://127.0.0.1:${consolePort}/metrics`)).text();
      const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
      return { cpuMs: value('process_cpu_seconds_total') * 1000, rss: value('process_resident_memory_bytes') };
    },
    close: async () => {
      child.kill();
      await exited;
    },
  };
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
