/**
 * Opens the installation's database: the PostgreSQL server that the configuration names, or the embedded one.
 */
import pRetry from 'p-retry';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { tlsAdvice } from './connection-errors.ts';
import { createDatabase, type Database } from './database.ts';
import { startEmbeddedPostgres } from './embedded-postgres.ts';
import type { Sql } from './sql.ts';

export interface OpenDatabase {
  readonly database: Database;
  /** For parts that open connections of their own; holds the password. */
  readonly url: string;
  readonly kind: 'server' | 'embedded';
  /** Closes the connections; the embedded server stops when no other process uses it. */
  close(): Promise<void>;
}

const versionMin = 15;

/**
 * With `url`: connects to that server, which must be PostgreSQL 15 or newer with a UTF-8 database. The server may still
 * be starting, so this tries for 15 seconds. Without `url`: starts the embedded server over `dataDir`. Throws an
 * AppError that says what is wrong, `unavailable` when the server does not answer; then nothing stays open.
 */
export async function openDatabase(options: {
  url: string | undefined;
  dataDir: string;
  log: Logger;
  applicationName: string;
  poolMax?: number;
  /** Ends the attempts to reach a server that does not answer. */
  signal?: AbortSignal;
}): Promise<OpenDatabase> {
  const { dataDir, log, signal, ...forDatabase } = options;
  if (options.url !== undefined) {
    const database = createDatabase({ ...forDatabase, log, url: options.url });
    try {
      await checkServer(database, signal);
    } catch (error) {
      await database.close();
      throw tlsMistake(error) ?? error;
    }
    return { database, url: options.url, kind: 'server', close: () => database.close() };
  }
  const server = await startEmbeddedPostgres({ dataDir, log });
  const database = createDatabase({ ...forDatabase, log, url: server.url });
  return {
    database,
    url: server.url,
    kind: 'embedded',
    close: async () => {
      await database.close();
      await server.stop();
    },
  };
}

/** What a program that starts says of TLS that does not fit: its settings are wrong, and waiting does not help. */
function tlsMistake(error: unknown): AppError | undefined {
  if (!(error instanceof AppError) || tlsAdvice(error.cause) === undefined) return undefined;
  return new AppError('invalid', `${error.message} (DATABASE_URL)`, { cause: error });
}

/**
 * Throws an AppError where two connections share a backend: a pooler in transaction mode. Its sessions
 * keep the prepared statements of one process and lend them to others, and LISTEN hears nothing there.
 */
async function refuseSharedSessions(database: Database): Promise<void> {
  const pidOf = async (sql: Sql) => (await sql.query<{ pid: number }>('select pg_backend_pid() as pid'))[0]?.pid;
  const isShared = await database.session(async (one) => {
    const first = await pidOf(one);
    const second = await database.session(pidOf);
    return first === second || first !== (await pidOf(one));
  });
  if (isShared)
    throw new AppError(
      'internal',
      'DATABASE_URL leads through a pooler that shares sessions (pool_mode transaction or statement), and the programs ' +
        'need sessions of their own (for prepared statements and LISTEN). Set pool_mode = session for this database in the pooler, or name the PostgreSQL ' +
        'server itself.',
    );
}

async function checkServer(database: Database, signal: AbortSignal | undefined): Promise<void> {
  const [server] = await pRetry(
    () =>
      database.query<{ number: number; version: string; encoding: string }>(
        `select current_setting('server_version_num')::int as number, current_setting('server_version') as version,
           current_setting('server_encoding') as encoding`,
      ),
    {
      retries: 100,
      minTimeout: 200,
      maxTimeout: 2_000,
      maxRetryTime: 15_000,
      ...(signal && { signal }),
      shouldRetry: ({ error }) =>
        error instanceof AppError && error.code === 'unavailable' && error.recovery.do === 'retry',
    },
  );
  await refuseSharedSessions(database);
  if (server && server.number < versionMin * 10_000)
    throw new AppError(
      'internal',
      `The database server is PostgreSQL ${server.version}; ${versionMin} or newer is needed. Upgrade it, or leave ` +
        'DATABASE_URL unset to use the embedded one.',
    );
  if (server && server.encoding !== 'UTF8')
    throw new AppError(
      'internal',
      `The database's encoding is ${server.encoding}; UTF8 is needed. Make one with: create database … encoding 'UTF8' ` +
        'template template0',
    );
}
