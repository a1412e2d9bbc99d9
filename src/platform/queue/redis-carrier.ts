/**
 * Wake-ups over Redis or Valkey, by BullMQ: a queue for each lane, whose jobs are keys. A job ends when a process has
 * taken the key; what becomes of the work is not the queue's matter. Redis may be down, restarted, flushed, or turn into a
 * replica at any time: wake-ups are lost then, and the connections are restored automatically.
 */
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { within } from '../within.ts';
import { answerTimeoutMs, type Carrier, type ReportError } from './carrier.ts';

/** A socket that waits for an answer and gets nothing for this long is dead; an idle worker asks more often. */
const socketTimeoutMs = 10_000;
const idlePollSeconds = 5;

/** Waits 2 s at most for the first connection. It is no error when Redis is down: it may start later. */
export async function openRedisCarrier(options: {
  redisUrl: string;
  namespace: string;
  reportError: ReportError;
}): Promise<Carrier> {
  const { namespace: prefix, reportError } = options;
  const connection = new Redis(options.redisUrl, {
    // Null, as BullMQ requires of a connection that workers share.
    maxRetriesPerRequest: null,
    connectTimeout: 5_000,
    socketTimeout: socketTimeoutMs,
    // A client that is closed between two tries to connect leaves a timer of this length behind.
    disconnectTimeout: 500,
    retryStrategy: (attempt) => Math.min(attempt * 100, 1_000),
  });
  connection.on('error', reportError);
  await within(answerTimeoutMs, new Promise((resolve) => connection.once('ready', resolve))).catch(() => undefined);
  const queues = new Map<string, Queue>();
  const workers: Worker[] = [];

  function queueOf(lane: string): Queue {
    const queue = queues.get(lane) ?? new Queue(lane, { connection, prefix, streams: { events: { maxLen: 0 } } });
    if (!queues.has(lane)) queue.on('error', reportError);
    queues.set(lane, queue);
    return queue;
  }

  return {
    async send(lane, keys) {
      // A command would wait for the connection, for as long as Redis is away.
      if (connection.status !== 'ready') return;
      const jobs = keys.map((key) => ({ name: 'wake-up', data: key, opts: optionsOf(key) }));
      await within(answerTimeoutMs, queueOf(lane).addBulk(jobs)).catch(reportError);
    },
    receive(lane, wake) {
      const worker = new Worker<string>(lane, async ({ data: key }) => wake(key), {
        connection,
        prefix,
        concurrency: 50,
        drainDelay: idlePollSeconds,
        runRetryDelay: 1_000,
      });
      worker.on('error', reportError);
      workers.push(worker);
    },
    async close() {
      // Forced: a worker whose Redis is away would wait for it. No job takes time that would have to be waited for.
      const closing = [
        ...workers.map((worker) => worker.close(true)),
        ...[...queues.values()].map((queue) => queue.close()),
      ];
      await within(answerTimeoutMs, Promise.all(closing)).catch(reportError);
      connection.disconnect();
    },
  };
}

/** A wake-up for a key that waits already is not repeated. */
function optionsOf(key: string) {
  return { deduplication: { id: key, keepLastIfActive: true }, removeOnComplete: true, removeOnFail: true };
}
