/**
 * The queue on PostgreSQL, in a schema of its own that BullMQ's migrations create. All queues of the process share a
 * small pool, all workers one connection that renews their locks; each worker has one connection for its queries and
 * another that LISTENs.
 */
import {
  assertSchemaCompatibility,
  ConnectionClosedError,
  LATEST_SCHEMA_VERSION,
  PostgresConnection,
  PostgresQueueBackend,
  Queue,
  type QueueBaseOptions,
  runMigrations,
  SchemaMigrationRequiredError,
} from 'bullmq';
import { Client } from 'pg';
import { mayNotMigrate } from '../database/migrations.ts';
import { hasErrorCode } from '../errors.ts';
import { AbandonableWorker, type Backend, eventStream, type ReportError, workerSettings } from './backend.ts';

/**
 * Creates or upgrades the queue's tables (processes that start together wait for each other) and connects.
 * Rejects when the database cannot be reached or does not let its user create the schema.
 */
export async function openPostgresBackend(options: {
  databaseUrl: string;
  namespace: string;
  lockMs: number;
  poolMax: number;
  connectMs: number;
  reportError: ReportError;
}): Promise<Backend> {
  const { reportError, namespace } = options;
  const shared = {
    connectionString: options.databaseUrl,
    application_name: namespace,
    keepAlive: true,
    // No step waits for the disk. A server that crashes may lose wake-ups of its last second, and the sweep repeats them.
    options: '-c synchronous_commit=off',
  };
  await migrate({ ...shared, connectionTimeoutMillis: 10_000 }, namespace);
  // With a time limit: a server that hangs must not block a query, and with it the caller, for ever.
  const pooled = { ...shared, schema: namespace, query_timeout: 10_000 };
  const sending = new SafeConnection({
    ...pooled,
    max: options.poolMax,
    connectionTimeoutMillis: options.connectMs,
  });
  const renewing = new SafeConnection({ ...pooled, max: 1, connectionTimeoutMillis: 10_000 });
  for (const connection of [sending, renewing]) connection.on('error', reportError);
  await sending.waitUntilReady();
  const readActiveQueues = createActiveQueues(renewing, options.lockMs / 8);

  return {
    isConnected: () => true,
    openQueue(lane) {
      const queue = new Queue<string, void, string, string, void, string, PostgresQueueBackend, QueueConnection>(
        lane,
        { connection: pooled, streams: eventStream },
        (name, opts) => new PostgresQueueBackend(sending, name, opts, false),
      );
      queue.on('error', reportError);
      return queue;
    },
    openWorker(lane, concurrency, handle) {
      const worker = new AbandonableWorker<PostgresQueueBackend, QueueConnection>(
        lane,
        handle,
        {
          ...workerSettings(options.lockMs),
          connection: { ...pooled, max: 1, connectionTimeoutMillis: 10_000 },
          concurrency,
        },
        (name, opts) =>
          new PatientBackend(new SafeConnection(opts.connection), name, opts, {
            renewing,
            readActiveQueues,
            reportError,
          }),
      );
      worker.on('error', reportError);
      return worker;
    },
    async ping() {
      await sending.pool.query('SELECT 1');
    },
    async close() {
      await Promise.all([sending.close(), renewing.close()]);
    },
  };
}

type QueueConnection = ConstructorParameters<typeof PostgresConnection>[0];

/** Creates or upgrades the tables of a queue. Rejects as `openPostgresBackend` does. */
export async function migrateQueue(databaseUrl: string, namespace: string): Promise<void> {
  const connection = { connectionString: databaseUrl, application_name: namespace, connectionTimeoutMillis: 10_000 };
  await migrate(connection, namespace);
}

/** Changes nothing when the tables are up to date: the role of the program may have no right to change them. */
async function migrate(connection: ConstructorParameters<typeof Client>[0], schema: string): Promise<void> {
  const client = new SafeClient(connection);
  await client.connect();
  try {
    const version = await assertSchemaCompatibility(client, schema).catch((error: unknown) => {
      if (isMissing(error)) return 0;
      throw error;
    });
    if (version < LATEST_SCHEMA_VERSION) await runMigrations(client, schema);
  } catch (error) {
    throw mayNotMigrate(error, schema, schema.replace(/_queue$/, '')) ?? error;
  } finally {
    await client.end();
  }
}

/** Neither the schema nor its table of versions exists yet. */
function isMissing(error: unknown): boolean {
  return error instanceof SchemaMigrationRequiredError || hasErrorCode(error, '3F000');
}

const ignore = () => undefined;

/**
 * Without an `error` listener the event would end the process. The statement that waits rejects with the same error.
 */
class SafeClient extends Client {
  constructor(...config: ConstructorParameters<typeof Client>) {
    super(...config);
    this.on('error', ignore);
  }
}

/**
 * BullMQ adds `error` listeners to its connections too late or not at all: a server that shuts down may send its error
 * in one packet with its greeting.
 */
class SafeConnection extends PostgresConnection {
  constructor(connection: QueueConnection) {
    super(connection);
    this.pool.on('connect', (client) => client.on('error', ignore));
    // The connection that LISTENs is not from the pool, and BullMQ has no setting for it.
    Reflect.set(this, 'pgModule', { Client: SafeClient });
  }
}

