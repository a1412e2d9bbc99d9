import { afterEach, expect, test, vi } from 'vitest';
import { createDatabaseClock } from '#platform/database/database-clock.ts';
import { createTestDatabase } from '../../harness/test-database.ts';

afterEach(() => void vi.useRealTimers());

const dayMs = 86_400_000;

test("goes by the database's clock, however wrong the machine's is, and when that is set while it runs", async () => {
  const db = await createTestDatabase();
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + dayMs });
  const clock = await createDatabaseClock(db.database);
  const sql = `select extract(epoch from clock_timestamp())::float8 * 1000 as ms`;
  /** Whether the clock is between two times of the database, to the millisecond. */
  const isRight = async () => {
    const [before] = await db.database.query<{ ms: number }>(sql);
    const nowMs = clock.nowMs();
    const [after] = await db.database.query<{ ms: number }>(sql);
    // To ask the time is part of its error.
    return nowMs > (before?.ms ?? 0) - 1_000 && nowMs < (after?.ms ?? 0) + 1_000;
  };
  expect(await isRight()).toBe(true);
  vi.setSystemTime(Date.now() - 3 * dayMs);
  expect(await isRight()).toBe(true);
  await clock.close();
  await db.drop();
});

test("follows the database's clock when that is set", async () => {
  const db = await createTestDatabase();
  let aheadMs = 0;
  const moved = {
    ...db.database,
    query: async <Row extends object>() => [{ nowMs: performance.now() + aheadMs }] as unknown as Row[],
  };
  const clock = await createDatabaseClock(moved, { askEveryMs: 1 });
  aheadMs = dayMs;
  await expect.poll(() => clock.nowMs() - performance.now()).toBeGreaterThan(dayMs - 1_000);
  aheadMs = 0;
  await expect.poll(() => clock.nowMs() - performance.now()).toBeLessThan(1_000);
  expect(clock.nowMs() - performance.now()).toBeLessThan(1_000);
  await clock.close();
  await db.drop();
});
