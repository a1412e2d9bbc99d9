import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { readQuotasLeft } from '#bridge/mirror/source/quotas-left.ts';
import { createSqlQuotas } from '#bridge/mirror/source/sql-quotas.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { Bucket, Quotas, QuotaUse } from '#client/quotas.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { settingsOf, startProcess, testClock } from '../../parts.ts';

const bucket = 'feeds.awards';
const minuteMs = 60_000;
const dayMs = 86_400_000;
/** How long a request counts: the minute, a thousandth of it, two seconds, and up to a slot of one second. */
const burstStayMs = 60_060 + 2_000 + 1_000;
const timeoutMs = 60_000;

let db: TestDatabase;
let sources = 0;
beforeAll(async () => {
  db = await createTestDatabase({ poolMax: 20 });
});

/** A source to which no request was sent yet. */
function newSource(quotas: SourceSettings['quotas'] = { feeds: { burst: 3, sustained: 100 } }): SourceSettings {
  sources += 1;
  const [source] = settingsOf({ name: `source-${sources}`, quotas, timeout_seconds: timeoutMs / 1000 }).sources;
  if (!source) throw new Error('no source');
  return source;
}

/** Thrown instead of sleeping. */
class WaitNeeded extends Error {
  readonly ms: number;
  constructor(ms: number) {
    super('a wait');
    this.ms = ms;
  }
}

/** A clock that stands still until a test moves it; a sleep throws WaitNeeded. */
function stillClock(startMs = Date.UTC(2030, 0, 1)) {
  let nowMs = startMs;
  const clock: Clock = { nowMs: () => nowMs, sleep: (ms) => Promise.reject(new WaitNeeded(ms)) };
  return Object.assign(clock, {
    advance: (ms: number) => {
      nowMs += ms;
    },
  });
}

/** How long the request would have to wait, by a sleep or by an error; undefined when it was let through. */
async function waitOf(quotas: Quotas, of: Bucket = bucket): Promise<number | undefined> {
  return tryTake(quotas, of).then((taken) => (typeof taken === 'number' ? taken : undefined));
}

async function tryTake(quotas: Quotas, of: Bucket = bucket): Promise<QuotaUse | number> {
  try {
    return await quotas.take(of);
  } catch (error) {
    if (error instanceof WaitNeeded) return error.ms;
    if (error instanceof AppError && error.code === 'too-many' && error.recovery.do === 'retry')
      return error.recovery.afterMs ?? 0;
    throw error;
  }
}

async function takeAndAnswer(quotas: Quotas, times: number): Promise<void> {
  for (let count = 0; count < times; count += 1) await (await quotas.take(bucket)).answered();
}

