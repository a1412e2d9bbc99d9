import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFile,
  chown,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createDatabase } from '#platform/database/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '#platform/database/embedded-postgres.ts';
import { silentLogger } from '#platform/log.ts';
import { findScratchRoot } from '../../harness/scratch-root.ts';

const isRoot = process.getuid?.() === 0;

let parent: string;
/** In a folder of mode 0700, which belongs to root when root runs the tests. */
let dataDir: string;
let started: EmbeddedPostgres[];
let children: ChildProcessWithoutNullStreams[];

beforeEach(async () => {
  parent = await mkdtemp(join(await findScratchRoot(tmpdir()), 'embedded-'));
  dataDir = join(parent, '.test', 'data');
  started = [];
  children = [];
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(started.map((each) => each.stop()));
  const pid = await runningPid();
  if (pid !== undefined && isAlive(pid)) process.kill(pid, 'SIGKILL');
  await rm(parent, { recursive: true, maxRetries: 5 });
});

async function start(scratch = true): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ dataDir, log: silentLogger, scratch });
  started.push(server);
  return server;
}

const moduleUrl = (path: string) => JSON.stringify(new URL(`../../../src/platform/${path}`, import.meta.url).href);

/** Another process that prints the server's URL, and uses the server until it reads a line. */
const program = `
  import { startEmbeddedPostgres } from ${moduleUrl('database/embedded-postgres.ts')};
  import { silentLogger } from ${moduleUrl('log.ts')};
  const server = await startEmbeddedPostgres({ dataDir: process.argv[1], log: silentLogger, scratch: true });
  console.log(server.url);
  process.stdin.once('data', async () => {
    await server.stop();
    process.exit();
  });`;

function spawnUser(): ChildProcessWithoutNullStreams {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, dataDir], { detached: true });
  child.stderr.pipe(process.stderr);
  children.push(child);
  return child;
}

async function urlOf(child: ChildProcessWithoutNullStreams): Promise<string> {
  const [line] = await once(createInterface(child.stdout), 'line');
  return String(line);
}

/** Kills the process and all of its group, as a terminal or a service manager does. */
async function killGroup(child: ChildProcessWithoutNullStreams): Promise<void> {
  const ended = once(child, 'exit');
  process.kill(-Number(child.pid), 'SIGKILL');
  await ended;
}

async function sql<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

const owners = `select count(*) filter (where locks.granted)::int as owners, count(*)::int as sessions
  from pg_stat_activity left join pg_locks as locks on locks.pid = pg_stat_activity.pid and locktype = 'advisory'
  where application_name like '%keeps the server'`;

/** Waits until the server is back, and is used so. */
function expectUse(url: string, use: { owners: number; sessions: number }): Promise<void> {
  return vi.waitFor(async () => expect(await sql(url, owners)).toEqual([use]), { timeout: 20_000, interval: 50 });
}

const pidFile = () => join(dataDir, 'postgres', 'postmaster.pid');

async function runningPid(): Promise<number | undefined> {
  const text = await readFile(pidFile(), 'utf8').catch(() => '');
  return Number.parseInt(text, 10) || undefined;
}

/** A zombie counts as ended: an orphan may wait for the machine's first process to reap it. */
function isAlive(pid: number): boolean {
  return /^[^Z\s]/.test(spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).stdout);
}

async function killServer(): Promise<void> {
  const pid = Number(await runningPid());
  process.kill(pid, 'SIGKILL');
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 5_000, interval: 10 });
}

