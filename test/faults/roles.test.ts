/**
 * Several processes of each role on one database, beside the service: every award reaches the ERP exactly once, whichever
 * process does the work, they hold no more connections than docs/processes.md says, and each ends within the time that a
 * service manager allows.
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
  test('three receivers, two pullers and three pushers deliver each award once', async () => {
    const db = await createTestDatabase();
    let connections: { program: string; count: number }[] = [];
    const doubled = await deliverByRoles({
      db,
      roles: ['receive', 'receive', 'receive', 'pull', 'pull', 'push', 'push', 'push'],
      environment: redisUrl === undefined ? {} : { REDIS_URL: redisUrl },
      story: { events: 4, suppliers: 5, lots: 6 },
      afterStory: async () => {
        connections = await db.database.query(
          `select application_name as program, count(*)::int as count from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid() group by application_name`,
        );
      },
    });
    expect(doubled).toEqual([]);
    // The formula of docs/processes.md for nine processes; one of them listens without Redis.
    const programs = connections.filter(({ program }) => /service|bridge/.test(program));
    const held = programs.reduce((sum, { count }) => sum + count, 0);
    expect(held).toBeGreaterThan(0);
    expect(held).toBeLessThanOrEqual(9 * 7);
  });
});
