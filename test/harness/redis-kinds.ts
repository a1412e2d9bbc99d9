/** Real servers of Redis that cannot carry wake-ups. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { closeAtEnd } from './close-at-end.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { scratchFolder } from './scratch-folder.ts';

/** How each is called in words, and started. */
export const unusableKinds = {
  'a Sentinel': { mode: ['--sentinel'], lines: [] },
  'a node of a cluster': { mode: [], lines: ['cluster-enabled yes', 'save ""'] },
  'a replica': { mode: [], lines: ['replicaof 127.0.0.1 1', 'save ""'] },
} as const satisfies Record<string, { mode: readonly string[]; lines: readonly string[] }>;

export const unusableKindNames = Object.keys(unusableKinds) as (keyof typeof unusableKinds)[];

/** Starts a server with these lines of configuration; returns its URL. */
export async function startRedisWith({
  mode,
  lines,
}: {
  mode: readonly string[];
  lines: readonly string[];
}): Promise<string> {
  const [folder, port, busPort] = [await scratchFolder(), await freePort(), await freePort()];
  const file = join(folder, 'redis.conf');
  // The bus of a cluster would take the port 10,000 above, which there need not be.
  const common = ['bind 127.0.0.1', `port ${port}`, `cluster-port ${busPort}`, `dir ${folder}`];
  writeFileSync(file, `${[...common, ...lines].join('\n')}\n`);
  const server = spawn('redis-server', [file, ...mode], { stdio: 'ignore' });
  closeAtEnd(async () => {
    server.kill('SIGKILL');
    if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
  });
  const url = `redis://127.0.0.1:${port}`;
  await eventually('it answers', async () => {
    const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return true;
    } catch {
      return false;
    } finally {
      client.disconnect();
    }
  });
  return url;
}