describe('the first start', () => {
  it('makes a durable UTF-8 server for this machine only, with its password in a private file', async () => {
    const { url } = await start(false);
    expect(
      await sql(
        url,
        `select current_setting('fsync') as fsync, current_setting('full_page_writes') as pages,
           current_setting('synchronous_commit') as commits, current_setting('listen_addresses') as listens,
           current_setting('unix_socket_directories') as sockets, current_setting('server_encoding') as encoding,
           datlocprovider as provider, datlocale as locale, upper('éж') as upper
         from pg_database where datname = current_database()`,
      ),
    ).toEqual([
      {
        fsync: 'on',
        pages: 'on',
        commits: 'on',
        listens: '127.0.0.1',
        sockets: '',
        encoding: 'UTF8',
        provider: 'b',
        locale: 'C.UTF-8',
        upper: 'ÉЖ',
      },
    ]);
    expect(new URL(url).hostname).toBe('127.0.0.1');
    expect((await stat(join(dataDir, 'postgres.secret'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(dataDir, 'postgres'))).mode & 0o777).toBe(0o700);
    expect((await readdir(dataDir)).sort()).toEqual(['postgres', 'postgres.log', 'postgres.secret']);
    const wrong = new URL(url);
    wrong.password = 'guess';
    await expect(sql(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' });
  });

  it('can be killed at any time; the next one removes what it left and succeeds', async () => {
    const child = spawnUser();
    await vi.waitFor(
      async () => {
        const [unfinished] = (await readdir(dataDir)).filter((name) => name.startsWith('.postgres-new-'));
        expect(await readdir(join(dataDir, String(unfinished), 'data'))).toContain('base');
      },
      { timeout: 20_000, interval: 5 },
    );
    await killGroup(child);
    expect(await readdir(dataDir)).not.toContain('postgres');
    const { url } = await start();
    expect(await sql(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect((await readdir(dataDir)).sort()).toEqual(['postgres', 'postgres.log', 'postgres.secret']);
  });

  it.runIf(isRoot)("runs as another user than root in a folder of root's that this user cannot enter", async () => {
    expect(await stat(parent)).toMatchObject({ uid: 0, mode: 0o40700 });
    const { url } = await start();
    await sql(url, 'create table kept (x int); insert into kept values (1); checkpoint; select pg_reload_conf()');
    const pid = await runningPid();
    expect((await stat(`/proc/${pid}`)).uid).not.toBe(0);
    expect(await stat(parent)).toMatchObject({ uid: 0, mode: 0o40700 });
    await Promise.all(started.map((each) => each.stop()));
    expect(await sql((await start()).url, 'select x from kept')).toEqual([{ x: 1 }]);
  });

  it('refuses to trade safety for speed outside a folder for tests', async () => {
    const elsewhere = join(parent, 'data');
    await expect(startEmbeddedPostgres({ dataDir: elsewhere, log: silentLogger, scratch: true })).rejects.toThrow(
      /for tests/,
    );
    expect(await readdir(parent)).toEqual([]);
  });
});

describe('processes that use one data directory', () => {
  it('that start at once all use the same server, and its owner ends it', async () => {
    const others = [spawnUser(), spawnUser(), spawnUser()];
    const [here, alsoHere, ...urls] = await Promise.all([start(), start(), ...others.map(urlOf)]);
    expect(new Set([here.url, alsoHere.url, ...urls]).size).toBe(1);
    const pid = Number(await runningPid());
    expect(await sql(here.url, owners)).toEqual([{ owners: 1, sessions: 5 }]);
    for (const child of children) {
      child.stdin.write('\n');
      await once(child, 'exit');
    }
    // Whether one of them was the owner, or one of ours is.
    await expectUse(here.url, { owners: 1, sessions: 2 });
    await Promise.all([here.stop(), alsoHere.stop()]);
    expect(isAlive(pid)).toBe(false);
    expect(await runningPid()).toBeUndefined();
  });

  it('keep it when a user stops; when the owner stops, a user that goes on owns one at the same address', async () => {
    const owner = await start();
    const first = Number(await runningPid());
    const user = await start();
    await (await start()).stop();
    expect(await runningPid()).toBe(first);
    await sql(user.url, 'create table kept (x int)');
    await owner.stop();
    expect(isAlive(first)).toBe(false);
    await expectUse(user.url, { owners: 1, sessions: 1 });
    expect(await sql(user.url, 'select x from kept')).toEqual([]);
    await user.stop();
    expect(await runningPid()).toBeUndefined();
  });

  it('that start and stop at the same moments never see a start fail', async () => {
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let round = 0; round < 5; round++) await (await start()).stop();
      }),
    );
    expect(await runningPid()).toBeUndefined();
  });

  it('get the server back under the same address when it was killed', async () => {
    const server = await start();
    const database = createDatabase({ url: server.url, log: silentLogger, applicationName: 'test' });
    await database.query('create table kept (x int)');
    await killServer();
    await vi.waitFor(async () => expect(await database.query('select x from kept')).toEqual([]), {
      timeout: 20_000,
      interval: 50,
    });
    await database.close();
    await server.stop();
    expect(await runningPid()).toBeUndefined();
  });
});

describe('after a crash', () => {
  it('of the owner and its group, the server runs on, and the next start owns it', async () => {
    const child = spawnUser();
    const url = await urlOf(child);
    const pid = Number(await runningPid());
    await sql(url, 'create table kept (x int); insert into kept values (1)');
    await killGroup(child);
    expect(isAlive(pid)).toBe(true);
    const server = await start();
    expect(server.url).toBe(url);
    expect(await runningPid()).toBe(pid);
    expect(await sql(server.url, 'select x from kept')).toEqual([{ x: 1 }]);
    await server.stop();
    expect(isAlive(pid)).toBe(false);
  });

  it('of the owner, a user that is the last to stop ends the server', async () => {
    const child = spawnUser();
    await urlOf(child);
    const user = await start();
    const pid = Number(await runningPid());
    await killGroup(child);
    await expectUse(user.url, { owners: 0, sessions: 1 });
    await user.stop();
    // Its parent was killed: whoever has it now takes a moment to notice its end.
    await expect.poll(() => isAlive(pid)).toBe(false);
  });

  it('of the process and the server, the next start recovers what was committed', async () => {
    const child = spawnUser();
    await sql(await urlOf(child), 'create table kept (x int); insert into kept select generate_series(1, 1000)');
    await killGroup(child);
    await killServer();
    expect(await runningPid()).toBeDefined();
    expect(await sql((await start()).url, 'select count(*)::int as rows from kept')).toEqual([{ rows: 1000 }]);
  });

  it('a pid file whose pid belongs to another program by now is not trusted, and that program is left alone', async () => {
    const first = await start();
    await copyFile(pidFile(), join(parent, 'stale.pid'));
    await first.stop();
    // It runs as the server's user, so PostgreSQL itself would take it for a server.
    const { uid, gid } = await stat(join(dataDir, 'postgres'));
    const stranger = spawn('sleep', ['600'], { cwd: '/', ...(isRoot ? { uid, gid } : {}) });
    children.push(stranger);
    await once(stranger, 'spawn');
    const [, ...rest] = (await readFile(join(parent, 'stale.pid'), 'utf8')).split('\n');
    await writeFile(pidFile(), [stranger.pid, ...rest].join('\n'), { mode: 0o600 });
    if (isRoot) await chown(pidFile(), uid, gid);
    const server = await start();
    expect(await sql(server.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(await runningPid()).not.toBe(stranger.pid);
    await server.stop();
    expect({ exitCode: stranger.exitCode, signalCode: stranger.signalCode }).toEqual({
      exitCode: null,
      signalCode: null,
    });
    const ended = once(stranger, 'exit');
    stranger.kill();
    await ended;
  });

  it('of the machine, an empty pid file does not keep the server from starting', async () => {
    await (await start()).stop();
    await writeFile(pidFile(), '');
    const minuteAgo = Date.now() / 1000 - 60;
    await utimes(pidFile(), minuteAgo, minuteAgo);
    expect(await sql((await start()).url, 'select 1 as one')).toEqual([{ one: 1 }]);
  });
});

describe('a start that cannot succeed', () => {
  it("says why, with the last lines of the server's log", async () => {
    await (await start()).stop();
    await appendFile(join(dataDir, 'postgres', 'postgresql.conf'), '\nno_such_setting = 1\n');
    await expect(start()).rejects.toThrow(/does not start over .*(\n.*)*no_such_setting/);
  });

  it('because the password file is gone says so, and makes no new one', async () => {
    await (await start()).stop();
    await rm(join(dataDir, 'postgres.secret'));
    await expect(start()).rejects.toThrow(/postgres\.secret.* is missing\. Restore it/);
    expect(await readdir(dataDir)).not.toContain('postgres.secret');
  });
});

it('a start renames the log when it has grown large', async () => {
  await mkdir(dataDir, { recursive: true });
  await writeFile(join(dataDir, 'postgres.log'), Buffer.alloc(10 * 1024 * 1024 + 1, 'x'));
  await start();
  expect((await stat(join(dataDir, 'postgres.log'))).size).toBeLessThan(100_000);
  expect((await stat(join(dataDir, 'postgres.log.1'))).size).toBe(10 * 1024 * 1024 + 1);
});
