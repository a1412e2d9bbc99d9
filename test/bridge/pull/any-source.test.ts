/** The pull of one feed, with its SQL, against sources with every combination of bad quirks and with live writers. */
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLivenessLock, type LivenessLock } from '#bridge/leases/liveness-lock.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { type HostileQuirks, HostileSource, seeded } from './hostile-source.ts';
import { startReader } from './reader.ts';

let db: TestDatabase;
let liveness: LivenessLock;

beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await createLivenessLock({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

const quirks: fc.Arbitrary<HostileQuirks> = fc
  .record<HostileQuirks>({
    inclusiveAfter: fc.boolean(),
    inclusiveBefore: fc.boolean(),
    stamps: fc.constantFrom('micros', 'seconds', 'rounded seconds'),
    bounds: fc.constantFrom('micros', 'seconds'),
    order: fc.constantFrom('ascending', 'descending', 'by id'),
    paging: fc.constantFrom('page number', 'offset', 'snapshot'),
    pageMax: fc.integer({ min: 3, max: 12 }),
    lateSeconds: fc.constantFrom(0, 5, 20),
    lagSeconds: fc.constantFrom(0, 0, 5),
    skewSeconds: fc.constantFrom(0, -90, 90),
    dateSkewSeconds: fc.constantFrom(undefined, 0, 60, -60),
    blank: fc.constantFrom(0, 0, 0.1),
    unstamped: fc.boolean(),
    future: fc.boolean(),
    circle: fc.constantFrom(false, false, false, true),
    commitOrdered: fc.constantFrom(false, false, false, true),
  })
  .map((quirk) => {
    if (quirk.commitOrdered)
      // What the declaration promises; the bounds may be as they like.
      return {
        ...quirk,
        stamps: 'micros',
        bounds: 'micros',
        order: 'ascending',
        paging: 'snapshot',
        lagSeconds: 0,
        unstamped: false,
        future: false,
        circle: false,
      };
    // Pages that cannot be followed, and stamps that hold more than a page: nothing could read that.
    if (quirk.circle) return { ...quirk, pageMax: 200, future: false, unstamped: false };
    return quirk;
  });

test('whatever the quirks of a feed, what the watermark has passed is held, and in the end everything is', async () => {
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
        settings: { page_size: quirk.circle ? 200 : 8 },
      });
      for (let round = 0; round < 14; round += 1) {
        // Sometimes more in one instant than a page holds.
        if (random() < 0.2) source.live(1, 14, true);
        source.live(12, 6);
        const killed = new AbortController();
        const survives = random() < 0.85 ? Number.POSITIVE_INFINITY : source.requests + 1 + Math.floor(random() * 6);
        source.onRequest = () => {
          if (source.requests > survives) killed.abort(new Error('killed'));
        };
        await reader.pull(killed.signal);
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
      }
      expect(await reader.mirror()).toEqual(source.state);
      expect((await reader.checkpoint())?.failures).toBe(0);
    }),
    // Each run has some hundred requests: a failing one is shown as it is.
    { numRuns: 15, endOnFailure: true },
  );
});

test('the way of a commit-ordered feed and the careful one end with the same mirror', async () => {
  const ordered = quirks.filter(({ commitOrdered }) => commitOrdered);
  await fc.assert(
    fc.asyncProperty(ordered, fc.integer({ min: 1, max: 2 ** 31 }), async (quirk, seed) => {
      const mirrors: Map<string, number>[] = [];
      const requests: number[] = [];
      for (const declares of [true, false]) {
        const clock = testClock();
        // Nobody writes while it is read, so that both read the same.
        const source = new HostileSource({ ...quirk, declares, blank: 0 }, clock, seeded(seed));
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
      expect(requests[0], 'and cheaper').toBeLessThan(requests[1] ?? 0);
    }),
    { numRuns: 4, endOnFailure: true },
  );
});
