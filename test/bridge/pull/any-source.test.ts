/** The pull of one feed, with its SQL, against sources with every combination of quirks, while rows are written. */
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
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

const quirks: fc.Arbitrary<HostileQuirks> = fc
  .record<Partial<HostileQuirks>>({
    inclusiveAfter: fc.boolean(),
    inclusiveBefore: fc.boolean(),
    stamps: fc.constantFrom('micros', 'seconds', 'rounded'),
    boundsInSeconds: fc.boolean(),
    order: fc.constantFrom('ascending', 'descending', 'random'),
    paging: fc.constantFrom('page-number', 'offset', 'cursor'),
    pageMax: fc.integer({ min: 3, max: 12 }),
    lateMs: fc.constantFrom(0, 5_000, 20_000),
    lagMs: fc.constantFrom(0, 0, 5_000),
    skewMs: fc.constantFrom(0, -90_000, 90_000),
    showsDate: fc.constantFrom(true, true, true, false),
    dateSkewMs: fc.constantFrom(0, 60_000, -60_000),
    nothing: fc.constantFrom(0, 0, 0.1),
    undated: fc.constantFrom(0, 1),
    future: fc.boolean(),
    nextLoops: fc.constantFrom(false, false, false, true),
    commitOrdered: fc.constantFrom(false, false, false, true),
  })
  .map((drawn): HostileQuirks => {
    const quirk = { ...calm, ...drawn, declaresOrder: drawn.commitOrdered === true };
    if (quirk.commitOrdered)
      // The declaration promises these; the bounds may be inclusive or not.
      return {
        ...quirk,
        stamps: 'micros',
        boundsInSeconds: false,
        order: 'ascending',
        paging: 'cursor',
        lagMs: 0,
        undated: 0,
        future: false,
        nextLoops: false,
      };
    // No reader could read a stamp that holds more than a page when pages cannot be followed: pages are large then.
    if (quirk.nextLoops) return { ...quirk, pageMax: 200, future: false, undated: 0 };
    return quirk;
  });

test('with any quirks, the mirror holds what the watermark has passed, and in the end everything', async () => {
  await fc.assert(
    fc.asyncProperty(quirks, fc.integer({ min: 1, max: 2 ** 31 }), async (quirk, seed) => {
      const clock = testClock();
      const random = seeded(seed);
      const source = new HostileSource(quirk, clock, random);
      source.live(20, 15);
      const reader = await startReader({
        database: db.database,
        liveness,
        client: source.client,
        clock,
        settings: { page_size: quirk.nextLoops ? 200 : 8 },
      });
      for (let round = 0; round < 14; round += 1) {
        // Sometimes more rows in one instant than a page holds.
        if (random() < 0.2) source.live(1, 14, true);
        source.live(12, 6);
        const killed = new AbortController();
        const survives = random() < 0.85 ? Number.POSITIVE_INFINITY : source.requests + 1 + Math.floor(random() * 6);
        source.onRequest = () => {
          if (source.requests > survives) killed.abort(new Error('killed'));
        };
        await reader.pull(killed.signal);
        await reader.audit();
        const { watermark, last_error: lastError } = (await reader.checkpoint()) ?? {};
        expect(lastError ?? null).toBeNull();
        const held = await reader.mirror();
        for (const [id, value] of source.stateUpTo(watermark ?? '')) expect([id, held.get(id)]).toEqual([id, value]);
      }
      source.onRequest = () => undefined;
      source.writing = false;
      for (let round = 0; round < 14; round += 1) {
        source.live(20, 0);
        await reader.pull();
        await reader.audit();
      }
      expect(await reader.mirror()).toEqual(source.state);
      expect((await reader.checkpoint())?.failures).toBe(0);
    }),
    // Each run has some hundred requests: a failing run is shown without shrinking it.
    { numRuns: 4, endOnFailure: true },
  );
});

test('a feed that declares its order and one that does not end with the same mirror', async () => {
  const ordered = quirks.filter(({ commitOrdered }) => commitOrdered);
  await fc.assert(
    fc.asyncProperty(ordered, fc.integer({ min: 1, max: 2 ** 31 }), async (quirk, seed) => {
      const mirrors: Map<string, number>[] = [];
      const requests: number[] = [];
      for (const declares of [true, false]) {
        const clock = testClock();
        // No row is written during a read, so that both read the same.
        const source = new HostileSource({ ...quirk, declaresOrder: declares, nothing: 0 }, clock, seeded(seed));
        const { client } = source;
        const reader = await startReader({ database: db.database, liveness, client, clock });
        for (let round = 0; round < 6; round += 1) {
          source.writing = true;
          source.live(30, 12, round % 2 === 0);
          source.writing = false;
          await reader.pull();
        }
        await reader.pullFor(240);
        mirrors.push(await reader.mirror());
        requests.push(source.requests);
        expect(mirrors.at(-1)).toEqual(source.state);
      }
      expect(mirrors[0]).toEqual(mirrors[1]);
      // To prove the order takes five requests, once.
      expect(requests[0], 'requests of the feed that declares its order').toBeLessThanOrEqual((requests[1] ?? 0) + 5);
    }),
    { numRuns: 2, endOnFailure: true },
  );
});
