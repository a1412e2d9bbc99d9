/**
 * Transactions on one database. Each ends soon after its signal aborts.
 *
 * When a client disappears, the server may still carry out a COMMIT that it was sent. So every writing transaction
 * first takes a shared advisory lock, and waits for the server's confirmation before it sends anything else. `lookup`
 * takes the same lock exclusively: it gets the lock once every transaction that could still commit has ended. A
 * transaction without the lock was never sent a COMMIT.
 */
import { createHash } from 'node:crypto';
import { Socket } from 'node:net';
import { Client, type ClientConfig, DatabaseError, Pool, type PoolClient, type QueryResult } from 'pg';
import { type Clock, type ConnectorLog, TransientError, UnknownOutcome } from 'sourcing-bridge/connector';
import type { Settings, Target } from './settings.ts';
import { connectorErrorOf, leavesCommitOpen } from './sql-errors.ts';

export interface Tx {
  /** Runs one statement with its parameters; without parameters the text may contain several statements. */
  query<Row extends object>(text: string, params?: readonly unknown[]): Promise<Row[]>;
}

export interface TransactionOptions {
  readonly signal?: AbortSignal | undefined;
  /** The advisory lock to take; `exclusive` waits until no other transaction holds it. */
  readonly lock?: { readonly name: string; readonly exclusive: boolean };
  /** A transaction that writes nothing, which a standby server allows, too. */
  readonly readOnly?: boolean;
}

