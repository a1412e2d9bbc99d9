/**
 * A PostgreSQL database behind two calls: one statement, or one transaction. Sessions run in UTC; how values arrive is
 * told in sql-types.ts. A database that cannot be reached shows as an AppError `unavailable`, which the API answers
 * with 503; what the server itself refuses (a broken constraint, say) is the driver's DatabaseError with its SQLSTATE in
 * `code`. No message holds the URL's password.
 */
import { createHash } from 'node:crypto';
import pRetry from 'p-retry';
import { DatabaseError, Pool, type PoolClient, type QueryResult } from 'pg';
import { AppError, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { CopyIn } from './copy-in.ts';
import { sqlTypes } from './sql-types.ts';

export interface Sql {
  /**
   * Runs one statement and gives its rows. `$1` stands for the first of `params`; a JavaScript array becomes an SQL
   * array, so one meant as JSON is given as text. Without params the text may hold several statements.
   */
  query<Row extends object>(statement: string | PreparedStatement, params?: readonly unknown[]): Promise<Row[]>;
  /** Adds rows, made by `copyRows`, to a table: `into` is its name and the list of columns. One that is there is an error. */
  copy(into: string, rows: Buffer): Promise<void>;
}

export interface Database extends Sql {
  /**
   * Runs `work` in one transaction (READ COMMITTED) and commits; when `work` throws it is rolled back and the error
   * goes on. After a serialization failure or a deadlock (40001, 40P01), which the server has rolled back, all of
   * `work` runs again, up to five times in all. A connection lost during COMMIT leaves the outcome unknown: that is
   * never run again here, but thrown as `unavailable`.
   */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
  /**
   * Lends one connection for as long as `use` runs, outside of a transaction: for locks that a session holds. The
   * connection is closed, and its locks are gone, when `use` throws.
   */
  session<T>(use: (session: Sql) => Promise<T>): Promise<T>;
  /** Waits for the running statements and closes every connection. May be called more than once. */
  close(): Promise<void>;
}

/** A statement that each connection plans once; for the few that run thousands of times. */
export interface PreparedStatement {
  readonly name: string;
  readonly text: string;
}

const connectTimeoutMs = 10_000;
const keepAliveAfterMs = 30_000;
const idleInTransactionMs = 60_000;
const unavailableText = 'The database is not available at the moment; try again shortly.';

/** Makes a statement that is prepared once per connection. Its name comes from its text, so that two cannot collide. */
export function prepared(text: string): PreparedStatement {
  return { name: createHash('sha256').update(text).digest('base64url').slice(0, 32), text };
}

/**
 * Opens a pool of up to `poolMax` (10) connections, made when they are needed: this succeeds even when the server is
 * away. Throws an `internal` AppError when the URL is not one of PostgreSQL's.
 */
export function createDatabase(options: {
  url: string;
  log: Logger;
  applicationName: string;
  poolMax?: number;
}): Database {
  const { log } = options;
  const url = parseDatabaseUrl(options.url);
  const place = `${url.host || url.searchParams.get('host') || 'localhost'}${url.pathname}`;
  // In the startup packet and last, so that neither the role's settings, nor the database's, nor the URL's override it.
  // A process that stands still in the middle of a transaction keeps its locks no longer than that.
  const idleMs = `-c idle_in_transaction_session_timeout=${idleInTransactionMs}`;
  const sessionOptions = [idleMs, url.searchParams.get('options'), '-c TimeZone=UTC -c DateStyle=ISO'];
  url.searchParams.set('options', sessionOptions.filter(Boolean).join(' '));
  const pool = new Pool({
    connectionString: url.href,
    application_name: options.applicationName,
    max: options.poolMax ?? 10,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
    types: sqlTypes,
  });
  // An idle connection that breaks is dropped by the pool; unheard, the event would end the process.
  pool.on('error', (err) => log.warn({ err, database: place }, 'an idle database connection was lost'));
  // The server's goodbye may come in one packet with its welcome: before whoever asked for the connection can listen to it.
  pool.on('connect', (client) => client.on('error', () => undefined));
  let closing: Promise<void> | undefined;

  async function connect(): Promise<PoolClient> {
    try {
      return await pool.connect();
    } catch (error) {
      throw unreachable(place, error);
    }
  }

  const told = (error: unknown) => (isConnectionError(error) ? unavailable(place, error) : error);

  async function run<Row extends object>(
    client: PoolClient,
    statement: string | PreparedStatement,
    params: readonly unknown[] | undefined,
  ): Promise<Row[]> {
    const query = typeof statement === 'string' ? { text: statement } : { ...statement };
    try {
      const result = await client.query<Row>(params ? { ...query, values: [...params] } : query);
      // Several statements in one text give an array of results, against the driver's types.
      return Array.isArray(result) ? [] : result.rows;
    } catch (error) {
      throw told(error);
    }
  }

  async function copy(client: PoolClient, into: string, rows: Buffer): Promise<void> {
    const text = `copy ${into} from stdin (format binary)`;
    try {
      await new Promise<void>((resolve, reject) => {
        client.query(new CopyIn(text, rows, (error) => (error ? reject(error) : resolve())));
      });
    } catch (error) {
      throw told(error);
    }
  }

  /** Lends a connection to `use`; one that broke meanwhile, or that `use` gave up, is closed rather than reused. */
  async function withClient<T>(use: (client: PoolClient, giveUp: () => void) => Promise<T>): Promise<T> {
    const client = await connect();
    let broken = false;
    const giveUp = () => {
      broken = true;
    };
    // The pool listens to idle connections only: one that breaks between two statements of a transaction is ours.
    client.on('error', giveUp);
    try {
      return await use(client, giveUp);
    } finally {
      client.removeListener('error', giveUp);
      client.release(broken);
    }
  }

  function attempt<T>(work: (tx: Sql) => Promise<T>): Promise<T> {
    return withClient(async (client, giveUp) => {
      let ended = false;
      const refuseLate = () => {
        if (ended) throw new AppError('internal', 'A statement was sent after its transaction had ended.');
      };
      const tx: Sql = {
        query: async (statement, params) => {
          refuseLate();
          return run(client, statement, params);
        },
        copy: async (into, rows) => {
          refuseLate();
          return copy(client, into, rows);
        },
      };
      await run(client, 'begin', undefined);
      let result: T;
      try {
        result = await work(tx);
      } catch (error) {
        ended = true;
        await client.query('rollback').catch(giveUp);
        throw error;
      }
      ended = true;
      await commit(client, giveUp);
      return result;
    });
  }

  async function commit(client: PoolClient, giveUp: () => void): Promise<void> {
    let ended: QueryResult;
    try {
      ended = await client.query('commit');
    } catch (error) {
      giveUp();
      if (!isConnectionError(error)) throw error;
      throw unavailable(place, error, 'the connection was lost during COMMIT, so that the outcome is unknown');
    }
    // PostgreSQL answers COMMIT with success and ROLLBACK when a statement has failed before.
    if (ended.command !== 'COMMIT')
      throw new AppError('internal', 'The transaction was rolled back: a failed statement was passed over in it.');
  }

  return {
    query: (statement, params) => withClient((client) => run(client, statement, params)),
    copy: (into, rows) => withClient((client) => copy(client, into, rows)),
    transaction: (work) =>
      pRetry(() => attempt(work), {
        retries: 4,
        minTimeout: 20,
        maxTimeout: 500,
        factor: 3,
        randomize: true,
        shouldRetry: ({ error }) => wasRolledBackByServer(error),
      }),
    session: (use) =>
      withClient(async (client, giveUp) => {
        try {
          return await use({
            query: (statement, params) => run(client, statement, params),
            copy: (into, rows) => copy(client, into, rows),
          });
        } catch (error) {
          giveUp();
          throw error;
        }
      }),
    close: () => {
      closing ??= pool.end();
      return closing;
    },
  };
}

/** Reads a `postgres://` URL; throws an `internal` AppError that does not repeat it, since it may hold a password. */
export function parseDatabaseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'postgres:' || url?.protocol === 'postgresql:') return url;
  throw new AppError(
    'internal',
    'The database URL cannot be read. It must look like postgres://user:password@host:5432/database, and characters ' +
      'such as @ / # ? in the password must be percent-encoded.',
  );
}

