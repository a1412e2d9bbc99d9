/** A real PgBouncer before the test's database, where the machine has one (Debian's package `pgbouncer`). */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { closeAtEnd } from './close-at-end.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { scratchFolder } from './scratch-folder.ts';

/** Says once for each test file where there is none. */
export function hasPooler(): boolean {
  const isThere = spawnSync('pgbouncer', ['--version']).status === 0;
  if (!isThere) console.log('PgBouncer: SKIPPED, it is not on this machine (Debian: pgbouncer)');
  return isThere;
}

/** Returns the URL of the same database through the pooler, with Debian's defaults but for the pool mode. */
export async function startPooler(databaseUrl: string, mode: 'session' | 'transaction'): Promise<string> {
  const { hostname, port, pathname, username, password } = new URL(databaseUrl);
  const folder = await scratchFolder();
  const ownPort = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  const server = [
    `host=${hostname}`,
    `port=${port || 5432}`,
    `dbname=${decodeURIComponent(pathname.slice(1))}`,
    `user=${decodeURIComponent(username)}`,
    ...(password === '' ? [] : [`password=${decodeURIComponent(password)}`]),
  ].join(' ');
  writeFileSync(
    file,
    `[databases]\n* = ${server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${ownPort}\nauth_type = any\n` +
      `pool_mode = ${mode}\nmax_client_conn = 200\ndefault_pool_size = 60\nunix_socket_dir =\n`,
  );
  chmodSync(folder, 0o755);
  // PgBouncer does not run as root.
  const asUser = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const pooler = spawn('pgbouncer', ['-q', ...asUser, file], { stdio: 'ignore' });
  closeAtEnd(async () => {
    if (pooler.exitCode !== null) return;
    pooler.kill('SIGKILL');
    await once(pooler, 'exit');
  });
  await eventually('the pooler listens', () => isListening(ownPort));
  const through = new URL(databaseUrl);
  through.hostname = '127.0.0.1';
  through.port = String(ownPort);
  return through.href;
}

function isListening(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}
