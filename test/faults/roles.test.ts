/**
 * Two processes of each role on one database, beside the service: every award reaches the ERP exactly once, whichever
 * process does the work, and each process ends within the time that a service manager allows.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { findTestRedis } from '../harness/redis.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { deliverByRoles } from './each-role.ts';

const redis = await findTestRedis();

afterAll(() => redis?.close());

// Wake-ups go over PostgreSQL in nearly every other test: a short run shows Redis where there is one.
const isFullRun = process.env['FAULTS'] !== undefined;
const backends: { name: string; redisUrl?: string }[] = [
  ...(isFullRun || !redis ? [{ name: 'PostgreSQL' }] : []),
  ...(redis ? [{ name: 'Redis', redisUrl: redis.url }] : []),
];

describe.each(backends)('with wake-ups over $name', ({ redisUrl }) => {
  test('two receivers, two pullers and two pushers deliver each award once', { timeout: 180_000 }, async () => {
    const doubled = await deliverByRoles({
      db: await createTestDatabase(),
      roles: ['receive', 'receive', 'pull', 'pull', 'push', 'push'],
      environment: redisUrl === undefined ? {} : { REDIS_URL: redisUrl },
      story: { events: 4, suppliers: 5, lots: 6 },
    });
    expect(doubled).toEqual([]);
  });
});