/**
 * Returns a function that reads which queues have wake-ups that are being worked. Workers that ask within `sharedMs` of
 * each other share one statement.
 */
function createActiveQueues(connection: PostgresConnection, sharedMs: number): () => Promise<ReadonlySet<string>> {
  let asked: { readonly atMs: number; readonly queues: Promise<ReadonlySet<string>> } | undefined;
  const read = async () => {
    const { rows } = await connection.pool.query("select distinct queue from job where state = 'active'");
    return new Set(rows.map(({ queue }: { queue: string }) => queue));
  };
  return () => {
    const nowMs = performance.now();
    if (!asked || nowMs - asked.atMs > sharedMs) asked = { atMs: nowMs, queues: read() };
    return asked.queues;
  };
}

/**
 * A worker's backend with four corrections:
 *
 * - When the connection is lost as a wake-up ends, BullMQ waits and tries again to record the end. But on PostgreSQL it
 *   recognises only ECONNREFUSED as a lost connection. After any other error it forgets the wake-up: the key stays
 *   locked until the lock expires, and a worker without other wake-ups spins. So this backend presents every transient
 *   error as a lost connection.
 * - Locks are renewed over a connection of their own. The worker's connection records the ends one after the other:
 *   after a start with thousands of keys a renewal would wait behind them until the locks have expired, all keys would
 *   be worked once more, and their ends be refused, for minutes.
 * - Each worker would look for wake-ups of dead workers every second or so, with a function that writes. That is most of
 *   what a bridge at rest asks its database. One look at the active wake-ups of all queues says where there can be any.
 * - Whenever a wake-up ends, BullMQ looks for the next one. Where the last look has found none, a notification comes for
 *   the next one, so the look is left out: after a start with thousands of keys there would be one for each.
 */
class PatientBackend extends PostgresQueueBackend {
  readonly #reportError: ReportError;
  readonly #renewing: PostgresQueueBackend;
  readonly #readActiveQueues: () => Promise<ReadonlySet<string>>;
  /** The last look for a wake-up has found none. */
  #isDrained = false;

  constructor(
    connection: PostgresConnection,
    name: string,
    opts: QueueBaseOptions<QueueConnection>,
    shared: {
      renewing: PostgresConnection;
      readActiveQueues: () => Promise<ReadonlySet<string>>;
      reportError: ReportError;
    },
  ) {
    super(connection, name, opts, true);
    answerWithoutQuery(this);
    this.#reportError = shared.reportError;
    this.#renewing = new PostgresQueueBackend(shared.renewing, name, opts, false);
    this.#readActiveQueues = shared.readActiveQueues;
  }

  override async moveStalledJobsToWait() {
    return (await this.#readActiveQueues()).has(this.queueName) ? super.moveStalledJobsToWait() : [];
  }

  override async moveToActive(...args: Parameters<PostgresQueueBackend['moveToActive']>) {
    const next = await super.moveToActive(...args);
    this.#isDrained = !next[0];
    return next;
  }

  override extendLocks(...args: Parameters<PostgresQueueBackend['extendLocks']>) {
    return this.#renewing.extendLocks(...args);
  }

  override async moveToCompleted(...args: Parameters<PostgresQueueBackend['moveToCompleted']>) {
    const [job, value, keep, token, fetchNext] = args;
    try {
      const ended = await super.moveToCompleted(job, value, keep, token, fetchNext && !this.#isDrained);
      if (ended.result) this.#isDrained = !ended.result[0];
      return ended;
    } catch (error) {
      if (!isTransient(error)) throw error;
      // BullMQ does not report an error that it takes for a lost connection.
      this.#reportError(error);
      throw new ConnectionClosedError(undefined, error);
    }
  }
}

/**
 * What BullMQ asks the server for whenever a worker has nothing to do: until when the queue is rate-limited, and when its
 * next delayed job is due. No wake-up is ever limited or delayed, so the answers are known.
 */
const knownAnswers = new Map<string, { rows: object[] }>([
  ['next_signal', { rows: [{ rate_limit_ttl: 0, next_delay: null }] }],
  ['next_delay', { rows: [{ next_delay: null }] }],
]);

/** BullMQ has no setting for it, and its types hide the method. If the method goes away, the server is asked again. */
function answerWithoutQuery(backend: PostgresQueueBackend): void {
  const run: unknown = Reflect.get(backend, 'run');
  if (typeof run !== 'function') return;
  Reflect.set(
    backend,
    'run',
    async (command: string, values: unknown): Promise<unknown> =>
      knownAnswers.get(command) ?? Reflect.apply(run, backend, [command, values]),
  );
}

/** The transient SQLSTATE classes: connection, deadlock, resources, operator intervention (shutdown, starting up). */
const transientClasses = new Set(['08', '40', '53', '57']);

function isTransient(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  // BullMQ's own refusals have a number as code; network errors have a name such as ECONNRESET, or no code.
  if (typeof code === 'number') return false;
  if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return transientClasses.has(code.slice(0, 2));
  return true;
}