/** Only these two: with them the server says that it has undone everything. */
function wasRolledBackByServer(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof DatabaseError && (each.code === '40001' || each.code === '40P01')) return true;
  return false;
}

function isConnectionError(error: unknown): boolean {
  if (error instanceof DatabaseError) {
    // 08 connection, 53 out of connections, memory or disk, 57P0x shut down, 57014 timed out, 25006 on a standby, 25P03
    // idle in a transaction for too long.
    return /^(08|53|57P0|57014|25006|25P03)/.test(error.code ?? '');
  }
  if (!(error instanceof Error)) return false;
  if ('syscall' in error) return true;
  // The driver has no class of its own for these.
  return /Connection terminated|connection error|connection is closed|read timeout|timeout exceeded|Client was closed/i.test(
    error.message,
  );
}

function unavailable(place: string, cause: unknown, what = 'the connection was lost'): AppError {
  return new AppError('unavailable', unavailableText, {
    message: `Database ${place}: ${what}: ${reason(cause)}`,
    cause,
  });
}

/** A refused login or a missing database does not heal by itself: a person must change the settings. */
function unreachable(place: string, cause: unknown): AppError {
  const isConfiguration = cause instanceof DatabaseError && /^(28|3D)/.test(cause.code ?? '');
  return new AppError('unavailable', unavailableText, {
    message: `Database ${place}: cannot connect: ${reason(cause)}`,
    cause,
    ...(isConfiguration ? { recovery: { do: 'halt' } } : {}),
  });
}

/** Node's error for a host with several addresses has no text of its own. */
function reason(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(errorText).join('; ') : errorText(error);
}