describe('a quota', () => {
  test('lets through as many requests as the window allows, and the next when the first has left it', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(), database: db.database, clock });
    await takeAndAnswer(quotas, 3);
    const waitMs = await waitOf(quotas);
    // Not less than the window, and not much more.
    expect(waitMs).toBeGreaterThanOrEqual(minuteMs);
    expect(waitMs).toBeLessThanOrEqual(burstStayMs);
    clock.advance((waitMs ?? 0) - 1);
    expect(await waitOf(quotas)).toBe(1);
    clock.advance(1);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('that is spent rejects with too-many and the time after which to try again', async () => {
    const quotas = createSqlQuotas({ source: newSource(), database: db.database, clock: testClock() });
    await takeAndAnswer(quotas, 3);
    const error = await quotas.take(bucket).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'too-many', recovery: { do: 'retry' } });
    expect((error as AppError).publicMessage).toMatch(
      /source "source-\d+" allows no further request of the kind feeds.awards/,
    );
  });

  test('that is free again within five seconds is waited for', async () => {
    const clock = testClock();
    const quotas = createSqlQuotas({ source: newSource(), database: db.database, clock });
    await takeAndAnswer(quotas, 3);
    clock.advance(burstStayMs - 4_000);
    await quotas.take(bucket);
    expect(clock.slept).toHaveLength(1);
    expect(clock.slept[0]).toBeLessThanOrEqual(4_000);
  });

  test('of each feed and of each source is separate', async () => {
    const clock = stillClock();
    const [one, other] = [newSource(), newSource()].map((source) =>
      createSqlQuotas({ source, database: db.database, clock }),
    );
    if (!one || !other) throw new Error('two sources');
    await takeAndAnswer(one, 3);
    expect(await waitOf(one)).toBeDefined();
    expect(await waitOf(one, 'feeds.latest-bids')).toBeUndefined();
    expect(await waitOf(one, 'suppliers')).toBeUndefined();
    expect(await waitOf(other)).toBeUndefined();
  });

  test('of the day is kept although that of the minute is free', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 10, sustained: 12 } });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(quotas, 10);
    clock.advance(burstStayMs);
    await takeAndAnswer(quotas, 2);
    expect(await waitOf(quotas)).toBeGreaterThan(dayMs - 2 * minuteMs);
    clock.advance(dayMs * 1.001 + 2_000 + 720_000);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('counts a request without an answer until it can no longer be under way', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 1, sustained: 100 } });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await quotas.take(bucket);
    clock.advance(burstStayMs);
    // The source may have received it only at the end of its time limit.
    expect(await waitOf(quotas)).toBeGreaterThan(timeoutMs - 5_000);
    clock.advance(timeoutMs + 5_000);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('is shared by processes that ask in the same moment', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 17, sustained: 100 } });
    const processes = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const { database } = await startProcess(db);
        return createSqlQuotas({ source, database, clock });
      }),
    );
    const waits = await Promise.all(Array.from({ length: 40 }, (_, index) => waitOf(processes[index % 4] as Quotas)));
    expect(waits.filter((wait) => wait === undefined)).toHaveLength(17);
  });

  test('is also kept where the clocks of two machines differ by two seconds', async () => {
    const time = stillClock();
    const source = newSource();
    const [slow, fast] = [0, 2_000].map((aheadMs) =>
      createSqlQuotas({
        source,
        database: db.database,
        clock: { nowMs: () => time.nowMs() + aheadMs, sleep: (ms) => time.sleep(ms) },
      }),
    );
    if (!slow || !fast) throw new Error('two processes');
    await takeAndAnswer(slow, 3);
    await waitOf(slow);
    expect(await waitOf(fast)).toBeGreaterThanOrEqual(minuteMs);
  });

  test('is left to others by a quarter when background work uses it', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 8, sustained: 100 } });
    const background = createSqlQuotas({ source, database: db.database, clock, background: true });
    const usual = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(background, 6);
    expect(await waitOf(background)).toBeGreaterThan(0);
    await takeAndAnswer(usual, 2);
    expect(await waitOf(usual)).toBeGreaterThan(0);
  });

  test('is used by background work at a fifth when the live pull would use all of it, and never by more', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 30, sustained: 40_000 } });
    const background = createSqlQuotas({ source, database: db.database, clock, background: true });
    const live = createSqlQuotas({ source, database: db.database, clock });
    const takeAll = async (quotas: Quotas, most: number) => {
      for (let count = 0; ; count += 1) {
        const taken = count < most ? await tryTake(quotas) : 0;
        if (typeof taken === 'number') return count;
        await taken.answered();
      }
    };
    // Spread over the minute, so that at no time more than one is free.
    for (let count = 0; count < 30; count += 1) {
      await takeAll(live, 1);
      clock.advance(2_000);
    }
    const used = { background: 0, live: 0, inFirstMinute: 0 };
    for (let second = 1; second <= 600; second += 1) {
      clock.advance(1_000);
      used.background += await takeAll(background, 5);
      used.live += await takeAll(live, 30);
      if (second === 59) used.inFirstMinute = used.background;
    }
    // Nothing in the minute for which it is refused, then one of thirty in each ten seconds.
    expect(used.inFirstMinute).toBe(0);
    expect(used.background).toBeGreaterThanOrEqual(40);
    expect(used.background).toBeLessThanOrEqual(55);
    expect(used.live).toBeGreaterThanOrEqual(4 * used.background);
  });

  test('is counted again by a process that was paused after counting', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 3, sustained: 100 } });
    let stops = 1;
    const database: Database = {
      ...db.database,
      query: async (...statement) => {
        const rows = await db.database.query<never>(...statement);
        if (stops > 0) clock.advance(120_000);
        stops -= 1;
        return rows;
      },
    };
    await createSqlQuotas({ source, database, clock }).take(bucket);
    // The request counts from now, not from two minutes ago.
    clock.advance(burstStayMs);
    const left = await readQuotasLeft(db.database, [source], timestampNow(clock));
    expect(left[0]).toMatchObject({ window: 'burst', left: 2 });
  });

  test('is not used up by a database that is always slow', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 50, sustained: 100 } });
    const database: Database = {
      ...db.database,
      query: async (...statement) => {
        const rows = await db.database.query<never>(...statement);
        clock.advance(6_000);
        return rows;
      },
    };
    await expect(createSqlQuotas({ source, database, clock }).take(bucket)).rejects.toMatchObject({
      code: 'unavailable',
      publicMessage: expect.stringContaining('took 6 s'),
    });
    const left = await readQuotasLeft(db.database, [source], timestampNow(clock));
    expect(left[0]).toMatchObject({ window: 'burst', left: 48 });
  });

  test('that is switched off counts no request', async () => {
    const clock = stillClock();
    const source = newSource({ enabled: false });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(quotas, 200);
    expect(await readQuotasLeft(db.database, [source], timestampNow(clock))).toEqual([]);
  });

  test('lets no request through while the database is away', async () => {
    const database = createDatabase({
      url: 'postgres://nobody@127.0.0.1:1/nowhere',
      log: silentLogger,
      applicationName: 'away',
    });
    const quotas = createSqlQuotas({ source: newSource(), database, clock: testClock() });
    await expect(quotas.take(bucket)).rejects.toMatchObject({ code: 'unavailable' });
    await database.close();
  });

  test('that was used up while the clock was ahead is free again when the clock is right', async () => {
    const source = newSource();
    const ahead = createSqlQuotas({ source, database: db.database, clock: stillClock(Date.UTC(2031, 0, 1)) });
    await takeAndAnswer(ahead, 3);
    const clock = stillClock();
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    expect(await waitOf(quotas)).toBeDefined();
    clock.advance(burstStayMs + timeoutMs + 5_000);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('can be read, also when no request was sent for long', async () => {
    const clock = stillClock();
    const source = newSource();
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(quotas, 2);
    const read = async () =>
      (await readQuotasLeft(db.database, [source], timestampNow(clock)))
        .filter((quota) => quota.source === source.name)
        .map(({ window, left }) => [window, left]);
    expect(await read()).toEqual([
      ['burst', 1],
      ['sustained', 98],
    ]);
    clock.advance(burstStayMs + timeoutMs + 5_000);
    expect(await read()).toEqual([
      ['burst', 3],
      ['sustained', 98],
    ]);
  });

  test('keeps no more rows than its windows have slots', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 1_000, sustained: 100_000 } });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    for (let count = 0; count < 300; count += 1) {
      await takeAndAnswer(quotas, 1);
      clock.advance(700_000);
    }
    const [row] = await db.database.query<{ rows: number }>(
      'select count(*) as rows from bridge.quota_uses where source = $1',
      [source.name],
    );
    expect(row?.rows).toBeLessThan(125);
  });
});

