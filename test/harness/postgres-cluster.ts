/** Real PostgreSQL clusters of a test's own, from Debian's package `postgresql`: with replicas, promotion and kill -9. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, readdirSync } from 'node:fs';
import { appendFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { closeAtEnd } from './close-at-end.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { scratchFolder } from './scratch-folder.ts';

const packages = '/usr/lib/postgresql';
const version = existsSync(packages)
  ? readdirSync(packages)
      .toSorted((a, b) => Number(a) - Number(b))
      .at(-1)
  : undefined;
const binaries = join(packages, version ?? '', 'bin');

/** Says once for each test file where there is none. */
export function hasClusters(): boolean {
  const isThere = existsSync(join(binaries, 'initdb'));
  if (!isThere) console.log('PostgreSQL clusters: SKIPPED, none is on this machine (Debian: postgresql)');
  return isThere;
}

export interface Cluster {
  readonly port: number;
  readonly folder: string;
  url(database: string): string;
  query<Row extends object>(statement: string): Promise<Row[]>;
  /** Kills the server and all its child processes with -9, as a power cut does. */
  kill(): Promise<void>;
}

// PostgreSQL does not run as root.
const user =
  process.getuid?.() === 0
    ? {
        uid: Number(execFileSync('id', ['-u', 'postgres'], { encoding: 'utf8' })),
        gid: Number(execFileSync('id', ['-g', 'postgres'], { encoding: 'utf8' })),
      }
    : {};

/** Makes a cluster and starts it. `parent`: the folder it is made in, a scratch folder by default. */
export async function startCluster(settings: readonly string[] = [], parent?: string): Promise<Cluster> {
  const folder = await ownFolder(parent);
  run('initdb', ['--pgdata', folder, '--auth', 'trust', '--username', 'postgres', '--no-sync']);
  return serve(folder, settings);
}

/** Copies a running cluster, and starts the copy as its asynchronous replica. */
export async function startReplica(primary: Cluster): Promise<Cluster> {
  const folder = await ownFolder();
  const source = `host=127.0.0.1 port=${primary.port} user=postgres`;
  run('pg_basebackup', ['--pgdata', folder, '--dbname', source, '--write-recovery-conf', '--checkpoint', 'fast']);
  return serve(folder, []);
}

async function ownFolder(parent?: string): Promise<string> {
  const scratch = parent ?? (await scratchFolder());
  chmodSync(scratch, 0o755);
  const folder = join(scratch, 'cluster');
  await mkdir(folder, { mode: 0o700 });
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
  return folder;
}

function run(program: string, args: readonly string[]): void {
  execFileSync(join(binaries, program), args, { ...user, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] });
}

async function serve(folder: string, settings: readonly string[]): Promise<Cluster> {
  const port = await freePort();
  const own = [
    `port = ${port}`,
    "listen_addresses = '127.0.0.1'",
    "unix_socket_directories = ''",
    'max_connections = 200',
  ];
  await appendFile(join(folder, 'postgresql.conf'), `${[...own, ...settings].join('\n')}\n`);
  const server = spawn(join(binaries, 'postgres'), ['-D', folder], {
    ...user,
    cwd: '/',
    stdio: 'ignore',
  });
  closeAtEnd(() => killAll(server));
  const url = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`;
  const query = async <Row extends object>(statement: string): Promise<Row[]> => {
    const client = new Client({ connectionString: url('postgres') });
    await client.connect();
    try {
      return (await client.query<Row>(statement)).rows;
    } finally {
      await client.end();
    }
  };
  await eventually('the cluster answers', () =>
    query('select 1').then(
      () => true,
      () => false,
    ),
  );
  return { port, folder, url, query, kill: () => killAll(server) };
}

async function killAll(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  // Each of its processes leads a group of its own.
  const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(server.pid)], { encoding: 'utf8' });
  const exit = once(server, 'exit');
  for (const pid of [server.pid, ...children.trim().split(/\s+/).map(Number)])
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // A child may have ended meanwhile.
    }
  await exit;
}
