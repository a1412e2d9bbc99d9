/** What the doctor finds about the queue. */
import { Redis } from 'ioredis';
import { errorText } from '#platform/errors.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const timeoutMs = 5_000;

/** Whether Redis answers, its version, and whether it may evict the queue's keys. */
export async function findQueue(redisUrl: string | undefined): Promise<DoctorFinding[]> {
  if (redisUrl === undefined) return [ok('queue', 'in PostgreSQL')];
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  // The error of the failed command says only that the connection is closed; the event has the reason.
  let why: unknown;
  redis.on('error', (error) => {
    why = error;
  });
  try {
    await redis.connect();
    const version = /^redis_version:(.*)$/m.exec(await redis.info('server'))?.[1]?.trim() ?? 'of an unknown version';
    return [ok('queue', `Redis ${version} answers`), await findEvictionPolicy(redis)];
  } catch (error) {
    return [
      fail(
        'queue',
        `Redis does not answer: ${errorText(why ?? error)}`,
        'Start Redis, or correct REDIS_URL. Until then the sweep finds what is due, some seconds later than a signal.',
      ),
    ];
  } finally {
    redis.disconnect();
  }
}

async function findEvictionPolicy(redis: Redis): Promise<DoctorFinding> {
  const name = 'queue: eviction';
  const todo =
    'Set maxmemory-policy to noeviction: when Redis evicts keys of the queue, work waits for the next sweep.';
  try {
    const policy = String((await redis.config('GET', 'maxmemory-policy')).at(1));
    return policy === 'noeviction' ? ok(name, policy) : warn(name, policy, todo);
  } catch {
    return warn(name, 'Redis does not show its policy (the command CONFIG is not allowed)', todo);
  }
}
