/**
 * The queue on PostgreSQL, in a schema of its own that BullMQ's migrations create. The queues of the process share a
 * small pool; each worker has one connection for its queries and one that LISTENs.
 */
import {
  ConnectionClosedError,
  PostgresConnection,
  PostgresQueueBackend,
  Queue,
  type QueueBaseOptions,
  runMigrations,
} from 'bullmq';
import { Client } from 'pg';
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
  };
  await migrate({ ...shared, connectionTimeoutMillis: 10_000 }, namespace);
  // A server that hangs must not keep a query, and so its caller, for ever.
  const pooled = { ...shared, schema: namespace, query_timeout: 10_000 };
  const sending = new HeardConnection({
    ...pooled,
    max: options.poolMax,
    connectionTimeoutMillis: options.connectMs,
  });
  sending.on('error', reportError);
  await sending.waitUntilReady();

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
        (name, opts) => new PatientBackend(new HeardConnection(opts.connection), name, opts, reportError),
      );
      worker.on('error', reportError);
      return worker;
    },
    async ping() {
      await sending.pool.query('SELECT 1');
    },
    async close() {
      await sending.close();
    },
  };
}

type QueueConnection = ConstructorParameters<typeof PostgresConnection>[0];

async function migrate(connection: ConstructorParameters<typeof Client>[0], schema: string): Promise<void> {
  const client = new HeardClient(connection);
  await client.connect();
  try {
    await runMigrations(client, schema);
  } finally {
    await client.end();
  }
}

const unheard = () => undefined;

/** Whoever waits for it is told by the statement that rejects; without a listener the event would end the process. */
class HeardClient extends Client {
  constructor(...config: ConstructorParameters<typeof Client>) {
    super(...config);
    this.on('error', unheard);
  }
}

/** BullMQ listens to its connections too late, or not: the server's goodbye may come in one packet with its welcome. */
class HeardConnection extends PostgresConnection {
  constructor(connection: QueueConnection) {
    super(connection);
    this.pool.on('connect', (client) => client.on('error', unheard));
    // The one that LISTENs is not of the pool, and there is no setting for it.
    Reflect.set(this, 'pgModule', { Client: HeardClient });
  }
}

/**
 * When the connection is lost as a wake-up ends, BullMQ waits and tries again to say so; but of PostgreSQL it knows
 * only ECONNREFUSED as a lost connection, and after any other error it forgets the wake-up: its key stays locked until
 * the lock runs out, and a worker that finds nothing else to wait for spins. Here every passing error looks like a lost
 * connection.
 */
class PatientBackend extends PostgresQueueBackend {
  readonly #reportError: ReportError;

  constructor(
    connection: PostgresConnection,
    name: string,
    opts: QueueBaseOptions<QueueConnection>,
    reportError: ReportError,
  ) {
    super(connection, name, opts, true);
    this.#reportError = reportError;
  }

  override async moveToCompleted(...args: Parameters<PostgresQueueBackend['moveToCompleted']>) {
    try {
      return await super.moveToCompleted(...args);
    } catch (error) {
      if (!isPassing(error)) throw error;
      // BullMQ keeps quiet about what it takes for a lost connection.
      this.#reportError(error);
      throw new ConnectionClosedError(undefined, error);
    }
  }
}

/** SQLSTATE classes that pass: connection, deadlock, resources, operator intervention (shutdown, starting up). */
const passingClasses = new Set(['08', '40', '53', '57']);

function isPassing(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  // BullMQ's own refusals carry a number; the network's errors a name such as ECONNRESET, or nothing.
  if (typeof code === 'number') return false;
  if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return passingClasses.has(code.slice(0, 2));
  return true;
}
