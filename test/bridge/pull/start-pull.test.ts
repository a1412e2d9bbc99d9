import { afterAll, beforeAll, expect, test } from 'vitest';
import { lanes } from '#bridge/bridge-deps.ts';
import { openCheckpoints } from '#bridge/pull/feed/checkpoint-store.ts';
import { startPull } from '#bridge/pull/start-pull.ts';
import { bridgeSettings } from '#bridge/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import type { Signals } from '#platform/queue.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());

/** The pulling part of a process for these sources. No worker runs: tests only ask what is due. */
async function start(names: readonly string[]) {
  const clock = testClock();
  const concurrency = new Map<string, number>();
  const signals: Signals = {
    signal: async () => false,
    signalHere: async () => false,
    work: (lane, options) => void concurrency.set(lane, options.concurrency),
    ping: async () => undefined,
    close: async () => undefined,
  };
  const settings = bridgeSettings.parse({
    sources: names.map((name) => ({ name, base_url: 'http://127.0.0.1:1', api_key: 'k', suppliers: true })),
  });
  const part = startPull(
    {
      settings,
      tls: { certPem: '', keyPem: '' },
      dataDir: '',
      sweepMs: 10_000,
      database: db.database,
      signals,
      fetch: testOutgoing().fetch,
      secrets: createSecretBox(Buffer.alloc(32, 7)),
      clock,
      log: silentLogger,
      registry: new Registry(),
    },
    async () => undefined,
  );
  for (const { name, feeds } of settings.sources)
    for (const feed of feeds) await openCheckpoints(db.database, [{ source: name, feed }], timestampNow(clock));
  const due = async (lane: string) => (await part.lanes.find((candidate) => candidate.lane === lane)?.due()) ?? [];
  return { clock, concurrency, due };
}

test('a source whose pulls wait for its quota delays no feed of another source', async () => {
  const { concurrency } = await start(['a', 'b', 'c']);
  expect(concurrency.get(lanes.pull)).toBe(3 * 4);
  expect(concurrency.get(lanes.backfill)).toBeGreaterThanOrEqual(3 * 2);
});

test('after the clock was set back, nothing waits for a time that was computed before', async () => {
  const { clock, due } = await start(['d']);
  const waitUntil = async (seconds: number) => {
    for (const statement of [
      `update bridge.checkpoints set next_pull = $1 where source = 'd'`,
      `update bridge.supplier_lists set next_pull = $1 where source = 'd'`,
      `update bridge.backfills set next_try = $1 where source = 'd'`,
    ])
      await db.database.query(statement, [new Date(clock.nowMs() + seconds * 1_000)]);
  };
  await db.database.query(
    `insert into bridge.backfills (source, feed, range_start, range_end, asked, next_try)
     values ('d', 'awards', 'epoch', 'epoch', 'epoch', 'epoch')`,
  );
  const read = async () => [await due(lanes.pull), await due(lanes.backfill), await due(lanes.suppliers)];
  const everything = [expect.arrayContaining(['d/awards', 'd/latest-bids']), ['d/awards'], ['d']];
  expect(await read()).toEqual(everything);
  await waitUntil(600);
  expect(await read(), 'it waits').toEqual([[], [], []]);
  clock.advance(-30_000);
  expect(await read(), 'it still waits after a small correction of the clock').toEqual([[], [], []]);
  clock.advance(30 * 86_400_000);
  await waitUntil(600);
  await read();
  clock.advance(-30 * 86_400_000);
  const [feeds, backfills] = await read();
  expect([feeds, backfills]).toEqual(everything.slice(0, 2));
  // The supplier list is due when its interval is over.
  clock.advance(900_000);
  expect((await read())[2]).toEqual(['d']);
});
