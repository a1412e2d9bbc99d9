/**
 * A new, migrated database for a test in milliseconds: a copy of a template that is made once per run. Copies that a
 * test file leaves behind are dropped when it ends.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, escapeIdentifier } from 'pg';
import { inject } from 'vitest';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { parseDatabaseUrl } from '#platform/database/database-url.ts';
import { migrate } from '#platform/database/migrations.ts';
import { silentLogger } from '#platform/log.ts';
import { closeAtEnd } from './close-at-end.ts';

export interface TestDatabase {
  readonly url: string;
  readonly database: Database;
  /** Closes `database` and drops it, even while other clients are connected. May be called more than once. */
  drop(): Promise<void>;
}

const sources = join(import.meta.dirname, '..', '..', 'src');
const migrated = ['service', 'bridge'].map((schema) => ({ schema, directory: join(sources, schema, 'migrations') }));

/** Creates a database with the schemas of the service and the bridge, both empty. Rejects when a migration fails. */
export async function createTestDatabase(options: { poolMax?: number } = {}): Promise<TestDatabase> {
  return asAdmin(async (admin) => {
    const template = await findOrMakeTemplate(admin);
    return copyDatabase(admin, template, options);
  });
}

/** Creates an empty database. */
export async function createEmptyDatabase(options: { poolMax?: number } = {}): Promise<TestDatabase> {
  return asAdmin((admin) => copyDatabase(admin, 'template0', options));
}

/** Creates a copy of the database with this URL, as a backup holds it. Nobody may be connected to it. */
export async function copyTestDatabase(url: string): Promise<TestDatabase> {
  return asAdmin((admin) => copyDatabase(admin, new URL(url).pathname.slice(1), {}));
}

async function copyDatabase(admin: Client, template: string, options: { poolMax?: number }): Promise<TestDatabase> {
  const name = `${inject('databasePrefix')}${randomBytes(8).toString('hex')}`;
  await admin.query(
    `create database ${escapeIdentifier(name)} template ${escapeIdentifier(template)} strategy ${await strategy(admin)}`,
  );
  const url = urlOf(name);
  const database = createDatabase({ url, log: silentLogger, applicationName: 'test', ...options });
  let dropped: Promise<void> | undefined;
  const created: TestDatabase = {
    url,
    database,
    drop: () => {
      dropped ??= (async () => {
        await database.close();
        await asAdmin((admin) => admin.query(`drop database if exists ${escapeIdentifier(name)} with (force)`));
      })();
      return dropped;
    },
  };
  closeAtEnd(() => created.drop());
  return created;
}

/**
 * Copying the files is a quarter of the work of logging each page, but it needs two checkpoints: these are cheap
 * without fsync, and expensive on a server with fsync.
 */
async function strategy(admin: Client): Promise<string> {
  const [row] = (await admin.query<{ fsync: string }>(`select current_setting('fsync') as fsync`)).rows;
  return row?.fsync === 'off' ? 'file_copy' : 'wal_log';
}

/**
 * Returns the name of the template, which holds a hash of the migrations. The template gets this name when it is
 * finished and has no connections: PostgreSQL does not copy a database that is in use.
 */
async function findOrMakeTemplate(admin: Client): Promise<string> {
  const name = `${inject('databasePrefix')}template_${await hashMigrations()}`;
  if (await exists(admin, name)) return name;
  await admin.query('select pg_advisory_lock(hashtextextended($1, 0))', [name]);
  if (await exists(admin, name)) return name;
  const unfinished = `${name}_new`;
  await admin.query(`drop database if exists ${escapeIdentifier(unfinished)} with (force)`);
  await admin.query(`create database ${escapeIdentifier(unfinished)} template template0`);
  const database = createDatabase({ url: urlOf(unfinished), log: silentLogger, applicationName: 'test' });
  try {
    for (const each of migrated) if (await listFiles(each.directory)) await migrate(database, each);
  } finally {
    await database.close();
  }
  await admin.query(`alter database ${escapeIdentifier(unfinished)} rename to ${escapeIdentifier(name)}`);
  return name;
}

async function exists(admin: Client, name: string): Promise<boolean> {
  return (await admin.query('select 1 from pg_database where datname = $1', [name])).rows.length > 0;
}

async function hashMigrations(): Promise<string> {
  const hash = createHash('sha256');
  for (const { schema, directory } of migrated)
    for (const file of (await listFiles(directory)) ?? [])
      hash.update(`${schema}/${file}\0`).update(await readFile(join(directory, file)));
  return hash.digest('hex').slice(0, 12);
}

/** The names in a folder, sorted; undefined when there is no such folder. */
async function listFiles(directory: string): Promise<string[] | undefined> {
  const names = await readdir(directory).catch(() => undefined);
  return names?.sort();
}

function urlOf(name: string): string {
  const url = parseDatabaseUrl(inject('databaseUrl'));
  url.pathname = `/${name}`;
  return url.href;
}

/** Lends a session on the server. Its end also releases the advisory lock that it may hold. */
async function asAdmin<T>(use: (admin: Client) => Promise<T>): Promise<T> {
  const admin = new Client({ connectionString: inject('databaseUrl') });
  await admin.connect();
  try {
    return await use(admin);
  } finally {
    await admin.end();
  }
}
