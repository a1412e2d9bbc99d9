/**
 * A real Tryton server as a child process, with databases that are copies of one that was prepared once. It serves every
 * database of its own at `/<name>/`. It ends with the process that started it, however that one ends.
 *
 * What seed_erp.py puts into each database:
 * - a company `Buyer GmbH` in EUR, with a chart of accounts; currencies EUR, USD, GBP, CHF (2 decimals) and JPY (none), with
 *   rates; the warehouse `WH`; countries DE, FR, JP, US;
 * - units: Tryton's own, as `u` (Unit, no decimals), `kg`, `m`, `h` (two decimals), and `ud` (Unit with decimals: four), which
 *   is of the category of `u`;
 * - products by code, all purchasable: `LOT` (u: for lots that name no product), `BOLT-M8` (u), `STEEL` (kg), `CABLE` (m) and
 *   `WORK` (h, a service);
 * - parties by code: suppliers `V-1001`, `V-1002`, `V-1003` with address, e-mail address and (but the last) `eu_vat` number;
 *   `BUYER`, the company's own; `REQUESTER`, an employee's;
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

/** Each may log in to every database. */
export const trytonUsers = {
  /** Administrator of everything. */
  admin: { login: 'admin', password: 'admin-password' },
  /** A connector's: the groups Purchase, Purchase Request and Purchase Requisition Approval. */
  connector: { login: 'connector', password: 'connector-password' },
  /** May read parties, purchases, requests, quotations, requisitions and attachments, and change none of them. */
  reader: { login: 'reader', password: 'reader-password' },
  /** An employee, who makes purchase requisitions and approves them. */
  requester: { login: 'requester', password: 'requester-password' },
} as const;

export interface TrytonDatabase {
  readonly name: string;
  /** Where its JSON-RPC is, with the slash at the end. */
  readonly url: string;
  /** A session of its own, for what a test does and looks at beside the connector. */
  logIn(user: keyof typeof trytonUsers): Promise<TrytonClient>;
  /** Makes every session of that user too old: the ERP refuses them from now on, and the password stays. */
  expireSessions(user: keyof typeof trytonUsers): Promise<void>;
  /** Removes it with all it holds. */
  drop(): Promise<void>;
}

export interface TrytonServer {
  /** As http://127.0.0.1:4711, the same after a restart. */
  readonly url: string;
  /** For people: `Tryton 6.0.29 on SQLite`. */
  readonly description: string;
  /** The copy takes a moment; its first request a second or more, as Tryton loads its modules for each database anew. */
  newDatabase(): Promise<TrytonDatabase>;
  /** What it has logged so far, all its lives together. */
  log(): string;
  /** `kill -9`. */
  kill(): Promise<void>;
  /** Starts it again after `kill`, at the same address; resolves when it answers. */
  start(): Promise<void>;
  /** Stops every process of it as SIGSTOP does, so that it is there and silent, until `resume`. */
  pause(): void;
  resume(): void;
  /** Ends it for good and removes its databases; the one that they were copied from stays for the next. */
  stop(): Promise<void>;
  /** Removes that one too, where it is on a PostgreSQL server. */
  forget(): Promise<void>;
}

/** Where the databases are. */
export type TrytonBackend =
  | { readonly kind: 'sqlite' }
  /** A server's URL, as a user who may create databases, and how their names begin. */
  | { readonly kind: 'postgresql'; readonly url: string; readonly prefix: string };

const patienceMs = 60_000;
const pollMs = 20;
const here = import.meta.dirname;

/** Makes the database that `newDatabase` copies, unless it is there: 20 to 45 s. Two that need it at once make it once. */
export async function prepareTryton(tryton: Tryton, backend: TrytonBackend): Promise<string> {
  const name = `erp-${tryton.packages}-${await hashOfSeed()}`;
  const finished =
    backend.kind === 'sqlite' ? join(tryton.cacheFolder, `${name}.sqlite`) : `${backend.prefix}${name}`.slice(0, 55);
  const prepare = [tryton.python, '-s', join(here, 'prepare_erp.py'), tryton.admin, finished];
  // The lock is the process's: whatever ends it opens the lock. On PostgreSQL it takes one there.
  const lock = ['/usr/bin/flock', '-o', join(tryton.cacheFolder, 'prepare.lock')];
  const [command = '', ...args] = backend.kind === 'sqlite' ? [...lock, ...prepare] : prepare;
  const env = environmentOf(tryton, backend, tmpdir());
  await run(command, args, { env, maxBuffer: 64 * 1024 ** 2 });
  return finished;
}

/** Starts a server, with its template prepared. Rejects with what it logged when it does not answer within a minute. */
export async function startTryton(tryton: Tryton, backend: TrytonBackend): Promise<TrytonServer> {
  const template = await prepareTryton(tryton, backend);
  // On a disk each of Tryton's transactions waits for it, and each request is one or two.
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
    const giveUpMs = performance.now() + patienceMs;
    while (!(await answers(url))) {
      if (started.exitCode !== null || started.signalCode !== null || performance.now() > giveUpMs)
        throw new Error(`Tryton does not answer.\n${lines.slice(-30).join('\n')}`);
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

/** PostgreSQL would compile most of Tryton's statements, which takes it longer than to run them. */
function uriOf(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  url.protocol = 'postgresql:';
  url.pathname = '/';
  url.searchParams.set('options', '-cjit=off');
  return url.href;
}

function inSqlite(file: string, statement: string): void {
  const database = new DatabaseSync(file, { timeout: patienceMs });
  try {
    database.exec(statement);
  } finally {
    database.close();
  }
}

/** In the database that the URL names, or in another of that server. */
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

/** Whatever it answers: it is there. */
async function answers(url: string): Promise<boolean> {
  // One that took the connection and then says nothing is asked anew.
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