describe('a refusal by the source', () => {
  const unlimited = { feeds: { burst: 1_000, sustained: 10_000 } };

  test('stops all processes for as long as the source asks', async () => {
    const clock = stillClock();
    const source = newSource(unlimited);
    const [first, second] = [0, 1].map(() => createSqlQuotas({ source, database: db.database, clock }));
    if (!first || !second) throw new Error('two processes');
    expect(await (await first.take(bucket)).refused(90_000)).toBe(90_000);
    expect([await waitOf(first), await waitOf(second)]).toEqual([90_000, 90_000]);
    expect(await waitOf(second, 'feeds.latest-bids')).toBeUndefined();
    clock.advance(90_000);
    expect(await waitOf(second)).toBeUndefined();
  });

  test('without a time stops all processes, longer each time, up to a quarter of an hour', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(unlimited), database: db.database, clock });
    const waits: number[] = [];
    for (let count = 0; count < 9; count += 1) {
      const waitMs = await (await quotas.take(bucket)).refused(undefined);
      waits.push(waitMs / 1000);
      clock.advance(waitMs);
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 900, 900]);
    await (await quotas.take(bucket)).answered();
    expect(await (await quotas.take(bucket)).refused(undefined)).toBe(10_000);
  });

  test('that asks for no wait at all is obeyed only once', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(unlimited), database: db.database, clock });
    const waits: number[] = [];
    for (let count = 0; count < 4; count += 1) {
      const waitMs = await (await quotas.take(bucket)).refused(0);
      waits.push(waitMs / 1000);
      clock.advance(waitMs);
    }
    expect(waits).toEqual([0, 10, 20, 40]);
  });

  test('of several requests that were under way together counts as one', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(unlimited), database: db.database, clock });
    const uses = [await quotas.take(bucket), await quotas.take(bucket), await quotas.take(bucket)];
    clock.advance(100);
    const waits: number[] = [];
    for (const use of uses) waits.push(await use.refused(undefined));
    expect(waits).toEqual([10_000, 10_000, 10_000]);
  });

  test('lets one request probe after the pause, and the others when that was answered', async () => {
    const clock = stillClock();
    const source = newSource(unlimited);
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await (await quotas.take(bucket)).refused(10_000);
    clock.advance(10_000);
    const probe = await quotas.take(bucket);
    expect(await waitOf(quotas)).toBe(4_000);
    await probe.answered();
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('whose probing request died is probed again', async () => {
    const clock = stillClock();
    const source = newSource(unlimited);
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await (await quotas.take(bucket)).refused(10_000);
    clock.advance(10_000);
    await quotas.take(bucket);
    clock.advance(4_000);
    expect(await waitOf(createSqlQuotas({ source, database: db.database, clock }))).toBeUndefined();
  });

  test('stops all processes also where the quota is switched off', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource({ enabled: false }), database: db.database, clock });
    await (await quotas.take(bucket)).refused(30_000);
    expect(await waitOf(quotas)).toBe(30_000);
  });
});