export interface Connections {
  /** `host:port/database`, for messages. */
  readonly targetName: string;
  /**
   * Runs `work` and commits. Rethrows what `work` throws after a rollback, and an error that says that COMMIT failed.
   * Throws TransientError, AuthError or ConfigError when nothing was done, and UnknownOutcome when the connection was
   * lost during COMMIT.
   */
  transaction<T>(options: TransactionOptions, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** As `transaction`, for work that changes nothing: it throws TransientError instead of UnknownOutcome. */
  read<T>(options: TransactionOptions, work: (tx: Tx) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const connectTimeoutMs = 10_000;
/**
 * The limit for cancelling a statement and for closing. It is well below the time that the bridge allows for a stop.
 */
const stopStepMs = 1_000;
/** How long an aborted call waits for the answer to a COMMIT that it has sent. */
const commitMs = 250;
/** How long an aborted call waits for a cancelled statement; only a broken network takes longer. */
const cancelledMs = 50;
const idleInTransactionMs = 60_000;
/** Of the statements that begin a transaction, a server refuses only writing by it. */
const notSupported = '0A000';

/** A pool of at most `settings.connections` connections; it connects at the first use. */
export function createConnections(
  settings: Settings,
  target: Target,
  { clock, log }: { clock: Clock; log: ConnectorLog },
): Connections {
  const config: ClientConfig = {
    host: target.host,
    port: target.port,
    user: target.user,
    database: target.database,
    ...(target.password === undefined ? {} : { password: target.password }),
    ssl: target.ssl,
    application_name: 'sourcing-bridge',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 30_000,
  };
  /** All open sockets: `close` destroys them even when the driver's own close hangs. */
  const sockets = new Set<Socket>();
  class OwnClient extends Client {
    readonly socket: Socket;

    constructor() {
      const socket = new Socket();
      super({ ...config, stream: () => socket });
      this.socket = socket;
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      // A connection that breaks between two statements fails at the next one. Without a listener the event would end
      // the process.
      this.on('error', () => undefined);
    }
  }
  const pool = new Pool({ ...config, max: settings.connections, Client: OwnClient });
  pool.on('error', (error) => log.debug('an idle connection to PostgreSQL was lost', { error: error.message }));

  async function connect(signal: AbortSignal | undefined): Promise<PoolClient> {
    if (signal?.aborted) throw stopped();
    const connecting = pool.connect();
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = () => reject(stopped());
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([connecting, aborted]);
    } catch (error) {
      // The connection may still be made: return it to the pool.
      connecting.then((client) => client.release()).catch(() => undefined);
      throw connectorErrorOf(error, target.name);
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Cancels the running statement, so that the server does not go on with it, and hold its locks, after an abort. */
  async function cancel(pid: number): Promise<void> {
    const client = new OwnClient();
    const ended = new AbortController();
    const limit = clock.sleep(stopStepMs, ended.signal).then(
      () => client.socket.destroy(),
      () => undefined,
    );
    try {
      await client.connect();
      await client.query('select pg_cancel_backend($1)', [pid]);
    } catch {
      // The statement then ends by its own time limit.
    } finally {
      ended.abort();
      client.socket.destroy();
      await limit;
    }
  }

  async function transaction<T>({ signal, ...options }: TransactionOptions, work: (tx: Tx) => Promise<T>): Promise<T> {
    const client = await connect(signal);
    let isBroken = false;
    let pid: number | undefined;
    let isCommitting = false;
    let stopping: Promise<void> | undefined;
    const ended = new AbortController();
    const stop = async () => {
      if (pid !== undefined && !isCommitting) {
        await cancel(pid);
        await clock.sleep(cancelledMs, ended.signal).catch(() => undefined);
      } else if (isCommitting) await clock.sleep(commitMs, ended.signal).catch(() => undefined);
      if (ended.signal.aborted) return;
      isBroken = true;
      (client as PoolClient & OwnClient).socket.destroy();
    };
    const onAbort = () => {
      stopping = stop();
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    const run = async <Row extends object>(text: string, params?: readonly unknown[]): Promise<Row[]> => {
      if (signal?.aborted) throw stopped();
      try {
        // With the driver's own promise the values of a statement would stay in memory until the heap is marked.
        const result = await new Promise<QueryResult<Row>>((resolve, reject) => {
          client.query<Row>(text, params as unknown[], (error, answer) => (error ? reject(error) : resolve(answer)));
        });
        return Array.isArray(result) ? (result.at(-1)?.rows ?? []) : result.rows;
      } catch (error) {
        if (signal?.aborted) throw stopped(error);
        throw error;
      }
    };
    try {
      const [begun] = await run<{ pid: number }>(beginStatements(settings, options)).catch(refuseStandby);
      pid = begun?.pid;
      const result = await work({ query: run });
      if (signal?.aborted) throw stopped();
      isCommitting = true;
      const { command } = await client.query('commit').catch((error: unknown) => {
        if (!leavesCommitOpen(error)) throw error;
        isBroken = true;
        const { message } = connectorErrorOf(error, target.name);
        throw new UnknownOutcome(`The connection was lost during COMMIT. ${message}`, { cause: error });
      });
      // PostgreSQL answers COMMIT with ROLLBACK when a statement had failed and `work` ignored it.
      if (command !== 'COMMIT') throw new TransientError('PostgreSQL has rolled the transaction back');
      return result;
    } catch (error) {
      if (!isBroken && !isCommitting)
        await client.query('rollback').catch(() => {
          isBroken = true;
        });
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      ended.abort();
      // The cancellation must not hit the next transaction on this connection.
      await stopping;
      client.release(isBroken);
    }
  }

  /** A standby begins no transaction that writes. After a failover it may be promoted, or be left by its name. */
  function refuseStandby(error: unknown): never {
    if (!(error instanceof DatabaseError) || error.code !== notSupported) throw error;
    const message = `PostgreSQL at ${target.name} is a standby, which takes no writes: ${error.message}`;
    throw new TransientError(message, { cause: error });
  }

  return {
    targetName: target.name,
    transaction,
    read: (options, work) =>
      transaction(options, work).catch((error: unknown) => {
        if (error instanceof UnknownOutcome) throw new TransientError(error.message, { cause: error });
        throw error;
      }),
    close: async () => {
      const ended = new AbortController();
      const closing = pool.end().finally(() => ended.abort());
      await clock.sleep(stopStepMs, ended.signal).catch(() => undefined);
      for (const socket of sockets) socket.destroy();
      await closing;
    },
  };
}

function stopped(cause?: unknown): TransientError {
  return new TransientError('stopped before it was committed', { cause });
}

/**
 * Begins a transaction that has its settings and its lock, whatever the defaults of the role, the database or a
 * connection pooler are. The last row has the id of the server process that runs it.
 */
function beginStatements(
  settings: Settings,
  { lock, readOnly = false }: Pick<TransactionOptions, 'lock' | 'readOnly'>,
): string {
  const set = (name: string, value: string | number) => `set_config('${name}', '${value}', true)`;
  const statements = [
    `begin isolation level read committed read ${readOnly ? 'only' : 'write'}`,
    `select ${set('statement_timeout', settings.statement_timeout_ms)}, ${set('lock_timeout', settings.lock_timeout_ms)},
       ${set('idle_in_transaction_session_timeout', idleInTransactionMs)}, ${set('datestyle', 'ISO, YMD')},
       case current_setting('synchronous_commit') when 'off' then ${set('synchronous_commit', 'on')} end`,
  ];
  if (lock) statements.push(`select pg_advisory_xact_lock${lock.exclusive ? '' : '_shared'}(${lockNumber(lock.name)})`);
  return [...statements, 'select pg_backend_pid() as pid'].join('; ');
}

/** The number of a lock's name: the same in every process and every version of the connector. */
function lockNumber(name: string): bigint {
  return createHash('sha256').update(`sourcing-bridge postgres ${name}`).digest().readBigInt64BE();
}
