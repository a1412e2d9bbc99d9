import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import { openCheckpoints } from '#bridge/pull/feed/checkpoint-store.ts';
import { startPull } from '#bridge/pull/start-pull.ts';
import { lanes } from '#bridge/settings/bridge-deps.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import type { Signals, Work } from '#platform/queue.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());

/** The pulling part of a process for these sources. No worker runs by itself, and none gets a lease. */
async function start(names: readonly string[], noLease: () => Promise<undefined> = async () => undefined) {
  const clock = testClock();
  const concurrency = new Map<string, number>();
  const works = new Map<string, Work>();
  const signals: Signals = {
    signal: async () => undefined,
    wakeHere: () => undefined,
    work: (lane, options, work) => {
      concurrency.set(lane, options.concurrency);
      works.set(lane, work);
    },
    close: async () => undefined,
  };
  const settings = bridgeSettings.parse({
    sources: names.map((name) => ({ name, base_url: 'http://127.0.0.1:1', api_key: 'k', suppliers: true })),
  });
  const shared = { settings, clock, fetch: testOutgoing().fetch, registry: new Registry() };
  const part = startPull(
    {
      ...shared,
      tls: { certPem: '', keyPem: '' },
      dataDir: '',
      sweepMs: 10_000,
      actionDays: 730,
      database: db.database,
      signals,
      secrets: createSecretBox(Buffer.alloc(32, 7)),
      log: silentLogger,
    },
    noLease,
    createSourceClients(shared),
  );
  for (const { name, feeds } of settings.sources)
    for (const feed of feeds) await openCheckpoints(db.database, [{ source: name, feed }], timestampNow(clock));
  const due = async (lane: string) => (await part.lanes.find((candidate) => candidate.lane === lane)?.due()) ?? [];
  const pull = (key: string) => works.get(lanes.pull)?.(key, new AbortController().signal);
  return { clock, concurrency, due, pull };
}

test('a source whose pulls wait for its quota delays no feed of another source', async () => {
  const { concurrency } = await start(['a', 'b', 'c']);
  expect(concurrency.get(lanes.pull)).toBe(3 * 4);
  expect(concurrency.get(lanes.backfill)).toBeGreaterThanOrEqual(3 * 2);
});

test('the sweep wakes no feed that is being read here, and wakes it once that has ended', async () => {
  const ended = Promise.withResolvers<undefined>();
  const { due, pull } = await start(['e'], () => ended.promise);
  const others = (await due(lanes.pull)).filter((key) => key.startsWith('e/') && key !== 'e/awards');
  expect(others).toHaveLength(3);
  const pulling = pull('e/awards');
  expect((await due(lanes.pull)).filter((key) => key.startsWith('e/'))).toEqual(others);
  ended.resolve(undefined);
  await pulling;
  expect(await due(lanes.pull)).toEqual(expect.arrayContaining(['e/awards', ...others]));
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
