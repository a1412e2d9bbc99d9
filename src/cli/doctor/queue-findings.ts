/** What the doctor finds of the queue. */
import { Redis } from 'ioredis';
import { errorText } from '#platform/errors.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const patienceMs = 5_000;

export async function findQueue(redisUrl: string | undefined): Promise<DoctorFinding[]> {
  if (redisUrl === undefined) return [ok('queue', 'in PostgreSQL')];
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: patienceMs,
    commandTimeout: patienceMs,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  // The command that fails says only that the connection is closed.
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
        'Start it, or correct REDIS_URL. Until then the sweep finds what is due, later than a signal would.',
      ),
    ];
  } finally {
    redis.disconnect();
  }
}

async function findEvictionPolicy(redis: Redis): Promise<DoctorFinding> {
  const name = 'queue: eviction';
  const todo = 'Set maxmemory-policy to noeviction: a queue whose keys vanish wakes nobody until the next sweep.';
  try {
    const policy = String((await redis.config('GET', 'maxmemory-policy')).at(1));
    return policy === 'noeviction' ? ok(name, policy) : warn(name, policy, todo);
  } catch {
    return warn(name, 'Redis does not tell its policy (CONFIG is not allowed)', todo);
  }
}
