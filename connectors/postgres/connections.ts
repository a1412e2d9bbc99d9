/**
 * Transactions on one database, each of which ends soon after it is told to.
 *
 * What happens to a transaction whose client is gone is the server's to say: a COMMIT that was sent may still be carried
 * out. So every transaction takes an advisory lock first, shared by those that write, and has the server's word that it
 * holds it before anything else is sent. `lookup` takes the same lock for itself alone: it gets it once each transaction
 * that could still commit has ended, and whatever took no lock was never told to commit.
 */
import { createHash } from 'node:crypto';
import { Socket } from 'node:net';
import { Client, type ClientConfig, Pool, type PoolClient } from 'pg';
import { type Clock, type ConnectorLog, TransientError, UnknownOutcome } from 'sourcing-bridge/connector';
import type { Place, Settings } from './settings.ts';
import { connectorErrorOf, leavesCommitOpen } from './sql-errors.ts';

export interface Tx {
  /** One statement with its parameters; without them the text may hold several. */
  query<Row extends object>(text: string, params?: readonly unknown[]): Promise<Row[]>;
}

export interface TransactionOptions {
  readonly signal?: AbortSignal | undefined;
  /** By name; `alone` waits for all who share it. */
  readonly lock?: { readonly name: string; readonly alone: boolean };
}

export interface Connections {
  readonly place: string;
  /**
   * Runs `work` and commits. What `work` throws goes on after a rollback; an error of COMMIT itself that says it failed
   * goes on, too. Throws TransientError, AuthError or ConfigError when nothing was done, and UnknownOutcome when the
   * connection was lost during COMMIT.
   */
  transaction<T>(options: TransactionOptions, work: (tx: Tx) => Promise<T>): Promise<T>;
  /** The same for what changes nothing: it leaves nothing open. */
  read<T>(options: TransactionOptions, work: (tx: Tx) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const connectTimeoutMs = 10_000;
/** For a cancellation and a goodbye. Stays well below what the bridge grants to a call that is to stop. */
const patienceMs = 1_000;
/** For the answer to a COMMIT that was sent before the call was stopped. */
const commitMs = 250;
/** A statement that was cancelled answers at once, unless the network does not. */
const cancelledMs = 50;
const idleInTransactionMs = 60_000;

export function createConnections(
  settings: Settings,
  place: Place,
  { clock, log }: { clock: Clock; log: ConnectorLog },
): Connections {
  const config: ClientConfig = {
    host: place.host,
    port: place.port,
    user: place.user,
    database: place.database,
    ...(place.password === undefined ? {} : { password: place.password }),
    ssl: place.ssl,
    application_name: 'sourcing-bridge',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 30_000,
  };
  /** Whatever becomes of a connection's own goodbye, its socket is for us to close. */
  const sockets = new Set<Socket>();
  class OwnClient extends Client {
    readonly socket: Socket;

    constructor() {
      const socket = new Socket();
      super({ ...config, stream: () => socket });
      this.socket = socket;
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      // One that breaks between two statements shows at the next; unheard, the event would end the process.
      this.on('error', () => undefined);
    }
  }
  const pool = new Pool({ ...config, max: settings.connections, Client: OwnClient });
  pool.on('error', (error) => log.debug('an idle connection to PostgreSQL was lost', { error: error.message }));

  async function connect(signal: AbortSignal | undefined): Promise<PoolClient> {
    if (signal?.aborted) throw stopped();
    const connecting = pool.connect();
    const { promise: tooLate, reject } = Promise.withResolvers<never>();
    const onAbort = () => reject(stopped());
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([connecting, tooLate]);
    } catch (error) {
      // It may come yet, for nobody.
      connecting.then((client) => client.release()).catch(() => undefined);
      throw connectorErrorOf(error, place.name);
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** So that the server is not busy, with its locks held, for somebody who has gone. */
  async function cancel(pid: number): Promise<void> {
    const client = new OwnClient();
    const ended = new AbortController();
    const limit = clock.sleep(patienceMs, ended.signal).then(
      () => client.socket.destroy(),
      () => undefined,
    );
    try {
      await client.connect();
      await client.query('select pg_cancel_backend($1)', [pid]);
    } catch {
      // Its statement ends by its own time limit.
    } finally {
      ended.abort();
      client.socket.destroy();
      await limit;
    }
  }

  async function transaction<T>({ signal, lock }: TransactionOptions, work: (tx: Tx) => Promise<T>): Promise<T> {
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
        const result = await client.query<Row>(text, params as unknown[]);
        return Array.isArray(result) ? (result.at(-1)?.rows ?? []) : result.rows;
      } catch (error) {
        if (signal?.aborted) throw stopped(error);
        throw error;
      }
    };
    try {
      const [begun] = await run<{ pid: number }>(beginning(settings, lock));
      pid = begun?.pid;
      const result = await work({ query: run });
      if (signal?.aborted) throw stopped();
      isCommitting = true;
      const { command } = await client.query('commit').catch((error: unknown) => {
        if (!leavesCommitOpen(error)) throw error;
        isBroken = true;
        const { message } = connectorErrorOf(error, place.name);
        throw new UnknownOutcome(`The connection was lost during COMMIT. ${message}`, { cause: error });
      });
      // So PostgreSQL answers where a statement had failed and nobody noticed.
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
      // A cancellation must not hit whoever uses the connection next.
      await stopping;
      client.release(isBroken);
    }
  }

  return {
    place: place.name,
    transaction,
    read: (options, work) =>
      transaction(options, work).catch((error: unknown) => {
        if (error instanceof UnknownOutcome) throw new TransientError(error.message, { cause: error });
        throw error;
      }),
    close: async () => {
      const ended = new AbortController();
      const closing = pool.end().finally(() => ended.abort());
      await clock.sleep(patienceMs, ended.signal).catch(() => undefined);
      for (const socket of sockets) socket.destroy();
      await closing;
    },
  };
}

function stopped(cause?: unknown): TransientError {
  return new TransientError('stopped before it was done', { cause });
}

/**
 * What a transaction needs whatever the role's, the database's or a connection pooler's settings are. Its last row has
 * the server process that runs it.
 */
function beginning(settings: Settings, lock: TransactionOptions['lock']): string {
  const set = (name: string, value: string | number) => `set_config('${name}', '${value}', true)`;
  const statements = [
    'begin isolation level read committed read write',
    `select ${set('statement_timeout', settings.statement_timeout_ms)}, ${set('lock_timeout', settings.lock_timeout_ms)},
       ${set('idle_in_transaction_session_timeout', idleInTransactionMs)},
       case current_setting('synchronous_commit') when 'off' then ${set('synchronous_commit', 'on')} end`,
  ];
  if (lock) statements.push(`select pg_advisory_xact_lock${lock.alone ? '' : '_shared'}(${lockNumber(lock.name)})`);
  return [...statements, 'select pg_backend_pid() as pid'].join('; ');
}

/** The same for the same name in every process and version. */
function lockNumber(name: string): bigint {
  return createHash('sha256').update(`sourcing-bridge postgres ${name}`).digest().readBigInt64BE();
}
