/**
 * The pool of connections to one PostgreSQL database. A connection is made when it is needed, so creating the pool
 * succeeds while the server is down. A broken connection is closed and never lent again, and none of them ends the
 * process with an `error` event that has no listener.
 */
import { type ClientBase, Pool, type PoolClient } from 'pg';
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { cannotConnect } from './connection-errors.ts';
import { databasePlace, parseDatabaseUrl } from './database-url.ts';
import { sqlTypes } from './sql-types.ts';

const connectTimeoutMs = 10_000;
const keepAliveAfterMs = 30_000;
/** A process that hangs in the middle of a transaction keeps its locks for this long at most. */
const idleInTransactionMs = 60_000;
const poolDefaultMax = 6;

/** A connection while it is lent out. */
export interface Connection {
  readonly client: PoolClient;
  /** `host:port/database`, for messages. */
  readonly place: string;
  /** Has the connection closed, instead of reused, when `use` ends. */
  readonly discard: () => void;
}

export interface ConnectionPool {
  /**
   * Lends a connection for as long as `use` runs, and returns what `use` returns. A connection that broke meanwhile is
   * closed. Rejects with `unavailable` when no connection can be made.
   */
  withConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T>;
  /** Waits for the connections that are lent out and closes all of them. May be called more than once. */
  close(): Promise<void>;
}

export interface PoolOptions {
  readonly url: string;
  readonly log: Logger;
  readonly applicationName: string;
  readonly poolMax?: number;
  /** The server ends a statement that takes longer. */
  readonly statementMs?: number;
  /** Who waits for a connection that is lent now: when this aborts, the connection is closed, and its statement ends. */
  readonly waiter?: () => AbortSignal | undefined;
}

/** Creates a pool of up to `poolMax` (6) connections. Throws an `internal` AppError when the URL cannot be read. */
export function createConnectionPool(options: PoolOptions): ConnectionPool {
  const { log, statementMs, waiter } = options;
  const url = parseDatabaseUrl(options.url);
  const place = databasePlace(url);
  const setUp: (client: ClientBase) => unknown = async (client) => {
    // The pool listens to idle connections only. One that breaks at any other time fails its next statement, and the pool
    // takes none back that is broken.
    client.on('error', () => undefined);
    await client.query(sessionSettings);
    if (statementMs !== undefined) await client.query(limitedSession, [String(statementMs)]);
    // Without it the server would finish the statement of a connection that was closed. A server on a system that cannot
    // notice that refuses it.
    if (waiter) await client.query(noticingSession).catch(() => undefined);
  };
  const pool = new Pool({
    connectionString: url.href,
    application_name: options.applicationName,
    max: options.poolMax ?? poolDefaultMax,
    // A statement is sent while the one before it is under way. The driver closes such a connection only when all that
    // was sent is answered.
    pipeline: waiter === undefined,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
    types: sqlTypes,
    // The pool awaits it, which its types do not say.
    onConnect: setUp,
  });
  // The pool drops an idle connection that breaks. Without a listener the event would end the process.
  let isLost = false;
  pool.on('error', (error) => {
    if (!isLost) log.warn({ error: errorText(error), database: place }, 'the connection to the database was lost');
    isLost = true;
  });
  let closing: Promise<void> | undefined;

  async function connect(): Promise<PoolClient> {
    try {
      const client = await pool.connect();
      if (isLost) log.info({ database: place }, 'the database answers again');
      isLost = false;
      return client;
    } catch (error) {
      throw cannotConnect(place, error);
    }
  }

  return {
    async withConnection(use) {
      const signal = waiter?.();
      signal?.throwIfAborted();
      const client = await connect();
      if (signal?.aborted) {
        client.release();
        throw signal.reason;
      }
      const leave = () => client.release(true);
      signal?.addEventListener('abort', leave, { once: true });
      let discarded = false;
      const discard = () => {
        discarded = true;
      };
      try {
        return await use({ client, place, discard });
      } finally {
        signal?.removeEventListener('abort', leave);
        if (!signal?.aborted) client.release(discarded);
      }
    },
    close: () => {
      closing ??= pool.end();
      return closing;
    },
  };
}

/**
 * What each session is set to, before it is lent: the startup packet would do, but poolers do not pass its options on.
 * A database may be set to commit without its disk; what was answered, or sent to an ERP, must be on the disk: only
 * statements that can do without it say so themselves (`withoutFlush`). Stronger settings, as `remote_apply`, stay, and so
 * does a time limit that the URL, the role or the database has.
 */
const sessionSettings = `select set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false),
  set_config('idle_in_transaction_session_timeout', case current_setting('idle_in_transaction_session_timeout')
    when '0' then '${idleInTransactionMs}' else current_setting('idle_in_transaction_session_timeout') end, false),
  set_config('synchronous_commit', case current_setting('synchronous_commit')
    when 'off' then 'on' else current_setting('synchronous_commit') end, false)`;

const limitedSession = `select set_config('statement_timeout', $1, false)`;
const noticingSession = `select set_config('client_connection_check_interval', '500', false)`;