/**
 * Simulates the source's own sliding window, which counts a request when it arrives. Processes whose clocks differ by
 * up to two seconds count requests, send them, receive answers, and die before or after sending.
 */
describe('with processes that die at any time', () => {
  const limit = { burst: 4, sustained: 30 };
  const step = fc.record({
    process: fc.nat(2),
    gapMs: fc.oneof(
      { weight: 6, arbitrary: fc.nat(3_000) },
      { weight: 3, arbitrary: fc.integer({ min: 3_000, max: 70_000 }) },
      { weight: 1, arbitrary: fc.integer({ min: 70_000, max: 40_000_000 }) },
    ),
    arriveMs: fc.oneof(fc.nat(20), fc.nat(200), fc.nat(timeoutMs)),
    answerMs: fc.oneof(fc.nat(10), fc.nat(5_000)),
    /** Tries again at the very moment at which it was told to. */
    eager: fc.boolean(),
    fate: fc.constantFrom('answered', 'answered', 'answered', 'dies before sending', 'dies before the answer'),
  });

  test("the source's own window never contains too many requests, and no request waits without need", async () => {
    let letThrough = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 20, maxLength: 60 }),
        fc.array(fc.integer({ min: 0, max: 1_900 }), { minLength: 3, maxLength: 3 }),
        async (steps, aheadMs) => {
          const source = newSource({ feeds: limit });
          const time = stillClock();
          const start = (index: number) =>
            createSqlQuotas({
              source,
              database: db.database,
              clock: { nowMs: () => time.nowMs() + (aheadMs[index] ?? 0), sleep: (ms) => time.sleep(ms) },
            });
          const processes = [start(0), start(1), start(2)];
          const arrivals: number[] = [];
          const takes: number[] = [];
          const heldBack: number[] = [];
          let upcoming: { atMs: number; happens: () => void | Promise<void> }[] = [];
          const passTo = async (untilMs: number) => {
            for (;;) {
              const [next] = upcoming.sort((a, b) => a.atMs - b.atMs);
              if (!next || next.atMs > untilMs) break;
              upcoming = upcoming.slice(1);
              time.advance(next.atMs - time.nowMs());
              await next.happens();
            }
            time.advance(untilMs - time.nowMs());
          };
          for (const { process, gapMs, arriveMs, answerMs, eager, fate } of steps) {
            await passTo(time.nowMs() + gapMs);
            let taken = await tryTake(processes[process] as Quotas);
            if (eager && typeof taken === 'number') {
              await passTo(time.nowMs() + taken);
              taken = await tryTake(processes[process] as Quotas);
            }
            const nowMs = time.nowMs();
            const quotas = processes[process] as Quotas;
            if (typeof taken === 'number') {
              const since = (ms: number) => takes.filter((at) => at > nowMs - ms - timeoutMs - 10_000).length;
              const hasReason = since(burstStayMs) >= limit.burst || since(dayMs * 1.001 + 800_000) >= limit.sustained;
              if (!hasReason) heldBack.push(nowMs);
              continue;
            }
            takes.push(nowMs);
            letThrough += 1;
            if (fate === 'dies before sending') {
              processes[process] = start(process);
              continue;
            }
            upcoming.push({ atMs: nowMs + arriveMs, happens: () => void arrivals.push(nowMs + arriveMs) });
            const endMs = nowMs + Math.min(timeoutMs, arriveMs + answerMs);
            upcoming.push({
              atMs: endMs,
              happens: async () => {
                if (fate === 'answered' && processes[process] === quotas) await taken.answered();
                else processes[process] = start(process);
              },
            });
          }
          await passTo(time.nowMs() + timeoutMs);
          expect(heldBack, 'held back without a reason').toEqual([]);
          arrivals.sort((a, b) => a - b);
          for (const [windowMs, most] of [
            [minuteMs, limit.burst],
            [dayMs, limit.sustained],
          ] as const)
            for (const [index, atMs] of arrivals.entries())
              expect(
                arrivals.slice(0, index + 1).filter((other) => other > atMs - windowMs).length,
              ).toBeLessThanOrEqual(most);
        },
      ),
      { numRuns: 120 },
    );
    expect(letThrough).toBeGreaterThan(500);
  }, 120_000);
});
