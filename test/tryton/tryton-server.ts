/**
 * A real Tryton server as a child process. Its databases are copies of a template that is prepared once; it serves each
 * of them at `/<name>/`. The server ends with the process that started it, even if that process is killed.
 *
 * Each database contains what seed_erp.py creates:
 * - a company `Buyer GmbH` in EUR, with a chart of accounts; currencies EUR, USD, GBP, CHF (2 decimals) and JPY (none),
 *   with rates; the warehouse `WH`; countries DE, FR, JP, US;
 * - units: Tryton's own, such as `u` (Unit, no decimals), `kg`, `m`, `h` (two decimals), and `ud` (Unit with decimals:
 *   four), which has the same category as `u`;
 * - products by code, all purchasable: `LOT` (u, for lots that name no product), `BOLT-M8` (u), `STEEL` (kg), `CABLE`
 *   (m) and `WORK` (h, a service);
 * - parties by code: the suppliers `V-1001`, `V-1002`, `V-1003` with address, e-mail address and (except for the last)
 *   `eu_vat` number; `BUYER`, the company; `REQUESTER`, an employee;
 * - the users of `trytonUsers`.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, mkdtemp, readdir, readFile, rm, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client, escapeIdentifier } from 'pg';
import { freePort } from '../harness/free-port.ts';
import { findScratchRoot } from '../harness/scratch-root.ts';
import type { Tryton } from './install-tryton.ts';
import { logIn, type TrytonClient } from './tryton-rpc.ts';

const run = promisify(execFile);

/** The users of each database. */
export const trytonUsers = {
  /** Administrator of everything. */
  admin: { login: 'admin', password: 'admin-password' },
  /** The connector's user, with the groups Purchase, Purchase Request, Purchase Requisition and its Approval. */
  connector: { login: 'connector', password: 'connector-password' },
  /** May read parties, purchases, requests, quotations, requisitions and attachments, but not change them. */
  reader: { login: 'reader', password: 'reader-password' },
  /** An employee who creates and approves purchase requisitions. */
  requester: { login: 'requester', password: 'requester-password' },
} as const;

export interface TrytonDatabase {
  readonly name: string;
  /** The address of its JSON-RPC, with a slash at the end. */
  readonly url: string;
  /** Opens a new session, for what a test itself does and reads in Tryton. */
  logIn(user: keyof typeof trytonUsers): Promise<TrytonClient>;
  /** Makes all sessions of that user too old: Tryton refuses them from now on. The password stays valid. */
  expireSessions(user: keyof typeof trytonUsers): Promise<void>;
  /** Deletes the database. */
  drop(): Promise<void>;
}

export interface TrytonServer {
  /** Such as http://127.0.0.1:4711; it stays the same after a restart. */
  readonly url: string;
  /** A text for users: `Tryton 6.0.29 on SQLite`. */
  readonly description: string;
  /**
   * Copies the template. The first request takes a second or more, because Tryton loads its modules for each database.
   */
  newDatabase(): Promise<TrytonDatabase>;
  /** What the server has logged so far, restarts included. */
  log(): string;
  /** `kill -9`. */
  kill(): Promise<void>;
  /** Starts the server again after `kill`, at the same address; resolves when it answers. */
  start(): Promise<void>;
  /** Sends SIGSTOP: the server exists, but does not answer until `resume`. */
  pause(): void;
  resume(): void;
  /** Ends the server and deletes its databases. The template stays for the next server. */
  stop(): Promise<void>;
  /** Deletes the template, too, if it is on a PostgreSQL server. */
  forget(): Promise<void>;
}

/** The database system of the server. */
export type TrytonBackend =
  | { readonly kind: 'sqlite' }
  /** A server's URL, whose user may create databases, and the prefix of their names. */
  | { readonly kind: 'postgresql'; readonly url: string; readonly prefix: string };

const startTimeoutMs = 60_000;
const pollMs = 20;
const here = import.meta.dirname;

/**
 * Creates the template that `newDatabase` copies, unless it exists; that takes 20 to 45 s. Two processes that call this
 * at the same time create it once. Returns the template's file or database name.
 */
export async function prepareTryton(tryton: Tryton, backend: TrytonBackend): Promise<string> {
  const name = `erp-${tryton.packages}-${await hashOfSeed()}`;
  const finished =
    backend.kind === 'sqlite' ? join(tryton.cacheFolder, `${name}.sqlite`) : `${backend.prefix}${name}`.slice(0, 55);
  const prepare = [tryton.python, '-s', join(here, 'prepare_erp.py'), tryton.admin, finished];
  // The lock belongs to the process and ends with it. On PostgreSQL, prepare_erp.py takes a lock in the database
  // instead.
  const lock = ['/usr/bin/flock', '-o', join(tryton.cacheFolder, 'prepare.lock')];
  const [command = '', ...args] = backend.kind === 'sqlite' ? [...lock, ...prepare] : prepare;
  const env = environmentOf(tryton, backend, tmpdir());
  await run(command, args, { env, maxBuffer: 64 * 1024 ** 2 });
  return finished;
}

