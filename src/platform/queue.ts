/**
 * The queue: it wakes the workers of a lane for a key, in this process or another, and spreads the work. It is never
 * the record of what is due: that stands in SQL, and the caller's sweep signals it again, so the queue may be flushed
 * or lost at any moment. BullMQ implements it, on Redis or on PostgreSQL.
 */
import { AppError, errorText } from './errors.ts';
import type { Logger } from './log.ts';
import { createLane, type Lane, type Work } from './queue/lane.ts';
import { createLaneQueues } from './queue/lane-queues.ts';
import { createOutageLog } from './queue/outage-log.ts';
import { openPostgresBackend } from './queue/postgres-backend.ts';
import { type RunningLane, startLane } from './queue/running-lane.ts';
import { answerTimeoutMs, within } from './queue/within.ts';

export type { Work } from './queue/lane.ts';

export interface Signals {
  /**
   * Wakes the worker of `lane` for each key. Call it after the change that made the key due was committed. Signals for
   * a key that waits already are coalesced. Signals that arrive while the key is being worked, however many, cause one
   * more run after it. Keys are printable text.
   *
   * Resolves within 2 s to whether the queue is known to hold them, and never rejects: when it does not hold them, the
   * sweep signals them later, and the caller could do no more.
   */
  signal(lane: string, keys: readonly string[]): Promise<boolean>;
  /**
   * The same, past the queue where this process works the lane: it works each key at once, after the run of that key that
   * it may be in. For work that may run twice at once in two processes: it claims its rows one by one, or it takes a lease
   * and looks again, once it has released it, for what was signalled meanwhile. What is more than `concurrency` goes to the
   * queue, and so does a key whose work is cut short.
   */
  signalHere(lane: string, keys: readonly string[]): Promise<boolean>;
  /**
   * Works a lane in this process, up to `concurrency` keys at a time and never one key twice at once, here or in
   * another process. Between two processes the queue cannot guarantee the latter: a process that hung for 20 s, or a
   * Redis that was flushed during a run, can break it. So the work guards what it writes in SQL.
   *
   * Returns at once; work starts when the backend is connected. Call it once for a lane.
   */
  work(lane: string, options: { concurrency: number }, work: Work): void;
  /** Rejects, within 2 s, with an AppError `unavailable` when the backend does not answer. */
  ping(): Promise<void>;
  /**
   * Takes no more work, aborts the signal of the work that runs and waits for it up to `graceMs` (default 10 s). Then
   * it closes the connections. A key whose work was cut short goes back to the queue. Never rejects.
   */
  close(graceMs?: number): Promise<void>;
}

export interface SignalsOptions {
  /** Set: BullMQ on this Redis or Valkey. Not set: on the PostgreSQL of `databaseUrl`. */
  redisUrl?: string | undefined;
  databaseUrl: string;
  /** Prefix of every Redis key, or name of the PostgreSQL schema: letters, digits and underscores. */
  namespace: string;
  log: Logger;
  /** Connections on PostgreSQL that signals may use at once; the locks have one more, and each lane worked here two. */
  poolMax?: number;
  /**
   * How long a process may be silent before its keys go to other processes (default 20 s). The keys of a process that
   * died are free after 1.5 times that at most. Every process must have the same value.
   */
  lockMs?: number;
}

/**
 * Connects the queue. On PostgreSQL it creates its tables first and rejects when that fails. On Redis it waits 2 s at
 * most and continues without a connection: the sweep repeats the signals, and the workers connect when Redis is up.
 */
export async function createSignals(options: SignalsOptions): Promise<Signals> {
  const { log, namespace, databaseUrl, redisUrl, poolMax = 2, lockMs = 20_000 } = options;
  const outages = createOutageLog(log, 'the queue');
  const common = { namespace, lockMs, connectMs: answerTimeoutMs, reportError: outages.report };
  const backend = redisUrl
    ? await (await import('./queue/redis-backend.ts')).openRedisBackend({ ...common, redisUrl })
    : await openPostgresBackend({ ...common, databaseUrl, poolMax }).catch((error: unknown) => {
        throw error instanceof AppError ? error : unavailable(error);
      });
  const queues = createLaneQueues(backend, outages.report);
  const lanes: RunningLane[] = [];
  const lanesHere = new Map<string, Lane>();
  /** Keys that are on their way to the queue, because their work here was cut short. */
  const givenBack = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  async function close(graceMs: number): Promise<void> {
    await Promise.all(lanes.map((lane) => lane.close(graceMs, () => backend.isConnected())));
    await Promise.all(givenBack);
    await queues.close();
    await within(answerTimeoutMs, backend.close()).catch(outages.report);
    outages.close();
  }

  async function signal(lane: string, keys: readonly string[]): Promise<boolean> {
    if (keys.length === 0) return true;
    if (closing || !backend.isConnected()) return false;
    return queues.send(lane, keys);
  }

  return {
    signal,

    async signalHere(name, keys) {
      const lane = lanesHere.get(name);
      if (!lane || closing) return signal(name, keys);
      const giveBack = (key: string) => void givenBack.add(queues.send(name, [key]));
      return signal(
        name,
        keys.filter((key) => !lane.workHere(key, giveBack)),
      );
    },

    work(name, { concurrency }, work) {
      const lane = createLane(name, { concurrency, work, log });
      lanesHere.set(name, lane);
      const open = () => {
        const worker = backend.openWorker(name, concurrency, lane.handle);
        worker.on('lockRenewalFailed', (ids) => lane.lockLost(ids));
        return worker;
      };
      lanes.push(startLane(lane, open, outages.report));
    },

    async ping() {
      await within(answerTimeoutMs, backend.ping()).catch((error: unknown) => {
        throw unavailable(error);
      });
    },

    close(graceMs = 10_000) {
      closing ??= close(graceMs);
      return closing;
    },
  };
}

function unavailable(cause: unknown): AppError {
  return new AppError('unavailable', 'The queue does not answer.', {
    message: `the queue does not answer: ${errorText(cause)}`,
    cause,
  });
}
