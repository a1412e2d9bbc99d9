/**
 * The queue on Redis or Valkey. All queues and workers of the process share one connection; each worker has one more
 * on which it blocks. Redis may be down, restarted or flushed at any time: the connections are restored automatically.
 */
import { type ConnectionOptions, createRedisBackend, Queue, type RedisQueueBackend } from 'bullmq';
import { Redis } from 'ioredis';
import {
  AbandonableWorker,
  type Backend,
  eventStream,
  type ReportError,
  socketTimeoutMs,
  workerSettings,
} from './backend.ts';

/** Waits up to `connectMs` for the first connection. It is no error when Redis is down: it may start later. */
export async function openRedisBackend(options: {
  redisUrl: string;
  namespace: string;
  lockMs: number;
  connectMs: number;
  reportError: ReportError;
}): Promise<Backend> {
  const { namespace: prefix, reportError } = options;
  const redis = new Redis(options.redisUrl, {
    // Null, as BullMQ requires: with a limit, a connection lost during its first command leaves a queue dead for good.
    maxRetriesPerRequest: null,
    connectTimeout: 5_000,
    socketTimeout: socketTimeoutMs,
    // A client that is closed between two tries to connect leaves a timer of this length behind.
    disconnectTimeout: 500,
    retryStrategy: (attempt) => Math.min(attempt * 100, 1_000),
  });
  redis.on('error', reportError);
  await firstConnection(redis, options.connectMs);

  return {
    isConnected: () => redis.status === 'ready',
    openQueue(lane) {
      const queue = new Queue<string, void>(lane, { connection: redis, prefix, streams: eventStream });
      queue.on('error', reportError);
      return queue;
    },
    openWorker(lane, concurrency, handle) {
      const worker = new AbandonableWorker<RedisQueueBackend, ConnectionOptions>(
        lane,
        handle,
        { ...workerSettings(options.lockMs), connection: redis, prefix, concurrency },
        createRedisBackend,
      );
      worker.on('error', reportError);
      return worker;
    },
    async ping() {
      await redis.ping();
    },
    async close() {
      redis.disconnect();
    },
  };
}

async function firstConnection(redis: Redis, connectMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, connectMs);
  redis.once('ready', resolve);
  await promise;
  clearTimeout(timer);
  redis.off('ready', resolve);
}
