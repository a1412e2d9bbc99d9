/**
 * The queue: it wakes the workers of a lane for a key, in this process or another, and spreads the work. It holds no
 * truth: what is due stands in SQL, and a sweep of the caller's signals it again, so the queue may be flushed or lost
 * at any moment. BullMQ does it, on Redis or on PostgreSQL.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, errorText } from './errors.ts';
import type { Logger } from './log.ts';
import { type Backend, type LaneQueue, type LaneWorker, type ReportError, wakeUpOf } from './queue/backend.ts';
import { createSignalBatches } from './queue/batch.ts';
import { createLane, type Lane, type Work } from './queue/lane.ts';
import { createOutageLog } from './queue/outage-log.ts';
import { openPostgresBackend } from './queue/postgres-backend.ts';
import { openRedisBackend } from './queue/redis-backend.ts';

export type { Work } from './queue/lane.ts';

export interface Signals {
  /**
   * Wakes the worker of `lane` for each key, after what made the key due was committed. Signals for a key that waits
   * are one; any number that arrive while the key is being worked cause one more run after it. Keys are printable text.
   *
   * Resolves within 2 s to whether the queue is known to hold them, and never rejects: when it does not, the sweep
   * makes up for it, and no caller could do more.
   */
  signal(lane: string, keys: readonly string[]): Promise<boolean>;
  /**
   * Works a lane in this process, up to `concurrency` keys at a time and never one key twice at once, here or in
   * another process. That last promise is the queue's best effort: a process that stood still for 20 s, or Redis
   * flushed under a running key, can break it between two processes, so the work guards what it writes in SQL.
   *
   * Returns at once; work starts when the backend is there. Call it once for a lane.
   */
  work(lane: string, options: { concurrency: number }, work: Work): void;
  /** Rejects, within 2 s, with an AppError `unavailable` when the backend does not answer. */
  ping(): Promise<void>;
  /**
   * Takes no more work, aborts the signal of what runs and waits for it up to `graceMs` (default 10 s); then closes
   * the connections. A key whose work was cut short goes back to the queue. Never rejects.
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
  /** Connections on PostgreSQL that signals may use at once; each lane worked here has two of its own. */
  poolMax?: number;
  /**
   * How long a process may be silent before its keys go to others (default 20 s): the keys of one that died are free
   * after 1.5 times that at most. Every process must have the same.
   */
  lockMs?: number;
}

/** How long a caller may be kept waiting by a backend that does not answer. */
const patienceMs = 2_000;

/** One round trip takes so many keys: on PostgreSQL each holds an advisory lock until the end of the statement. */
const keysPerRoundTrip = 500;

/**
 * Connects the queue. On PostgreSQL it creates its tables first and rejects when that fails; on Redis it waits 2 s at
 * most and goes on without, for signals are then swept and workers connect when it is there.
 */
export async function createSignals(options: SignalsOptions): Promise<Signals> {
  const { log, namespace, databaseUrl, redisUrl, poolMax = 2, lockMs = 20_000 } = options;
  const trouble = createOutageLog(log, 'the queue');
  const common = { namespace, lockMs, connectMs: patienceMs, reportError: trouble.report };
  const backend = redisUrl
    ? await openRedisBackend({ ...common, redisUrl })
    : await openPostgresBackend({ ...common, databaseUrl, poolMax }).catch((error: unknown) => {
        throw unavailable(error);
      });

  const queues = new Map<string, LaneQueue>();
  const senders = new Map<string, ReturnType<typeof createSignalBatches>>();
  const lanes: RunningLane[] = [];
  let closing: Promise<void> | undefined;

  function senderOf(lane: string) {
    let sender = senders.get(lane);
    if (!sender) {
      const queue = backend.openQueue(lane);
      queues.set(lane, queue);
      sender = createSignalBatches((keys) => send(backend, queue, keys, trouble.report));
      senders.set(lane, sender);
    }
    return sender;
  }

  return {
    async signal(lane, keys) {
      if (keys.length === 0) return true;
      if (closing || !backend.isConnected()) return false;
      return within(patienceMs, senderOf(lane)(keys)).catch(() => false);
    },

    work(name, { concurrency }, work) {
      const lane = createLane(name, work, log);
      const open = () => {
        const worker = backend.openWorker(name, concurrency, lane.handle);
        worker.on('lockRenewalFailed', (ids) => lane.lockLost(ids));
        return worker;
      };
      lanes.push(startLane(lane, open, trouble.report));
    },

    async ping() {
      await within(patienceMs, backend.ping()).catch((error: unknown) => {
        throw unavailable(error);
      });
    },

    close(graceMs = 10_000) {
      closing ??= close(graceMs);
      return closing;
    },
  };

  async function close(graceMs: number): Promise<void> {
    await Promise.all(lanes.map((lane) => lane.close(graceMs, () => backend.isConnected())));
    const rest = [...queues.values()].map((queue) => queue.close());
    await within(patienceMs, Promise.allSettled(rest)).catch(trouble.report);
    await within(patienceMs, backend.close()).catch(trouble.report);
    trouble.close();
  }
}

interface RunningLane {
  close(graceMs: number, isConnected: () => boolean): Promise<void>;
}

/**
 * Keeps a worker going. BullMQ's own comes back after most errors, but one whose first connection to PostgreSQL failed
 * remembers that for ever: then, and whenever it gives up, it gets a successor.
 */
function startLane(lane: Lane, open: () => LaneWorker, reportError: ReportError): RunningLane {
  const closing = new AbortController();
  let worker = open();
  void keepWorking();

  async function keepWorking(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await worker.waitUntilReady();
        await worker.run();
      } catch (error) {
        if (closing.signal.aborted) return;
        reportError(error);
        await worker.abandon().catch(reportError);
        await sleep(1_000, undefined, { signal: closing.signal }).catch(() => {});
        if (!closing.signal.aborted) worker = open();
      }
    }
  }

  return {
    async close(graceMs, isConnected) {
      closing.abort();
      await worker.pause(true);
      lane.stop();
      const idle = await within(graceMs, lane.idle()).then(
        () => true,
        () => false,
      );
      if (idle && isConnected()) {
        // Also takes in what was being fetched, for the lane to put back.
        const closed = await within(patienceMs, worker.close()).then(
          () => true,
          () => false,
        );
        if (closed) return;
      }
      await within(patienceMs, worker.abandon()).catch(reportError);
    },
  };
}

/** Whether the queue holds all the keys. */
async function send(
  backend: Backend,
  queue: LaneQueue,
  keys: readonly string[],
  reportError: ReportError,
): Promise<boolean> {
  for (let start = 0; start < keys.length; start += keysPerRoundTrip) {
    if (!backend.isConnected()) return false;
    try {
      await within(patienceMs, queue.addBulk(keys.slice(start, start + keysPerRoundTrip).map(wakeUpOf)));
    } catch (error) {
      reportError(error);
      return false;
    }
  }
  return true;
}

/** Rejects when `promise` has not settled after `ms`; its late answer is dropped. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function unavailable(cause: unknown): AppError {
  return new AppError('unavailable', 'The queue does not answer.', {
    message: `the queue does not answer: ${errorText(cause)}`,
    cause,
  });
}