/** Prepares the template and starts a server. Rejects, with the server's log, if it does not answer within a minute. */
export async function startTryton(tryton: Tryton, backend: TrytonBackend): Promise<TrytonServer> {
  const template = await prepareTryton(tryton, backend);
  // In memory if possible: each request is one or two transactions, and each of them would wait for the disk.
  const folder = await mkdtemp(join(await findScratchRoot(tmpdir()), 'sourcing-tryton-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = { ...environmentOf(tryton, backend, folder), TRYTOND_WEB__LISTEN: `127.0.0.1:${port}` };
  const names = new Set<string>();
  const lines: string[] = [];
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const started = spawn(tryton.python, ['-s', join(here, 'run_trytond.py'), tryton.trytond], {
      env,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    child = started;
    for (const output of [started.stdout, started.stderr])
      createInterface({ input: output }).on('line', (line) => lines.push(line));
    const giveUpMs = performance.now() + startTimeoutMs;
    while (!(await answers(url))) {
      if (started.exitCode !== null || started.signalCode !== null || performance.now() > giveUpMs)
        throw new Error(`Tryton did not start.\n${lines.slice(-30).join('\n')}`);
      await sleep(pollMs);
    }
  }

  async function kill(): Promise<void> {
    const ending = child;
    if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
    const closed = once(ending, 'close');
    ending.kill('SIGKILL');
    await closed;
  }

  function newName(): string {
    const name = `${backend.kind === 'sqlite' ? 'erp_' : backend.prefix}${randomBytes(6).toString('hex')}`;
    names.add(name);
    return name;
  }

  async function drop(name: string): Promise<void> {
    if (!names.delete(name)) return;
    if (backend.kind === 'sqlite') await unlink(join(folder, `${name}.sqlite`));
    else await inPostgres(backend, dropStatement(name));
  }

  await start().catch(async (error: unknown) => {
    await kill();
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  return {
    url,
    description: `Tryton ${tryton.version} on ${backend.kind === 'sqlite' ? 'SQLite' : 'PostgreSQL'}`,
    newDatabase: async () => {
      const name = newName();
      if (backend.kind === 'sqlite') await copyFile(template, join(folder, `${name}.sqlite`));
      else
        await inPostgres(backend, `create database ${escapeIdentifier(name)} template ${escapeIdentifier(template)}`);
      const address = `${url}/${name}/`;
      const open = (user: keyof typeof trytonUsers) =>
        logIn(address, trytonUsers[user].login, trytonUsers[user].password);
      return {
        name,
        url: address,
        logIn: open,
        expireSessions: async (user) => {
          const { login } = trytonUsers[user];
          const sessions = `create_uid = (select id from res_user where login = '${login}')`;
          const statement = `update ir_session set create_date = '2000-01-01 00:00:00' where ${sessions}`;
          if (backend.kind === 'sqlite') inSqlite(join(folder, `${name}.sqlite`), statement);
          else await inPostgres(backend, statement, name);
        },
        drop: () => drop(name),
      };
    },
    log: () => lines.join('\n'),
    kill,
    start,
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    stop: async () => {
      await kill();
      for (const name of names) await drop(name);
      await rm(folder, { recursive: true, force: true });
    },
    forget: async () => {
      if (backend.kind === 'postgresql') await inPostgres(backend, dropStatement(template));
    },
  };
}

const dropStatement = (name: string) => `drop database if exists ${escapeIdentifier(name)} with (force)`;

function environmentOf(tryton: Tryton, backend: TrytonBackend, folder: string): NodeJS.ProcessEnv {
  return {
    ...tryton.environment,
    TRYTOND_DATABASE__URI: backend.kind === 'sqlite' ? 'sqlite://' : uriOf(backend.url),
    TRYTOND_DATABASE__PATH: folder,
    TRYTOND_PASSWORD__LENGTH: '4',
    TRYTOND_PASSWORD__ENTROPY: '0',
    TRYTOND_PASSWORD__PASSLIB: join(here, 'passlib.ini'),
  };
}

/** Switches JIT off: PostgreSQL would compile most of Tryton's statements, which takes longer than running them. */
function uriOf(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  url.protocol = 'postgresql:';
  url.pathname = '/';
  url.searchParams.set('options', '-cjit=off');
  return url.href;
}

function inSqlite(file: string, statement: string): void {
  const database = new DatabaseSync(file, { timeout: startTimeoutMs });
  try {
    database.exec(statement);
  } finally {
    database.close();
  }
}

/** Runs the statement in the database of the URL, or in the named one on the same server. */
async function inPostgres(backend: { url: string }, statement: string, name?: string): Promise<void> {
  const url = new URL(backend.url);
  if (name !== undefined) url.pathname = `/${name}`;
  const client = new Client({ connectionString: url.href });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Whether the server answers, whatever the answer is. */
async function answers(url: string): Promise<boolean> {
  // A server that accepts the connection but does not answer is asked again.
  return fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
    async (answer) => {
      await answer.body?.cancel();
      return true;
    },
    () => false,
  );
}

async function hashOfSeed(): Promise<string> {
  const hash = createHash('sha256');
  for (const name of (await readdir(here)).sort())
    if (/^((seed|prepare)_erp\.py|passlib\.ini)$/.test(name)) hash.update(await readFile(join(here, name)));
  return hash.digest('hex').slice(0, 12);
}
