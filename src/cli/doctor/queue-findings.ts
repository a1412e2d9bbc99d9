/** What the doctor finds about the wake-ups between processes. */
import { Redis } from 'ioredis';
import { errorText } from '#platform/errors.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

const timeoutMs = 5_000;

/** Whether Redis answers, of which kind it is, and whether it may evict the queue's keys. */
export async function findQueue(redisUrl: string | undefined): Promise<DoctorFinding[]> {
  if (redisUrl === undefined) return [ok('queue', 'wake-ups over PostgreSQL')];
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
    const facts = new Map((await redis.info()).split(/\r?\n/).map((line) => line.split(':', 2) as [string, string]));
    const kind = wrongKindOf(facts);
    if (kind !== undefined) return [fail('queue', `REDIS_URL names ${kind}`, withoutIt(kind))];
    const version = facts.get('redis_version') ?? 'of an unknown version';
    return [ok('queue', `Redis ${version} answers`), await findEvictionPolicy(redis)];
  } catch (error) {
    return [
      fail(
        'queue',
        `Redis does not answer: ${errorText(why ?? error)}`,
        'Start Redis, or correct REDIS_URL. Until then each process works what its sweep finds, some seconds later.',
      ),
    ];
  } finally {
    redis.disconnect();
  }
}

/** Kinds of Redis that BullMQ cannot use, in words. */
function wrongKindOf(facts: ReadonlyMap<string, string>): string | undefined {
  if (facts.get('redis_mode') === 'sentinel') return 'a Sentinel';
  if (facts.get('redis_mode') === 'cluster') return 'a node of a cluster';
  return facts.get('role') === 'slave' ? 'a replica' : undefined;
}

function withoutIt(kind: string): string {
  const cure = kind === 'a replica' ? 'its primary' : 'a Redis or Valkey that stands alone, or the primary itself';
  return (
    `Set REDIS_URL to ${cure}, or leave it out: wake-ups then go over PostgreSQL. ` +
    'Until then each process works what its sweep finds, some seconds later.'
  );
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
