/** A source whose `Date` is wrong, or whose clocks all are: how soon late commits come, and that none is lost. */
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { type HostileQuirks, HostileSource, seeded } from './hostile-source.ts';
import { calm, startReader } from './reader.ts';

let db: TestDatabase;
let liveness: Liveness;

beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await startLiveness({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

async function start(quirks: Partial<HostileQuirks>, seed = 7) {
  const clock = testClock();
  const source = new HostileSource({ ...calm, ...quirks }, clock, seeded(seed));
  const settings = { page_size: 200 };
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock, settings });
  /**
   * Lets time pass with changes, and pulls every ten seconds. Returns what the watermark has passed and the mirror does
   * not hold, and how many seconds the watermark is behind the clock of the stamps in the end.
   */
  const run = async (seconds: number) => {
    const missed: string[] = [];
    let watermarkMs = 0;
    for (let passed = 0; passed < seconds; passed += 10) {
      source.live(10, 4);
      await reader.pull();
      const { watermark, last_error: lastError } = await reader.checkpoint();
      const held = await reader.mirror();
      if (lastError !== null) missed.push(lastError);
      for (const [id, value] of source.stateUpTo(watermark ?? '')) if (held.get(id) !== value) missed.push(id);
      if (watermark !== null) watermarkMs = msFromTimestamp(watermark);
    }
    return { missed, behindSeconds: (clock.nowMs() + source.quirks.skewMs - watermarkMs) / 1_000 };
  };
  return { source, run };
}

test('a `Date` that is 120 s behind the stamps delays late commits by as much, and loses none', async () => {
  const { source, run } = await start({ dateSkewMs: -120_000, lateMs: 20_000 });
  const before = await run(400);
  // 120 s, and the lateness of 30 s.
  expect(before.behindSeconds).toBeGreaterThan(150);
  expect(before.behindSeconds).toBeLessThan(240);
  source.quirks.dateSkewMs = 0;
  const after = await run(200);
  expect(after.behindSeconds).toBeLessThan(120);
  expect([...before.missed, ...after.missed]).toEqual([]);
});

test('where `Date` and stamps are 120 s behind, one record that is dated in the future loses no other', async () => {
  const { source, run } = await start({ skewMs: -120_000, lateMs: 25_000 });
  expect((await run(600)).missed).toEqual([]);
  source.quirks.futureDated = 1;
  source.quirks.futureMs = 100_000;
  source.write('dated-ahead');
  source.quirks.futureDated = 0;
  const after = await run(300);
  expect(after.missed).toEqual([]);
  // Not closer than the lateness: the feed is closed by `Date` as it is.
  expect(after.behindSeconds).toBeGreaterThan(30);
});

test('with any clocks, and records that are dated in the future, the mirror holds what the watermark has passed', {
  timeout: 600_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        skewMs: fc.integer({ min: -200_000, max: 200_000 }),
        dateSkewMs: fc.integer({ min: -250_000, max: 250_000 }),
        lateMs: fc.constantFrom(0, 10_000, 25_000),
        futureDated: fc.constantFrom(0, 0.02, 0.1),
        futureMs: fc.integer({ min: 5_000, max: 250_000 }),
        stamps: fc.constantFrom('micros', 'seconds', 'rounded'),
        slow: fc.constantFrom(0, 0.1),
      }),
      fc.integer({ min: 1, max: 2 ** 31 }),
      async (quirks, seed) => {
        const { run } = await start(quirks, seed);
        expect((await run(500)).missed).toEqual([]);
      },
    ),
    { numRuns: Number(process.env['CLOCK_RUNS'] ?? 2), endOnFailure: true },
  );
});
