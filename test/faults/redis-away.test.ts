/**
 * Every role a process of its own, and their Redis is away, or takes no writes: deliveries go on by what each process
 * finds in SQL, and no process is unready. A Redis of the wrong kind is the same to a process: queue.test.ts.
 */
import { Redis } from 'ioredis';
import { describe, expect, onTestFinished, test } from 'vitest';
import { hasRedisServer, startRedisServer } from '../harness/redis.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { deliverByRoles } from './each-role.ts';

const conditions: { name: string; start: () => Promise<{ url: string; spoil: () => Promise<unknown> }> }[] = [
  {
    name: 'is killed',
    start: async () => {
      const server = await startRedisServer();
      onTestFinished(() => server.close());
      return { url: server.url, spoil: () => server.kill() };
    },
  },
  {
    name: 'becomes a replica',
    start: async () => {
      const server = await startRedisServer();
      onTestFinished(() => server.close());
      const spoil = async () => {
        const client = new Redis(server.url);
        await client.replicaof('127.0.0.1', 1);
        client.disconnect();
      };
      return { url: server.url, spoil };
    },
  },
];

describe.runIf(hasRedisServer()).each(conditions)('a Redis that $name', ({ start }) => {
  test('while awards are made delays them by a sweep, and makes no process unready', async () => {
    const redis = await start();
    const doubled = await deliverByRoles({
      db: await createTestDatabase(),
      roles: ['receive', 'pull', 'push'],
      environment: { REDIS_URL: redis.url, SOURCING__SWEEP_SECONDS: '1' },
      story: { events: 2, suppliers: 3, lots: 4 },
      beforeStory: redis.spoil,
      afterStory: async (urls) => {
        for (const url of urls) expect([url, (await fetch(`${url}/readyz`)).status]).toEqual([url, 200]);
      },
    });
    expect(doubled).toEqual([]);
  });
});
